// @ts-check
/**
 * The page's side: declares a page's tools to the bridge in a notebook and answers its calls.
 *
 * The bridge decides who may connect, checks arguments, routes calls and times them; none of that is known
 * here. This module keeps one WebSocket open, declares everything anew on each connect (registrations are
 * state, the socket is not), and answers each call exactly once, on the connection that brought it.
 *
 * The person sits at the notebook, so the page's tab is usually hidden, and the timers of hidden tabs are
 * slowed down to one a second or one a minute. Hence a call never waits for a timer.
 */

/** @typedef {{progress: number, total?: number, message?: string, value?: unknown}} Progress */
/** @typedef {(now: number | Progress, total?: number, message?: string, value?: unknown) => void} Report */
/** @typedef {(args: any, context: {signal: AbortSignal, progress: Report}) => unknown} Execute */
/**
 * @typedef {{name: string, description?: string, title?: string, inputSchema?: object, outputSchema?: object,
 *   annotations?: object, execute: Execute}} Tool
 */
/** @typedef {{tools: Map<string, Tool>, manifest: string}} ToolSet `manifest`: what is sent, as JSON text */
/** @typedef {'connecting' | 'open' | 'waiting' | 'closed'} State `closed` stays so until `connect()` */
/**
 * @typedef {{state: State, url: string | null, clientId: string | null, tabId: string, reason: string | null,
 *   namespaces: string[]}} Status
 */
/** @typedef {any} BrowserWindow a window, or what a test puts in its place */

const VERSION = '0.1.0';
const TAB_KEY = 'pagetools.tab';
/** Of a frame that is asked for in vain: its id must never stand in the way of its top document's. */
const FRAME_KEY = 'pagetools.frame';
const MANIFEST_KEYS = ['name', 'title', 'description', 'inputSchema', 'outputSchema', 'annotations'];
const MAX_HTML_CHARS = 2000;
const DEBOUNCE_MS = 50;
const PEER_WAIT_MS = 150;
const ANSWER_WAIT_MS = 100;
const SANDBOX_WAIT_MS = 500;
/** On the way back, the page that is left lets go of the tab's id only after this one is shown. */
const LET_GO_MS = 50;
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
const ADOPT_EVERY_MS = 500;
const ADOPT_TRIES = 40;
/** The bridge cuts a flood off, so what goes beyond a burst is thinned out to a rate, per millisecond. */
const REPORTS = { burst: 100, rate: 0.1 };
const STATES = { burst: 8, rate: 0.004 };
const PAGE_HIDDEN = 4001;
/** Close codes after which the same request gets the same answer: token, origin. */
const FINAL_CODES = [4401, 4403];
const SUPERSEDED = 4409;
const SUPERSEDED_TIMES = 3;

/**
 * A timer that ends with `signal` and, once fired, leaves nothing on it.
 * @param {BrowserWindow} window @param {number} ms @param {AbortSignal} signal @param {() => void} run
 */
function after(window, ms, signal, run) {
  if (signal.aborted) return;
  const stop = () => window.clearTimeout(timer);
  const timer = window.setTimeout(() => {
    signal.removeEventListener('abort', stop);
    run();
  }, ms);
  signal.addEventListener('abort', stop, { once: true });
}

/**
 * A function that says whether one more thing may pass now.
 * @param {{burst: number, rate: number}} allowance @param {() => number} now
 */
function gate({ burst, rate }, now) {
  let left = burst;
  let at = now();
  return () => {
    left = Math.min(burst, left + (now() - at) * rate);
    at = now();
    return left >= 1 && left-- > 0;
  };
}

/** @param {BrowserWindow} window */
function randomId(window) {
  const bytes = window.crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
}

// ---- Values on the wire ----------------------------------------------------------------------------------

/** What a value is, also when it comes from another frame, where `instanceof` fails. */
const tagOf = (value) => Object.prototype.toString.call(value).slice(8, -1);

function refuse(why) {
  throw new TypeError(why);
}

const items = (value) => [...value];
const nameAndMessage = ({ name, message }) => ({ name, message });
const blobRefused = () => refuse('it holds a Blob; return its text() or arrayBuffer()');

