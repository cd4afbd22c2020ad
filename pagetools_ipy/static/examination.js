// @ts-check
/**
 * Why a page is not in the notebook, as seen from within the page.
 *
 * Knows how browsers keep pages from a bridge and where pages declare tools. Does not know where its findings
 * are shown. It stands alone, so that its text can also be run in a page that may load nothing; nothing of
 * the page is changed.
 */

/** @typedef {{standing: 'ok' | 'note' | 'problem', what: string, next: string}} Finding */
/**
 * @typedef {{end: 'let in' | 'closed' | 'blocked' | 'thrown' | 'waiting', code: number, reason: string}} Dial
 * How a WebSocket to the bridge ended; `blocked`: an error and no close
 */
/**
 * What there is to know of a page.
 * @typedef {object} Facts
 * @property {{origin: string, isHere: boolean, isSecure: boolean, isTop: boolean}} page
 * @property {string} browser what it calls itself
 * @property {Reach | null} reach null where the page is not to reach the bridge by itself
 * @property {any} client what our client in the page says of itself, null where there is none
 * @property {'native' | 'other' | 'none'} webmcp
 * @property {string[]} places where else the page may declare tools
 * @property {{names: string[] | null, problem: string}} tools null where nobody can tell
 * @property {boolean} hasStorage
 */
/**
 * @typedef {object} Reach
 * @property {string} bridge its origin
 * @property {string} permission the state of the browser's leave to reach this machine, empty where unknown
 * @property {boolean} isHealthy whether it answers a plain request
 * @property {Dial} dial
 * @property {boolean} isForbidden whether the page's own policy forbids it
 */

/** How long a bridge may take to answer, unless a cell keeps it busy or the browser asks the person. */
const PATIENCE_MS = 3000;
/** Safari sends `error` and `close` in separate tasks; only a `close` that stays out means "blocked". */
const CLOSE_FOLLOWS_MS = 1000;
const HERE = /^(|localhost|.+\.localhost|127\.[\d.]+|\[::1\])$/;
const NEXT_WITHOUT_REACH = 'or have the notebook open it, past all this: %pagetools open URL';

/** @returns {Finding} */
const finding = (standing, what, next = '') => ({ standing, what, next });

/** What `read()` gives; the fallback where the page or the browser does not allow it. */
function tried(read, fallback) {
  try {
    return read() ?? fallback;
  } catch {
    return fallback;
  }
}

const pause = (window, ms) => new Promise((resolve) => window.setTimeout(resolve, ms));

// -- looking

/** What the browser calls itself, such as "Chrome 156". @returns {string} */
function browserOf({ navigator }) {
  // Chromium adds a name that means nothing, so that nobody relies on the list.
  const brands = (navigator.userAgentData?.brands ?? []).filter(({ brand }) => !/not.a.brand/i.test(brand));
  const known = brands.find(({ brand }) => brand !== 'Chromium') ?? brands[0];
  if (known) return `${known.brand} ${known.version}`;
  const [, name, version] = /(Firefox|Version|Chrome)\/(\d+)/.exec(navigator.userAgent ?? '') ?? [];
  return name ? `${name === 'Version' ? 'Safari' : name} ${version}` : 'this browser';
}

/** Whether a context is the browser's own: polyfills take its name. */
function isNative(context) {
  const method = context && Object.getPrototypeOf(context)?.registerTool;
  const isMarked = context?.__isWebMCPPolyfill || context?.__isBrowserMcpServer;
  if (typeof method !== 'function' || isMarked) return false;
  return /\[native code\]/.test(Function.prototype.toString.call(method));
}

/** The browser's context, also where something stands in front of it; or null. */
function nativeContext({ document, Document }) {
  const inherited = () =>
    Object.getOwnPropertyDescriptor(Document?.prototype ?? {}, 'modelContext')?.get?.call(document);
  const found = [() => document.modelContext, inherited].map((read) => tried(read, null));
  return found.find(isNative) ?? null;
}

/** @returns {string[]} */
function placesOf(window) {
  const { document, navigator } = window;
  const has = (selector) => document.querySelector?.(selector);
  const places = {
    'document.modelContext': () => document.modelContext,
    'navigator.modelContext': () => navigator.modelContext,
    'window.agent': () => window.agent,
    'window.__AIUI__.tools': () => window.__AIUI__?.tools,
    'forms with a toolname': () => has('form[toolname]'),
    'the embed of MCP-B': () => has('script[src*="webmcp-local-relay"], iframe[data-webmcp-relay]'),
  };
  return Object.entries(places).flatMap(([name, read]) => (tried(read, null) ? [name] : []));
}

/** Names of the tools there are, as far as they can be asked for. */
async function toolsOf(window, client, native) {
  const { document, navigator } = window;
  if (client) return { names: client.namespaces ?? [], problem: '' };
  // Some builds never list anything once they were asked before the page had a tool.
  const isEarly = document.readyState === 'loading';
  const contexts = [
    () => (isEarly ? null : (native ?? document.modelContext)),
    () => navigator.modelContext,
  ].map((read) => tried(read, null));
  const asked = contexts.find((context) => context?.getTools ?? context?.listTools);
  if (!asked) return { names: null, problem: '' };
  try {
    const tools = await (asked.getTools ?? asked.listTools).call(asked);
    return { names: [...tools].map(({ name }) => String(name)), problem: '' };
  } catch (error) {
    return { names: null, problem: String(error?.message ?? error) };
  }
}

