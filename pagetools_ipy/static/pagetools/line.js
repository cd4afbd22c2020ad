// @ts-check
/**
 * One connection to one bridge: what it was told of the page, and the calls that came over it.
 *
 * Knows the protocol's messages. Does not know what carries them, nor when a connection begins or ends: that
 * is for whoever makes the line to say, with `greet`, `retire` and `drop`.
 */
import { AbortController, DOMException, JSON, Map, Object, RangeError, Set, String } from './globals.js';
import {
  after,
  describeError,
  encode,
  excess,
  gate,
  hasAsciiKeys,
  pace,
  resultJson,
  shortlyAfter,
  toJson,
} from './values.js';

/** @typedef {import('./values.js').BrowserWindow} BrowserWindow */
/** @typedef {import('./tools.js').Tool} Tool */
/** @typedef {import('./tools.js').ToolSet} ToolSet */
/** @typedef {{url: string, title: string, visible: boolean, focused: boolean}} Snapshot */
/**
 * What all lines of a page share.
 * @typedef {object} PageSide
 * @property {BrowserWindow} window
 * @property {() => number} now
 * @property {{id: string, isTop: boolean}} tab
 * @property {() => boolean} isIdentified whether the tab's id is known
 * @property {() => Promise<void>} identify ends when it is; the page's channels are brought up to date then
 * @property {() => Map<string, ToolSet>} sets the tools now, by namespace
 * @property {() => Snapshot} look
 * @property {() => number} nextSeq
 * @property {(page: Snapshot) => object} about who the page is, for hello
 * @property {() => string} webmcp the runtime of the page's own tools
 * @property {(tabId: string, line: Line) => void} rename takes the id that a bridge gives the tab
 * @property {() => void} renew takes another id, as another document has this one
 * @property {(text: string) => void} warn
 */
/** @typedef {ReturnType<typeof createLine>} Line */

/** The bridge cuts a flood off, so what goes beyond a burst is thinned out to a rate, per millisecond. */
const REPORTS = { burst: 100, rate: 0.1 };
const STATES = { burst: 8, rate: 0.004 };
/** Of changed tools: those that a page registers one by one as it loads come in few messages. */
const DECLARATIONS = { gaps: [0, 10, 50, 250], ms: 1000 };
/** Up to here a page can be kept awake for a wait. */
const BRIEF_MS = 50;

/**
 * @param {PageSide} page
 * @param {{post: (text: string) => void, delegates?: boolean, onWelcome?: (reason?: string) => void,
 *   onClosed?: (code: number) => void}} carrier
 *   `delegates`: tools whose function only the browser has are left to whoever reads what is posted;
 *   `onClosed`: told where the bridge has to say in a message that it has ended the line
 */