/** Stand-ins for what JSON would write as `{}`. @type {Map<string, (value: any) => unknown>} */
const STAND_INS = new Map(
  Object.entries({
    Map: items,
    Set: items,
    NodeList: items,
    URLSearchParams: items,
    FormData: items,
    Headers: items,
    RegExp: String,
    DataView: ({ buffer, byteOffset, byteLength }) => [...new Uint8Array(buffer, byteOffset, byteLength)],
    ImageData: ({ width, height, data }) => ({ width, height, data: [...data] }),
    WeakMap: () => refuse('it holds a WeakMap, which cannot be read'),
    WeakSet: () => refuse('it holds a WeakSet, which cannot be read'),
    HTMLCollection: items,
    Error: nameAndMessage,
    DOMException: nameAndMessage,
    ArrayBuffer: (buffer) => [...new Uint8Array(buffer)],
    Promise: () => refuse('it holds a promise; await it first'),
    Blob: blobRefused,
    File: blobRefused,
  }),
);

/** @param {string} _key @param {any} value */
function standIn(_key, value) {
  if (value === null || typeof value !== 'object') return value;
  const convert = STAND_INS.get(tagOf(value));
  if (convert) return convert(value);
  if (ArrayBuffer.isView(value)) return Array.from(/** @type {any} */ (value));
  if (typeof value.outerHTML !== 'string' || typeof value.nodeType !== 'number') return value;
  const html = value.outerHTML;
  return html.length > MAX_HTML_CHARS ? `${html.slice(0, MAX_HTML_CHARS - 1)}…` : html;
}

/** Whether JSON.stringify loses nothing of `value`; with a replacer it would be several times slower. */
function isPlain(value) {
  if (value === null || typeof value !== 'object') return true;
  if (Array.isArray(value)) return value.every(isPlain);
  if (Object.getPrototypeOf(value) !== Object.prototype) return value instanceof Date;
  for (const key in value) if (!isPlain(value[key])) return false;
  return typeof value.toJSON !== 'function';
}

/**
 * The JSON text of a value.
 * @throws {unknown} If it has none: a cycle, a BigInt, a function, whatever a getter or toJSON throws.
 */
function toJson(value) {
  let text;
  try {
    text = JSON.stringify(value ?? null);
    // In this order: what JSON.stringify came through is finite, so looking at it ends too.
    if (!isPlain(value)) text = JSON.stringify(value, standIn);
  } catch {
    // An element may carry a framework's cycles; its stand-in is a string.
    text = JSON.stringify(value, standIn);
  }
  if (text === undefined) throw new TypeError(`a ${typeof value} has no JSON form`);
  return text;
}

/** One message; `raw` holds fields that are JSON text already. @param {Record<string, string>} raw */
function encode(fields, raw = {}) {
  const tail = Object.entries(raw).map(([key, text]) => `,"${key}":${text}`);
  return `${JSON.stringify({ v: 1, ...fields }).slice(0, -1)}${tail.join('')}}`;
}

/** A canvas or an image Blob as MCP image content; anything else as it is. @param {any} value */
async function imageAsContent(value) {
  const content = (mimeType, data) => ({ content: [{ type: 'image', data, mimeType }] });
  const tag = tagOf(value);
  if (tag === 'HTMLCanvasElement') return content('image/png', value.toDataURL('image/png').split(',')[1]);
  const blob = tag === 'OffscreenCanvas' ? await value.convertToBlob() : value;
  if (!['Blob', 'File'].includes(tagOf(blob)) || !blob.type.startsWith('image/')) return value;
  const characters = Array.from(new Uint8Array(await blob.arrayBuffer()), (byte) =>
    String.fromCharCode(byte),
  );
  return content(blob.type, btoa(characters.join('')));
}

async function resultJson(value, tool) {
  try {
    return toJson(await imageAsContent(value));
  } catch (error) {
    return refuse(`result of ${tool} is not serialisable: ${describeError(error).message}`);
  }
}

/** An error's own `data`; its `code` and `cause`, where there are any, beside it. @param {any} error */
function dataOf(error) {
  /** @type {Record<string, any>} */
  const found = {};
  for (const key of ['code', 'cause', 'data']) {
    try {
      if (Object.hasOwn(error, key)) found[key] = JSON.parse(toJson(error[key]));
    } catch {
      continue; // the error itself matters more than a part of it that has no JSON form
    }
  }
  const { data, ...beside } = found;
  if (Object.keys(beside).length === 0) return data;
  return tagOf(data) === 'Object' ? { ...beside, ...data } : found;
}

/** Whatever was thrown, in a form that can be sent. @param {any} thrown */
function describeError(thrown) {
  try {
    if (thrown === null || typeof thrown !== 'object') return { name: 'Error', message: String(thrown) };
    const { name = 'Error', message = toJson(thrown), stack } = thrown;
    const text = { name: String(name), message: String(message), stack: stack && String(stack) };
    return { ...text, data: dataOf(thrown) };
  } catch {
    return { name: 'Error', message: 'the tool threw a value that cannot be read' };
  }
}