/** @returns {Promise<Dial>} how a socket to the bridge ends, which closes it at once where all is well */
function dial(window, bridge) {
  const ended = (end, code = 0, reason = '') => ({ end, code, reason });
  return new Promise((resolve) => {
    let socket;
    try {
      socket = new window.WebSocket(`${bridge.replace('http', 'ws')}/tools`, ['pagetools.check']);
    } catch (error) {
      return resolve(ended('thrown', 0, String(error?.message ?? error)));
    }
    socket.addEventListener('close', ({ code, reason }) =>
      resolve(ended(code === 1000 ? 'let in' : 'closed', code, reason)),
    );
    socket.addEventListener('error', async () => {
      await pause(window, CLOSE_FOLLOWS_MS);
      resolve(ended('blocked'));
    });
    pause(window, PATIENCE_MS).then(() => {
      resolve(ended('waiting'));
      socket.close();
    });
  });
}

/** @returns {Promise<boolean>} */
function answers(window, bridge) {
  const controller = new AbortController();
  pause(window, PATIENCE_MS).then(() => controller.abort());
  const options = { mode: 'no-cors', cache: 'no-store', signal: controller.signal };
  return window.fetch(`${bridge}/health`, options).then(
    () => true,
    () => false,
  );
}

/** @returns {Promise<Reach>} */
async function reachOf(window, bridge) {
  const { document, navigator } = window;
  const address = bridge.replace('http', 'ws');
  let isForbidden = false;
  const onViolation = ({ blockedURI, disposition }) => {
    if (disposition !== 'report' && blockedURI.startsWith(address)) isForbidden = true;
  };
  document.addEventListener('securitypolicyviolation', onViolation);
  const query = tried(() => navigator.permissions.query({ name: 'loopback-network' }), null);
  const asked = Promise.resolve(query).catch(() => null);
  const [isHealthy, dialled] = await Promise.all([answers(window, bridge), dial(window, bridge)]);
  document.removeEventListener('securitypolicyviolation', onViolation);
  return { bridge, permission: (await asked)?.state ?? '', isHealthy, dial: dialled, isForbidden };
}

/**
 * @param {import('./pagetools/values.js').BrowserWindow} window
 * @param {string | null} bridge its origin; null does not try to reach it
 * @returns {Promise<Facts>}
 */
export async function look(window, bridge) {
  const { location } = window;
  const client = tried(() => window.pagetools.status(), null);
  const native = nativeContext(window);
  const places = placesOf(window);
  return {
    page: {
      origin: location.origin,
      isHere: location.protocol !== 'file:' && HERE.test(location.hostname),
      isSecure: window.isSecureContext,
      isTop: tried(() => window.top === window, true),
    },
    browser: browserOf(window),
    reach: bridge === null ? null : await reachOf(window, bridge),
    client,
    webmcp: native ? 'native' : places.some((name) => name.endsWith('modelContext')) ? 'other' : 'none',
    places,
    tools: await toolsOf(window, client, native),
    hasStorage: tried(() => Boolean(window.sessionStorage && window.navigator.locks), false),
  };
}

// -- judging

/** Whether the bridge lets the page in, or what keeps it. @param {Facts} facts */
function judgeReach({ page, reach, client }) {
  if (!reach) return [];
  const host = reach.bridge.replace('http://', '');
  const socket = reach.bridge.replace('http', 'ws');
  const { end, code, reason } = reach.dial;
  const problem = (what, next) => [finding('problem', what, next)];
  if (client?.state === 'open' && client.url?.startsWith(`${socket}/`)) {
    return [finding('ok', `This page is connected to the bridge on ${host}.`)];
  }
  if (end === 'let in') return [finding('ok', `The bridge on ${host} answers and lets this page in.`)];
  if (reach.isForbidden) {
    return problem(
      `This page's Content-Security-Policy keeps it from ${host}.`,
      `Add ${socket} and ${reach.bridge} to its connect-src, ${NEXT_WITHOUT_REACH}`,
    );
  }
  if (end === 'closed' && code >= 4400) {
    return problem(
      `The bridge on ${host} does not let this page in: ${reason} (${code}).`,
      `Call pagetools.connect({port, token}) with the bridge's token, ${NEXT_WITHOUT_REACH}`,
    );
  }
  if (!page.isHere && !page.isSecure) {
    return problem(
      `${page.origin} is not a secure context, and browsers keep such a page from this machine.`,
      `Serve it over https: or from localhost, ${NEXT_WITHOUT_REACH}`,
    );
  }
  return judgeSilence(page, reach, host, problem);
}