export function createLine(
  page,
  { post: send, delegates = false, onWelcome = () => {}, onClosed = (_code) => {} },
) {
  const { window, now } = page;
  const life = new AbortController();
  /** @type {Map<string, AbortController>} */
  const calls = new Map();
  const mayReport = gate(REPORTS, now);
  const mayTell = gate(STATES, now);
  const declarations = pace(DECLARATIONS, now);
  /** The tools, as the bridge knows them. @type {Map<string, string>} */
  let told = new Map();
  let toldPage = '';
  let toldWebmcp = '';
  let isGreeted = false;
  let isPlanned = false;
  let maxBytes = Infinity;

  const line = { clientId: null, isGreeted: () => isGreeted, greet, introduce, declare, tell, tellInTurn };
  return Object.assign(line, { fallAsleep, receive, retire, drop });

  function post(text) {
    if (!life.signal.aborted) send(text);
  }

  // -- what the bridge is told

  /** Says hello and declares everything. */
  function greet() {
    isGreeted = true;
    told = new Map();
    introduce();
    declare();
  }

  /** Says hello, also when the page finds itself in another tab: its calls and its tools stay as they are. */
  function introduce() {
    if (!isGreeted) return;
    const seen = page.look();
    toldPage = JSON.stringify(seen);
    toldWebmcp = page.webmcp();
    post(encode({ type: 'hello', ...page.about(seen) }));
  }

  /** Sends the tools that differ from what the bridge was told, now or when it is their turn. */
  function declare() {
    if (!isGreeted) return;
    const wait = declarations.wait();
    if (wait > 0) declareIn(wait);
    else declareNow();
  }

  function declareIn(ms) {
    if (isPlanned) return;
    isPlanned = true;
    const wait = ms > BRIEF_MS ? after : shortlyAfter;
    wait(window, ms, life.signal, () => {
      isPlanned = false;
      declare();
    });
  }

  function declareNow() {
    const current = page.sets();
    const manifestOf = (ns) => current.get(ns)?.manifest ?? '[]';
    const namespaces = new Set([...told.keys(), ...current.keys()]);
    const changed = [...namespaces].filter((ns) => manifestOf(ns) !== (told.get(ns) ?? '[]'));
    if (changed.length === 0) return;
    declarations.count();
    if (page.webmcp() !== toldWebmcp) introduce();
    for (const ns of changed) {
      told.set(ns, manifestOf(ns));
      post(encode({ type: 'register', ns, url: window.location.href }, { tools: manifestOf(ns) }));
    }
  }

  /** Sends what the person sees, where that is new to the bridge; false if it has to wait. */
  function tell(isAllowed = () => true) {
    const seen = page.look();
    if (!isGreeted || JSON.stringify(seen) === toldPage) return true;
    if (!isAllowed()) return false;
    toldPage = JSON.stringify(seen);
    post(encode({ type: 'state', seq: page.nextSeq(), ...seen }));
    return true;
  }

  /** For a page that may be animating its title. */
  function tellInTurn() {
    return tell(mayTell);
  }

  function fallAsleep() {
    post(encode({ type: 'state', seq: page.nextSeq(), ...page.look(), asleep: true }));
  }

  // -- what the bridge says

  function receive(text) {
    if (life.signal.aborted) return;
    let message;
    try {
      message = JSON.parse(text);
    } catch {
      return;
    }
    if (message?.type === 'ping') {
      tell();
      post(encode({ type: 'pong', n: message.n }));
    } else if (message?.type === 'call') call(message);
    else if (message?.type === 'cancel') cancel(message);
    else if (message?.type === 'welcome') welcomed(message);
    else if (message?.type === 'closed') onClosed(message.code);
    else if (message?.type === 'rejected') {
      const { code, message: why, path } = message;
      window.console.warn(`pagetools: the bridge rejected ${path || 'a message'}: ${why} (${code})`);
    }
  }

  function welcomed(message) {
    line.clientId = message.clientId;
    maxBytes = message.maxBytes ?? Infinity;
    if (message.tabId) page.rename(message.tabId, line);
    onWelcome(message.reason);
  }

  // -- calls

  /** @returns {Tool} */
  function find(ns, name) {
    const notFound = (what, names) =>
      new DOMException(`${what}; there is ${[...names].join(', ') || 'none'}`, 'NotFoundError');
    const current = page.sets();
    const tools = current.get(ns)?.tools;
    if (!tools) throw notFound(`this page has no namespace "${ns}"`, current.keys());
    const tool = tools.get(name);
    if (!tool) throw notFound(`"${ns}" has no tool "${name}"`, tools.keys());
    return tool;
  }

  /** Runs a tool and answers. Nothing here waits for a timer. */
  async function call({ callId, ns, name, args }) {
    if (calls.has(callId)) return;
    if (delegates && page.sets().get(ns)?.tools.get(name)?.native && hasAsciiKeys(args)) {
      post(encode({ type: 'native', callId, name, args: args ?? {} }));
      return;
    }
    const controller = new AbortController();
    const { signal } = controller;
    calls.set(callId, controller);
    const progress = reporter(callId);
    const answer = (fields, raw) => encode({ type: 'result', callId, ...fields }, raw);
    let text;
    try {
      const value = await find(ns, name).execute(args ?? {}, { signal, progress: progress.report });
      text = answer({ ok: true }, { value: await resultJson(value, `${ns}/${name}`) });
    } catch (thrown) {
      const error = describeError(thrown);
      text = answer({ ok: false, error: signal.aborted ? { ...error, name: 'AbortError' } : error });
    }
    const over = excess(text, maxBytes);
    if (over)
      text = answer({ ok: false, error: { name: 'RangeError', message: `result too large: ${over}` } });
    progress.flush();
    calls.delete(callId);
    // What the tool changed in the page comes before its answer.
    if (isPlanned && !declarations.isFull()) declareNow();
    tell();
    post(text);
  }

  /** Sends progress; what the rate holds back goes out with the next report or before the answer. */
  function reporter(callId) {
    let held = '';
    const flush = () => {
      if (held) post(held);
      held = '';
    };
    /** @type {import('./tools.js').Report} */
    const report = (first, total, message, value) => {
      if (!calls.has(callId)) return;
      const given = typeof first === 'object' ? first : { progress: first, total, message, value };
      const numbers = { progress: given.progress, total: given.total, message: given.message };
      const partial = given.value === undefined ? undefined : { value: toJson(given.value) };
      const text = encode({ type: 'progress', callId, ...numbers }, partial);
      const over = excess(text, maxBytes);
      if (over) throw new RangeError(`progress too large: ${over}`);
      held = text;
      if (mayReport()) flush();
    };
    return { report, flush };
  }

  function cancel({ callId, reason }) {
    calls.get(callId)?.abort(new DOMException(String(reason ?? 'cancelled'), 'AbortError'));
  }

  // -- the end

  /** Nothing more is told, but calls that run are still answered. */
  function retire() {
    isGreeted = false;
  }

  /** Ends the calls of a connection that is gone: there is nobody left to answer. */
  function drop() {
    isGreeted = false;
    life.abort();
    const gone = new DOMException('the connection to the notebook closed', 'AbortError');
    for (const controller of calls.values()) controller.abort(gone);
  }
}