/** By how much a message is over the limit, in words, or '' when it is not. */
function excess(text, maxBytes) {
  // A UTF-16 unit takes at most three bytes in UTF-8, so most messages need no measuring.
  if (text.length * 3 <= maxBytes) return '';
  const bytes = new TextEncoder().encode(text).length;
  const inMiB = (count) => `${Math.ceil((count / 2 ** 20) * 10) / 10} MiB`;
  return bytes > maxBytes ? `${inMiB(bytes)} > ${inMiB(maxBytes)}` : '';
}

// ---- Tools -----------------------------------------------------------------------------------------------

/** The JSON text of what is declared of a tool. @throws {TypeError} If it could not be offered or called. */
function manifestOf(tool, where) {
  if (typeof tool?.name !== 'string' || !tool.name) refuse(`${where} needs a name (a non-empty string)`);
  const which = `${where} ("${tool.name}")`;
  if (typeof (tool.description ?? '') !== 'string') refuse(`${which}: description must be a string`);
  if (typeof tool.execute !== 'function') refuse(`${which} needs execute (a function of (args, context))`);
  for (const key of ['inputSchema', 'outputSchema', 'annotations']) {
    if (tool[key] != null && tagOf(tool[key]) !== 'Object') refuse(`${which}: ${key} must be an object`);
  }
  const declared = MANIFEST_KEYS.filter((key) => tool[key] != null).map((key) => [key, tool[key]]);
  try {
    return toJson(Object.fromEntries(declared));
  } catch (error) {
    return refuse(`${which} has no JSON form: ${describeError(error).message}`);
  }
}

/** @param {string} ns @param {Tool[]} tools @returns {ToolSet} @throws {TypeError} */
function toolSet(ns, tools) {
  if (typeof ns !== 'string' || !ns) refuse('register(ns, tools): ns must be a non-empty string');
  if (!Array.isArray(tools)) refuse(`register("${ns}", tools): tools must be an array, not ${tagOf(tools)}`);
  const manifests = tools.map((tool, index) => manifestOf(tool, `tools[${index}] of "${ns}"`));
  const byName = new Map(tools.map((tool) => [tool.name, tool]));
  const twice = tools.find((tool) => byName.get(tool.name) !== tool);
  if (twice) refuse(`"${ns}" has two tools named "${twice.name}"`);
  return { tools: byName, manifest: `[${manifests.join()}]` };
}

/**
 * Reads a page's `window.__AIUI__.tools` as if its namespaces were registered here. What is wrong with it
 * becomes a warning and costs only the part that is wrong.
 * @param {BrowserWindow} window @param {AbortSignal} signal
 * @param {() => void} onChange @param {(text: string) => void} warn
 */
function adoptedTools(window, signal, onChange, warn) {
  /** @type {any} */
  let registry = null;
  /** @type {any} */
  let unsubscribe;
  /** @type {Map<string, ToolSet>} */
  let sets = new Map();
  let stale = false;

  const guarded = (part, run) => {
    try {
      return run();
    } catch (error) {
      warn(`window.__AIUI__.tools${part}: ${describeError(error).message}`);
      return undefined;
    }
  };
  const changed = () => {
    stale = true;
    onChange();
  };
  const adapted = (ns, { name, description = '', inputSchema }) => {
    const tool = { name, description, inputSchema, execute: (args) => registry.call(ns, name, args) };
    manifestOf(tool, `a tool of "${ns}"`);
    return tool;
  };
  const read = () => {
    const found = new Map();
    for (const entry of registry.list()) {
      const sound = (tool) => guarded('.list', () => [adapted(entry.ns, tool)]) ?? [];
      guarded('.list', () => found.set(entry.ns, toolSet(entry.ns, entry.tools.flatMap(sound))));
    }
    return found;
  };
  const leave = () => unsubscribe && guarded('.onChange', () => unsubscribe());
  signal.addEventListener('abort', leave);

  /** Follows the page's registry; false while there is none. */
  const look = () => {
    const present = guarded('', () => window.__AIUI__?.tools);
    if (typeof present?.list === 'function' && present !== registry) {
      leave();
      registry = present;
      unsubscribe = guarded('.onChange', () => registry.onChange(changed));
      changed();
    }
    return registry !== null;
  };
  const keepLooking = (tries) => {
    if (!look() && tries > 0) after(window, ADOPT_EVERY_MS, signal, () => keepLooking(tries - 1));
  };
  return {
    look,
    keepLooking,
    /** The namespaces now. Read only when asked: some pages change them hundreds of times a second. */
    get sets() {
      if (stale) {
        stale = false;
        sets = guarded('.list', read) ?? sets;
      }
      return sets;
    },
  };
}