/** Why nothing answers. */
function judgeSilence(page, { permission, isHealthy, dial: { end, reason } }, host, problem) {
  if (!page.isHere && permission === 'denied') {
    return problem(
      `The browser keeps this page from ${host}: it may not reach apps on this device.`,
      page.isTop
        ? `Allow "Apps on device" in its site settings and reload it, ${NEXT_WITHOUT_REACH}`
        : `Give its frame allow="loopback-network", ${NEXT_WITHOUT_REACH}`,
    );
  }
  if (!page.isHere && permission === 'prompt') {
    return problem(
      `The browser waits for leave to let this page reach ${host}.`,
      'Look at the page and click Allow in the bar at its top; where there is no bar, reload the page',
    );
  }
  if (end === 'thrown' || end === 'blocked') {
    return problem(
      `The browser opens no connection from ${page.origin} to ${host}${reason && `: ${reason}`}.`,
      `Safari opens no ws:// from an https:// page: use another browser, ${NEXT_WITHOUT_REACH}`,
    );
  }
  if (end === 'waiting') {
    return problem(
      `The bridge on ${host} takes long to answer.`,
      'Wait until the cell that runs in the notebook has ended, or start the bridge with --thread',
    );
  }
  if (isHealthy) {
    return problem(
      `What answers on ${host} takes no connection.`,
      'Is it the port of another program, or does an extension of the browser block it?',
    );
  }
  return problem(`No bridge answers on ${host}.`, 'Run %pagetools start in the notebook');
}

/** What our client says, or that it is not there. @param {Facts} facts */
function judgeClient({ client, reach }) {
  if (!reach) return [];
  if (!client) {
    const how = `await import('${reach.bridge}/pagetools.js') loads it now, a script element for good`;
    return [finding('note', 'Our client is not on this page.', how)];
  }
  if (client.state === 'open') {
    const isOurs = client.url?.startsWith(reach.bridge.replace('http', 'ws'));
    if (isOurs) return [];
    const { port } = new URL(reach.bridge);
    const what = `The client on this page is connected to another bridge, ${client.url}.`;
    return [finding('problem', what, `pagetools.connect({port: ${port}}) brings it to this one`)];
  }
  const why = client.reason ? `: ${client.reason}` : '';
  const isClosed = client.state === 'closed';
  const next = isClosed ? 'Once that is mended, call pagetools.connect()' : 'It tries again by itself';
  return [finding('problem', `The client on this page is not connected${why}.`, next)];
}

/** Whether the browser and the page have WebMCP. @param {Facts} facts */
function judgeWebmcp({ page, browser, webmcp, tools }) {
  const findings = [];
  if (webmcp === 'native') {
    findings.push(finding('ok', `${browser} has its own WebMCP, and it is on.`));
  } else if (!page.isSecure) {
    const what = 'This page is not a secure context, so it has no WebMCP of the browser.';
    findings.push(finding('note', what, 'Serve it over https: or from localhost'));
  } else {
    const next =
      'Our client works without it. To have it, switch it on at chrome://flags/#enable-webmcp-testing, or ' +
      'start the browser with --enable-features=WebMCP';
    findings.push(finding('note', `${browser}'s own WebMCP is off, or it has none.`, next));
  }
  if (tools.problem) {
    const next = 'Has its Permissions-Policy tools=(), or is it in a frame without allow="tools"?';
    findings.push(finding('problem', `Its tools cannot be listed: ${tools.problem}.`, next));
  }
  return findings;
}

/** What the page declares. @param {Facts} facts */
function judgeTools({ reach, tools, places, client }) {
  const has = `It has ${places.join(', ') || 'no place where pages declare tools'}`;
  // Where the bridge has the page anyway, it knows the tools.
  if (!reach) return tools.names?.length ? [] : [finding('note', `${has}.`)];
  if (tools.names?.length) {
    const what = client ? 'tools of ' : 'the tools ';
    return [finding('ok', `It declares ${what}${tools.names.slice(0, 12).join(', ')}.`)];
  }
  if (tools.names === null && places.length > 0) return [finding('note', `${has}.`)];
  const next = 'Do they come later, or after signing in? pagetools.register(ns, tools) declares some';
  return [finding('note', `${has}, and no tools are declared.`, next)];
}

/** @param {Facts} facts */
function judgeStorage({ hasStorage }) {
  if (hasStorage) return [];
  const what = 'This page has no sessionStorage or no Web Locks: its tab may get a new identifier on reload.';
  return [finding('note', what, 'Allow site data for it, and serve it over https: or from localhost')];
}

/**
 * What the facts mean, and what to do about it.
 * @param {Facts} facts @returns {Finding[]}
 */
export function judge(facts) {
  return [judgeReach, judgeClient, judgeWebmcp, judgeTools, judgeStorage].flatMap((part) => part(facts));
}

/**
 * @param {import('./pagetools/values.js').BrowserWindow} window
 * @param {string | null} bridge as for `look`
 */
export async function examine(window, bridge) {
  return judge(await look(window, bridge));
}

/** The same of a page that is not meant to have tools, for what is to be learned of its browser. */
export async function examineBrowser(window, bridge) {
  const facts = await look(window, bridge);
  return [judgeReach, judgeWebmcp, judgeStorage].flatMap((part) => part(facts));
}
