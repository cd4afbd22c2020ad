// @ts-check
/**
 * The line that a page dials: a WebSocket to the bridge its script came from, kept open.
 *
 * Knows how browsers keep a page from a bridge, and when to try again. Does not know what is said there.
 *
 * The person sits at the notebook, so the page's tab is usually hidden, and the timers of hidden tabs are
 * slowed down to one a second or one a minute.
 */
import { AbortController, Math, Number, String, TypeError, URL } from './globals.js';
import { createLine } from './line.js';
import { after, describeError } from './values.js';

/** @typedef {import('./line.js').Line} Line */
/** @typedef {'connecting' | 'open' | 'waiting' | 'closed'} State `closed` stays so until `connect()` */

const PATIENCE_MS = 1500;
/** Safari sends `error` and `close` in separate tasks; only a `close` that stays out means "blocked". */
const CLOSE_FOLLOWS_MS = 1000;
const FIRST_RETRY_MS = 100;
const RETRY_CAP_MS = 3000;
/** For a while after a loss: under a second, as the timers of hidden tabs fire on whole seconds. */
const RETRY_CAP_AFTER_LOSS_MS = 700;
const RECENT_LOSS_MS = 15 * 60_000;
/** Until a first probe got through, now and then without one: something in the page may hold probes back. */
const BLIND_DIAL_EVERY = 20;
/** A connection that lived this long was a good one: after it, retries start quickly again. */
const GOOD_CONNECTION_MS = 5000;
const PAGE_HIDDEN = 4001;
/** Close codes after which the same request gets the same answer: token, origin. */
const FINAL_CODES = [4401, 4403];
export const SUPERSEDED = 4409;
const SUPERSEDED_TIMES = 3;
const LOOPBACK = ['127.0.0.1', 'localhost', '[::1]'];

/** The bridge that serves a script, or null where the script's address does not tell it. */
const bridgeOf = (script) => (/^https?:/.test(script) ? new URL('.', script) : null);

/**
 * @param {import('./line.js').PageSide} page
 * @param {object} turns
 * @param {() => void} turns.onTurn told when the line opens or ends
 * @param {() => void} turns.onSuperseded told when another document has got the tab's id
 * @param {() => void} turns.onConnect told when the page's script wants a connection
 */