// ---- The tab and what the person sees of it --------------------------------------------------------------

/**
 * All windows of a tab, its top one first; those of another origin, too, can be listed and written to.
 * @param {BrowserWindow} top @returns {BrowserWindow[]}
 */
function windowsOf(top) {
  // A page may have a variable called `length`.
  const frames = Array.from({ length: top.length }, (_, index) => top[index]).filter(Boolean);
  return [top, ...frames.flatMap(windowsOf)];
}

/**
 * The tab's id: kept in sessionStorage, so that it survives a reload, and owned through a Web Lock, so that a
 * duplicated tab, which gets a copy of the storage, notices that the id is taken. The bridge has the last word.
 * A frame goes by the id that another window of its tab owns, whatever its origin. Where none owns one, it
 * owns one itself, until it hears of a window that comes before it.
 * @param {BrowserWindow} window
 * @param {() => void} onMove told when a frame finds itself in another tab than it thought
 */
function tabIdentity(window, onMove) {
  const { document, navigator, top } = window;
  const isTop = top === window;
  const key = isTop ? TAB_KEY : FRAME_KEY;
  let id = randomId(window);
  /** The window that owns the id, once that is known. @type {BrowserWindow} */
  let owner = null;
  /** Gives up the lock, where one is held or asked for. @type {(() => void) | null} */
  let letGo = null;
  let answered = (_isFound) => {};
  /** From a claim to its release. */
  let turn = new AbortController();

  const storage = (use) => {
    try {
      return use(window.sessionStorage);
    } catch {
      return null; // sandboxed or switched off: the id lives in memory
    }
  };
  const store = () => storage((kept) => kept.setItem(key, id));

  const lock = () =>
    new Promise((resolve, reject) => {
      const released = new Promise((release) => (letGo = () => release(undefined)));
      const hold = (held) => {
        resolve(held !== null);
        return held && released;
      };
      navigator.locks.request(`${key}:${id}`, { ifAvailable: true }, hold).catch(reject);
    });

  /** Without a secure context there are no locks, only the question whether another document has the id. */
  const askPeers = () =>
    new Promise((resolve) => {
      const channel = new window.BroadcastChannel(key);
      let owned = false;
      letGo = () => channel.close();
      channel.onmessage = ({ data }) => {
        if (owned && data?.wants === id) channel.postMessage({ has: id });
        if (data?.has === id) resolve(false);
      };
      channel.postMessage({ wants: id });
      after(window, PEER_WAIT_MS, turn.signal, () => resolve((owned = true)));
    });

  /** True when no other document has the id; also in an opaque origin, which cannot know. */
  const own = () => {
    letGo?.();
    return (navigator.locks ? lock() : askPeers()).catch(() => true);
  };

  /** Also what a frame follows, so that whichever is first after a reload knows it, or that it is taken. */
  const keep = () => {
    store();
    own();
  };

  // -- among the windows of the tab

  const say = (to, what) => to.postMessage({ [TAB_KEY]: what }, '*');
  const sayToAll = (what) => {
    for (const other of windowsOf(top)) if (other !== window) say(other, what);
  };

  /** Asks whose id it is; false when nobody says. */
  const ask = () =>
    new Promise((resolve) => {
      answered = resolve;
      sayToAll({ wanted: true });
      // A frame that cannot keep an id over a reload leaves it to one that can.
      const wait = storage(Boolean) ? ANSWER_WAIT_MS : SANDBOX_WAIT_MS;
      after(window, wait, turn.signal, () => resolve(false));
    });

  /** So that all windows of a tab end up with one owner, and a frame cannot speak for its top document. */
  const comesBefore = (source) => {
    const windows = windowsOf(top);
    const place = (other) => windows.indexOf(other) + 1 || Infinity;
    return place(source) <= place(owner);
  };

  const hear = ({ data, source }) => {
    const said = data?.[TAB_KEY];
    if (!said || source?.top !== top) return;
    if (said.wanted && owner === window) say(source, { id });
    if (isTop || !said.id || typeof said.id !== 'string' || !comesBefore(source)) return;
    const isNew = said.id !== id;
    owner = source;
    id = said.id;
    answered(true);
    if (isNew || !letGo) keep();
    if (isNew) onMove();
  };

  const lead = () => {
    owner = window;
    sayToAll({ id });
  };

  const take = (next) => {
    id = next;
    keep();
    lead();
  };

  return {
    isTop,
    get id() {
      return id;
    },
    /** @param {number} [pause] asking sooner would throw the page that is left out of its cache */
    async claim(pause) {
      turn = new AbortController();
      const { signal } = turn;
      if (document.prerendering) {
        // What a prerendering page writes into sessionStorage is lost.
        const once = { once: true, signal };
        await new Promise((resolve) => document.addEventListener('prerenderingchange', resolve, once));
      }
      if (pause) await new Promise((resolve) => after(window, pause, signal, () => resolve(null)));
      window.addEventListener('message', hear, { signal });
      if (!isTop && (await ask())) return;
      id = storage((kept) => kept.getItem(key)) || id;
      store();
      const isFree = await own();
      if (owner || signal.aborted) return;
      if (isFree) lead();
      // Another frame of the same tab may have been quicker; else the tab was duplicated.
      else if (isTop || !(await ask())) take(randomId(window));
    },
    /** @param {string} next the bridge's decision */
    rename(next) {
      if (owner === window) take(next);
      else id = next;
    },
    /** Leaves the id to whoever has it now. */
    renew() {
      if (owner === window) take(randomId(window));
    },
    /** Makes way for the tab's next document; stored again, as the page may have emptied its storage. */
    release() {
      turn.abort();
      if (owner) store();
      owner = null;
      letGo?.();
      letGo = null;
    },
  };
}

/** @param {BrowserWindow} window */
const snapshot = ({ document, location }) => ({
  url: location.href,
  title: document.title,
  visible: document.visibilityState === 'visible',
  // Not from focus events: a click into a cross-site frame blurs the page, which still has the focus.
  focused: document.hasFocus(),
});

/**
 * Tells of everything that may change the snapshot.
 * @param {BrowserWindow} window @param {AbortSignal} signal @param {() => void} changed
 */
function watchPage(window, signal, changed) {
  const { document, history, navigation } = window;
  const on = (target, ...types) =>
    types.forEach((type) => target.addEventListener(type, changed, { signal }));
  on(window, 'focus', 'blur');
  on(document, 'visibilitychange');
  // The head, not the title: frameworks replace the title element, and some the head. SVG has no head.
  const observe = () => {
    const root = document.documentElement;
    observer.disconnect();
    observer.observe(document, { childList: true });
    if (root) observer.observe(root, { childList: true });
    const titled = document.head ?? root;
    if (titled) observer.observe(titled, { childList: true, subtree: true, characterData: true });
  };
  const observer = new window.MutationObserver(() => {
    observe();
    changed();
  });
  observe();
  signal.addEventListener('abort', () => observer.disconnect());
  // In a sandboxed frame there is an API that tells nothing.
  if (navigation?.currentEntry) {
    on(navigation, 'currententrychange');
    return;
  }
  on(window, 'popstate', 'hashchange');
  for (const name of ['pushState', 'replaceState']) {
    const original = history[name];
    const wrapper = (...args) => {
      original.apply(history, args);
      changed();
    };
    history[name] = wrapper;
    signal.addEventListener('abort', () => history[name] === wrapper && (history[name] = original));
  }
}

// ---- One connection --------------------------------------------------------------------------------------

/**
 * An open socket and the calls that came over it.
 * @param {WebSocket} socket @param {(ns: string, name: string) => Execute} find @param {() => number} now
 * @param {() => void} beforeAnswer tells what a tool changed in the page before it answers
 */