export function createDialler(page, { onTurn, onSuperseded, onConnect }) {
  const { window, now } = page;
  const { document, location, console } = window;
  /** @type {URL | null} */
  let base = null;
  let token = '';
  /** @type {State} */
  let state = 'closed';
  /** @type {string | null} */
  let reason = null;
  /** Ends with the present attempt or connection. */
  let attempt = new AbortController();
  /** @type {WebSocket | null} */
  let socket = null;
  /** @type {Line | null} */
  let line = null;
  let failures = 0;
  let superseded = 0;
  let openedAt = -Infinity;
  let lostAt = -Infinity;
  let canProbe = true;
  let probesWork = false;
  let asked = false;
  let unannounced = true;
  let wasClosed = true;

  const host = () => base?.host;
  const address = (path) => new URL(path, /** @type {URL} */ (base));
  const socketAddress = () => {
    const result = address('tools');
    result.protocol = result.protocol.replace('http', 'ws');
    return result;
  };

  return {
    get line() {
      return line;
    },
    connect,
    disconnect,
    dial: dialBridgeOf,
    sleep,
    wake,
    hurry,
    judgePolicy,
    status: () => ({
      state,
      url: base && socketAddress().href,
      clientId: line?.clientId ?? null,
      reason,
    }),
    /** Whether the bridge on a port of this machine has this page on the line. */
    isOpenTo: (port) =>
      state === 'open' && LOOPBACK.includes(base?.hostname ?? '') && base?.port === String(port),
  };

  /** @param {string} script the address of the page's script */
  function dialBridgeOf(script) {
    base = bridgeOf(script);
    begin();
  }

  function begin() {
    failures = 0;
    if (!base) return rest('no bridge is known: call pagetools.connect({port})');
    state = 'connecting';
    reason = null;
    return dial();
  }

  async function dial() {
    hangUp();
    attempt = new AbortController();
    asked = false;
    const { signal } = attempt;
    await page.identify();
    const probing = new AbortController();
    signal.addEventListener('abort', () => probing.abort());
    after(window, PATIENCE_MS, signal, () => askWhyItTakesLong(signal, probing));
    const isBlindTurn = !probesWork && failures % BLIND_DIAL_EVERY === 0;
    const probes = failures > 0 && canProbe && !isBlindTurn;
    const answered = !probes || (await probe(probing.signal));
    if (signal.aborted) return;
    if (answered) openSocket(signal, probes);
    else failed(`no bridge on ${host()}; run %pagetools start in the notebook`);
  }

  /**
   * Asks with a plain request whether anybody is there: after about fourteen WebSockets that failed, Chrome
   * delays a page's next ones, but not its requests.
   * @returns {Promise<boolean>} false when certainly nobody is there
   */
  function probe(signal) {
    const options = { mode: 'no-cors', cache: 'no-store', signal };
    return window.fetch(address('health').href, options).then(
      () => (probesWork = true),
      () => signal.aborted || !canProbe,
    );
  }

  function openSocket(signal, probed) {
    const protocols = ['pagetools.v1', ...(token ? [`pagetools.token.${token}`] : [])];
    let opening;
    try {
      opening = new window.WebSocket(socketAddress().href, protocols);
    } catch (error) {
      return rest(`${blockedText()} (${describeError(error).message})`);
    }
    socket = opening;
    state = 'connecting';
    const on = (type, run) => opening.addEventListener(type, run, { signal });
    on('open', () => greet(opening));
    on('message', (event) => line?.receive(event.data));
    on('close', (event) => socketClosed(event, probed));
    on('error', () => after(window, CLOSE_FOLLOWS_MS, signal, () => rest(blockedText())));
  }

  function greet(opened) {
    asked = false;
    // A closing socket does not refuse a message, it loses it.
    const post = (text) => opened.readyState === 1 && opened.send(text);
    line = createLine(page, { post, onWelcome: welcomed });
    line.greet();
  }

  function welcomed(given) {
    state = 'open';
    reason = given ?? null;
    openedAt = now();
    if (unannounced) console.info(`pagetools: connected to the bridge on ${host()}`);
    unannounced = false;
    onTurn();
  }

  function hangUp(code = 1000, text = '') {
    const wasOpen = state === 'open';
    if (wasOpen) {
      lostAt = now();
      if (lostAt - openedAt > GOOD_CONNECTION_MS) failures = superseded = 0;
    }
    attempt.abort();
    socket?.close(code, text);
    line?.drop();
    socket = line = null;
    if (!wasOpen) return;
    state = 'closed';
    onTurn();
  }

  // -- as the page's person or script wants it

  /** Dials, with other settings where given. @param {{port?: number | string, token?: string}} settings */
  function connect({ port, token: given } = {}) {
    if (port !== undefined && !(Number(port) > 0 && Number(port) < 65536)) {
      throw new TypeError(`connect({port}): ${port} is not a port number`);
    }
    if (given && !/^[\w.~-]+$/.test(given)) throw new TypeError('connect({token}): this is not a token');
    const nextBase = port === undefined ? base : new URL(`http://127.0.0.1:${port}/`);
    const isSame = nextBase?.host === base?.host;
    // A token is one bridge's secret, not for whoever listens on another port.
    const nextToken = given ?? (isSame ? token : '');
    if (state === 'open' && isSame && nextToken === token) return;
    hangUp(1000, 'connect() was called');
    base = nextBase;
    token = nextToken;
    onConnect();
    begin();
  }

  /** Closes, and stays closed until `connect()`. */
  function disconnect(text = 'disconnect() was called') {
    hangUp(1000, text);
    state = 'closed';
    reason = text;
  }

  /** @param {boolean} isAsleep whether the page is put aside, not left for good */
  function sleep(isAsleep) {
    wasClosed = state === 'closed';
    if (isAsleep) line?.fallAsleep();
    hangUp(PAGE_HIDDEN, 'the page was left');
    state = 'closed';
  }

  function wake() {
    if (!wasClosed) begin();
  }

  /** Somebody looks at the page: no need to sit out the pause. */
  function hurry() {
    if (state === 'waiting' && !asked && document.visibilityState === 'visible') dial();
  }

  // -- when it does not work

  function socketClosed({ code, reason: given }, probed) {
    const text = `the bridge closed the connection: ${given || 'no reason given'} (${code})`;
    if (FINAL_CODES.includes(code)) rest(text);
    else if (code === SUPERSEDED) giveWay(text);
    else if (code >= 4400) failed(text, RETRY_CAP_MS);
    else if (probed && !line) failed(`what answers on ${host()} is no bridge, or refuses this page`);
    else failed('');
  }

  /** While this page did not answer, another document of a duplicated tab got its id. */
  function giveWay(text) {
    hangUp();
    superseded += 1;
    if (superseded >= SUPERSEDED_TIMES) {
      superseded = 0;
      return rest(text);
    }
    onSuperseded();
    return begin();
  }

  /** Plans the next attempt, then says why this one failed; '' leaves that to the next one's probe. */
  async function failed(text, pause = 0) {
    if (asked) return rest(`the browser did not let this page reach ${host()}; reload it to be asked again`);
    hangUp();
    const cap = now() - lostAt < RECENT_LOSS_MS ? RETRY_CAP_AFTER_LOSS_MS : RETRY_CAP_MS;
    const wait = Math.max(pause, Math.min(cap, FIRST_RETRY_MS * 2 ** failures));
    failures += 1;
    state = 'waiting';
    reason = text || reason || 'not connected';
    attempt = new AbortController();
    after(window, wait, attempt.signal, dial);
    const denied = (await permission()) === 'denied' && openedAt === -Infinity;
    if (state !== 'waiting') return;
    if (denied) rest(deniedText());
    else if (text) say(text);
  }

  async function askWhyItTakesLong(signal, probing) {
    const granted = await permission();
    if (signal.aborted || state === 'open') return;
    if (line) {
      say('waiting to be allowed in the notebook');
    } else if (granted === 'prompt') {
      asked = true;
      say(`the browser asks whether this page may reach ${host()}: click Allow in the browser's bar`);
    } else {
      say(`${host()} takes long to answer; is a cell running in the notebook?`);
      probing.abort();
    }
  }

  /** The browser's permission to reach this machine; a page that comes from it needs none. */
  async function permission() {
    if (/^(|localhost|.+\.localhost|127\.[\d.]+|\[::1\])$/.test(location.hostname)) return 'granted';
    const query = window.navigator.permissions?.query({ name: 'loopback-network' });
    return (await query?.catch(() => null))?.state;
  }

  function judgePolicy({ disposition, blockedURI }) {
    if (!base || disposition === 'report') return;
    // The probe only spares failures: where the policy forbids it, the socket is dialled without.
    if (blockedURI.startsWith(base.origin)) canProbe = false;
    if (blockedURI.startsWith(socketAddress().origin)) rest(blockedText());
  }

  function blockedText() {
    const { origin } = socketAddress();
    const mixed = location.protocol === 'https:' ? '; Safari opens no ws:// from an https:// page' : '';
    return `the page may not open ${origin}: add it to connect-src of its Content-Security-Policy${mixed}`;
  }

  function deniedText() {
    const otherwise = 'a frame needs allow="loopback-network", an http:// page cannot be allowed';
    return `the browser keeps this page from ${host()}: allow "Apps on device" in its site settings (${otherwise})`;
  }

  /** Stays closed until `connect()`. */
  function rest(text) {
    hangUp();
    state = 'closed';
    say(text);
  }

  function say(text) {
    reason = text;
    unannounced = true;
    page.warn(text);
  }
}