function createLink(socket, find, now, beforeAnswer) {
  /** @type {Map<string, AbortController>} */
  const calls = new Map();
  const mayReport = gate(REPORTS, now);
  const link = { clientId: null, maxBytes: Infinity, post, call, cancel, drop };

  function post(text) {
    // A closing socket does not refuse a message, it loses it.
    if (socket.readyState === 1) socket.send(text);
  }

  /** Sends progress; what the rate holds back goes out with the next report or before the answer. */
  function reporter(callId) {
    let held = '';
    const flush = () => {
      if (held) post(held);
      held = '';
    };
    /** @type {Report} */
    const send = (first, total, message, value) => {
      if (!calls.has(callId)) return;
      const report = typeof first === 'object' ? first : { progress: first, total, message, value };
      const numbers = { progress: report.progress, total: report.total, message: report.message };
      const partial = report.value === undefined ? undefined : { value: toJson(report.value) };
      const text = encode({ type: 'progress', callId, ...numbers }, partial);
      const over = excess(text, link.maxBytes);
      if (over) throw new RangeError(`progress too large: ${over}`);
      held = text;
      if (mayReport()) flush();
    };
    return { send, flush };
  }

  /** Runs a tool and answers. Nothing here waits for a timer. */
  async function call({ callId, ns, name, args }) {
    if (calls.has(callId)) return;
    const controller = new AbortController();
    const { signal } = controller;
    calls.set(callId, controller);
    const progress = reporter(callId);
    const answer = (fields, raw) => encode({ type: 'result', callId, ...fields }, raw);
    let text;
    try {
      const value = await find(ns, name)(args ?? {}, { signal, progress: progress.send });
      text = answer({ ok: true }, { value: await resultJson(value, `${ns}/${name}`) });
    } catch (thrown) {
      const error = describeError(thrown);
      text = answer({ ok: false, error: signal.aborted ? { ...error, name: 'AbortError' } : error });
    }
    const over = excess(text, link.maxBytes);
    if (over)
      text = answer({ ok: false, error: { name: 'RangeError', message: `result too large: ${over}` } });
    progress.flush();
    calls.delete(callId);
    beforeAnswer();
    post(text);
  }

  function cancel({ callId, reason }) {
    calls.get(callId)?.abort(new DOMException(String(reason ?? 'cancelled'), 'AbortError'));
  }

  /** Ends the calls of a connection that is gone: there is nobody left to answer. */
  function drop() {
    const gone = new DOMException('the connection to the notebook closed', 'AbortError');
    for (const controller of calls.values()) controller.abort(gone);
  }

  return link;
}

// ---- The client ------------------------------------------------------------------------------------------

/**
 * A client that does nothing until `start()`, and leaves nothing behind after `dispose()`.
 * @param {{window?: BrowserWindow, url?: string}} environment the window it lives in, the script's address
 */
export function createClient({ window = globalThis, url = import.meta.url } = {}) {
  const { document, location, console } = window;
  const life = new AbortController();
  const docId = randomId(window);
  const tab = tabIdentity(window, () => link && introduce(link));
  /** @type {Map<string, ToolSet>} */
  const own = new Map();
  const adopted = adoptedTools(window, life.signal, toolsChanged, warn);
  /** The bridge, or null where the script's address does not tell it. */
  let base = /^https?:/.test(url) ? new URL('.', url) : null;
  let token = '';

  /** @type {State} */
  let state = 'closed';
  /** @type {string | null} */
  let reason = null;
  /** Ends with the present attempt or connection. */
  let attempt = new AbortController();
  let identity = Promise.resolve();
  /** @type {WebSocket | null} */
  let socket = null;
  /** @type {ReturnType<typeof createLink> | null} */
  let link = null;
  /** What the present connection was told already. @type {Map<string, string>} */
  let told = new Map();
  let toldPage = '';
  let seq = 0;
  let hadFocus = false;
  /** @type {number | undefined} */
  let focusedAt;
  let declaredAt = -Infinity;
  let flushPlanned = false;
  let failures = 0;
  let superseded = 0;
  let openedAt = -Infinity;
  let lostAt = -Infinity;
  let canProbe = true;
  let probesWork = false;
  let asked = false;
  /** While the page is put aside, what it was before. @type {{wasClosed: boolean, isLeft: boolean} | null} */
  let aside = null;
  const said = new Set();
  let unannounced = true;

  const now = () => window.performance.now();
  const mayTell = gate(STATES, now);
  const host = () => base?.host;
  const address = (path) => new URL(path, /** @type {URL} */ (base));
  const socketAddress = () => {
    const result = address('tools');
    result.protocol = result.protocol.replace('http', 'ws');
    return result;
  };

  // -- what the bridge is told

  function sets() {
    return new Map([...adopted.sets, ...own]);
  }

  function withdraw(ns) {
    own.delete(ns);
    toolsChanged();
  }

  function toolsChanged() {
    // At once, as timers of hidden tabs are slow, unless the page keeps changing its tools.
    if (now() - declaredAt < DEBOUNCE_MS) planFlush();
    else queueMicrotask(declare);
  }

  function planFlush() {
    if (flushPlanned) return;
    flushPlanned = true;
    after(window, DEBOUNCE_MS, life.signal, () => {
      flushPlanned = false;
      flush();
    });
  }

  function pageChanged() {
    queueMicrotask(tellInTurn);
    // Once more when things have settled: focus and visibility events come in no order to rely on.
    planFlush();
  }

  function flush() {
    declare();
    tellInTurn();
  }

  /** Sends the tools that differ from what the connection was told. */
  function declare() {
    if (!link) return;
    const current = sets();
    for (const ns of new Set([...told.keys(), ...current.keys()])) {
      const manifest = current.get(ns)?.manifest ?? '[]';
      if (manifest === (told.get(ns) ?? '[]')) continue;
      told.set(ns, manifest);
      declaredAt = now();
      link.post(encode({ type: 'register', ns, url: location.href }, { tools: manifest }));
    }
  }

  /** What the person sees of the page now. */
  function look() {
    const page = snapshot(window);
    if (page.focused || hadFocus) focusedAt = now();
    hadFocus = page.focused;
    return page;
  }

  /** Sends what the person sees, where it differs from what the connection was told. */
  function tell(isAllowed = () => true) {
    const page = look();
    if (!link || JSON.stringify(page) === toldPage) return;
    if (!isAllowed()) return planFlush();
    toldPage = JSON.stringify(page);
    link.post(encode({ type: 'state', seq: ++seq, ...page }));
  }

  /** For a page that may be animating its title. */
  function tellInTurn() {
    tell(mayTell);
  }

  /** @returns {Execute} */
  function find(ns, name) {
    const notFound = (what, names) =>
      new DOMException(`${what}; there is ${[...names].join(', ') || 'none'}`, 'NotFoundError');
    const current = sets();
    const tools = current.get(ns)?.tools;
    if (!tools) throw notFound(`this page has no namespace "${ns}"`, current.keys());
    const tool = tools.get(name);
    if (!tool) throw notFound(`"${ns}" has no tool "${name}"`, tools.keys());
    return (args, context) => tool.execute(args, context);
  }

  // -- dialling

  function begin() {
    failures = 0;
    if (!base) return rest('no bridge is known: call pagetools.connect({port})');
    state = 'connecting';
    reason = null;
    dial();
  }

  async function dial() {
    hangUp();
    attempt = new AbortController();
    asked = false;
    const { signal } = attempt;
    await identity;
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
    on('message', (event) => receive(event.data));
    on('close', (event) => socketClosed(event, probed));
    on('error', () => after(window, CLOSE_FOLLOWS_MS, signal, () => rest(blockedText())));
  }

  function greet(opened) {
    link = createLink(opened, find, now, tell);
    asked = false;
    told = new Map();
    introduce(link);
    declare();
  }

  /** Also when a frame finds itself in another tab: its calls and its connection stay as they are. */
  function introduce(current) {
    const page = look();
    toldPage = JSON.stringify(page);
    const lastFocusedAgo = focusedAt === undefined ? undefined : Math.round(now() - focusedAt);
    const client = { name: 'pagetools.js', version: VERSION };
    const about = { tab: { id: tab.id, docId, ...page, lastFocusedAgo }, frame: { top: tab.isTop }, client };
    current.post(encode({ type: 'hello', ...about }));
  }

  function receive(data) {
    let message;
    try {
      message = JSON.parse(data);
    } catch {
      return;
    }
    if (!link) return;
    if (message?.type === 'ping') {
      tell();
      link.post(encode({ type: 'pong', n: message.n }));
    } else if (message?.type === 'call') link.call(message);
    else if (message?.type === 'cancel') link.cancel(message);
    else if (message?.type === 'welcome') welcomed(link, message);
    else if (message?.type === 'rejected') {
      const { code, message: text, path } = message;
      console.warn(`pagetools: the bridge rejected ${path || 'a message'}: ${text} (${code})`);
    }
  }

  function welcomed(current, message) {
    current.clientId = message.clientId;
    current.maxBytes = message.maxBytes ?? Infinity;
    if (message.tabId && message.tabId !== tab.id) tab.rename(message.tabId);
    state = 'open';
    reason = message.reason ?? null;
    openedAt = now();
    if (unannounced) console.info(`pagetools: connected to the bridge on ${host()}`);
    unannounced = false;
  }

  function hangUp(code = 1000, text = '') {
    if (state === 'open') {
      lostAt = now();
      if (lostAt - openedAt > GOOD_CONNECTION_MS) failures = superseded = 0;
    }
    attempt.abort();
    socket?.close(code, text);
    link?.drop();
    socket = link = null;
  }

  // -- when it does not work

  function socketClosed({ code, reason: given }, probed) {
    const text = `the bridge closed the connection: ${given || 'no reason given'} (${code})`;
    if (FINAL_CODES.includes(code)) rest(text);
    else if (code === SUPERSEDED) giveWay(text);
    else if (code >= 4400) failed(text, RETRY_CAP_MS);
    else if (probed && !link) failed(`what answers on ${host()} is no bridge, or refuses this page`);
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
    tab.renew();
    begin();
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
    if (link) {
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
    warn(text);
  }

  function warn(text) {
    if (said.has(text)) return;
    said.add(text);
    console.warn(`pagetools: ${text}`);
  }

  // -- the page's life

  /** A page in the back/forward cache, or frozen, must not look connected: its socket would be open and deaf. */
  function sleep({ type, persisted }) {
    if (aside) return;
    const isLeft = type === 'pagehide';
    aside = { wasClosed: state === 'closed', isLeft };
    const page = look();
    hadFocus = false;
    if (persisted || !isLeft) link?.post(encode({ type: 'state', seq: ++seq, ...page, asleep: true }));
    hangUp(PAGE_HIDDEN, 'the page was left');
    state = 'closed';
    tab.release();
  }

  function wake() {
    if (!aside) return;
    const { wasClosed, isLeft } = aside;
    aside = null;
    identity = tab.claim(isLeft ? LET_GO_MS : 0);
    if (!wasClosed) begin();
  }

  /** Somebody looks at the page: no need to sit out the pause. */
  function hurry() {
    if (state === 'waiting' && !asked && document.visibilityState === 'visible') dial();
  }

  return Object.freeze({
    version: VERSION,

    /**
     * Declares all tools of a namespace, in place of those it had.
     * @param {string} ns @param {Tool[]} tools
     * @returns {() => void} withdraws these tools, unless others have taken their place
     * @throws {TypeError} If a tool could not be offered or called.
     */
    register(ns, tools) {
      const set = toolSet(ns, tools);
      own.set(ns, set);
      toolsChanged();
      return () => {
        if (own.get(ns) === set) withdraw(ns);
      };
    },

    /** @param {string} ns */
    unregister: (ns) => withdraw(ns),

    /** Looks for the page's `window.__AIUI__.tools` now. @returns {boolean} whether there is one */
    adopt: () => adopted.look(),

    /** Dials, with other settings where given. @param {{port?: number | string, token?: string}} settings */
    connect({ port, token: given } = {}) {
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
      said.clear();
      begin();
    },

    /** Closes, and stays closed until `connect()`. */
    disconnect() {
      hangUp(1000, 'disconnect() was called');
      state = 'closed';
      reason = 'disconnect() was called';
    },

    /** @returns {Status} */
    status: () => ({
      state,
      url: base && socketAddress().href,
      clientId: link?.clientId ?? null,
      tabId: tab.id,
      reason,
      namespaces: [...sets().keys()],
    }),

    start() {
      const on = (target, type, run) => target.addEventListener(type, run, { signal: life.signal });
      on(window, 'pagehide', sleep);
      on(document, 'freeze', sleep);
      on(document, 'resume', wake);
      on(window, 'pageshow', wake);
      on(window, 'focus', hurry);
      on(document, 'visibilitychange', hurry);
      on(document, 'securitypolicyviolation', judgePolicy);
      watchPage(window, life.signal, pageChanged);
      adopted.keepLooking(ADOPT_TRIES);
      identity = tab.claim();
      begin();
    },

    dispose() {
      hangUp(1000, 'the client was disposed');
      state = 'closed';
      life.abort();
      tab.release();
    },
  });
}

/** The page's one client, however often and from wherever the script is loaded. */
function clientOfPage() {
  const present = /** @type {any} */ (globalThis).pagetools;
  if (typeof present?.register === 'function') {
    // Somebody loads the script of another bridge while the first one is away: that is the one they want.
    const { hostname, port } = new URL(import.meta.url);
    const isElsewhere = hostname === '127.0.0.1' && !present.status().url?.includes(`:${port}/`);
    if (isElsewhere && ['waiting', 'closed'].includes(present.status().state)) present.connect({ port });
    return present;
  }
  const { start, dispose, ...client } = createClient();
  const pagetools = Object.freeze(client);
  if (typeof document === 'undefined') return pagetools;
  Object.assign(globalThis, { pagetools });
  start();
  globalThis.dispatchEvent(new Event('pagetools:ready'));
  return pagetools;
}

/** @type {Omit<ReturnType<typeof createClient>, 'start' | 'dispose'>} */
const pagetools = clientOfPage();
export const { register, unregister, connect, disconnect, status, adopt } = pagetools;
