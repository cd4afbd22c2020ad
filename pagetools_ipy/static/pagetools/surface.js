// @ts-check
/**
 * One surface: an object of a page that lists tools, whichever object is there now.
 *
 * Knows how to find it, ask it in time and follow its changes. Does not know what kinds of surfaces there
 * are, nor how their tools are called.
 */
import { hasMethod, until } from './calling.js';
import { isNative } from './context.js';
import { AbortController, Array, clockOf, JSON, Map, Object, URL } from './globals.js';
import { declarationOf } from './tools.js';
import { after } from './values.js';

/** @typedef {import('./values.js').BrowserWindow} BrowserWindow */
/** @typedef {import('./tools.js').Tool} Tool */
/**
 * @typedef {{where: string, find: () => any, list: (object: any) => any,
 *   call: (object: any, tool: any, args: any, context: any) => Promise<unknown>}} Kind
 */
/**
 * @typedef {{window: BrowserWindow, signal: AbortSignal, onChange: () => void,
 *   hasClient: (other: any) => boolean, guarded: <T>(where: string, run: () => T) => T | undefined}} PageSide
 */

/** The names that the event has had. */
const CHANGES = ['toolchange', 'toolschanged'];
/** Between two lists of one surface. */
const LIST_MS = 250;
/** Of a surface that tells nothing of its changes. */
const POLL_MS = 1000;
/** Who has not listed its tools by then may be asked again. */
const LIST_PATIENCE_MS = 5000;

/** Tools as whatever a page lists them in. @returns {any[]} */
function listed(given) {
  if (Array.isArray(given)) return given;
  if (given === null || typeof given !== 'object') return [];
  if (given.tools && !given.name) return listed(given.tools);
  const named = hasMethod(given, 'entries') ? [...given.entries()] : Object.entries(given);
  const entry = ([name, tool]) =>
    typeof tool === 'function' ? { name, execute: tool } : { execute: tool?.execute, ...tool, name };
  return named.map(entry);
}

/** Whose tools a window's are. A document of no address of its own has the origin of who made it. */
export function originOf({ origin, location }) {
  // A page may have a variable called `origin`.
  const isOrigin = typeof origin === 'string' && /^(null$|[\w.+-]+:\/\/)/.test(origin);
  const found = (isOrigin && origin) || location.origin || new URL(location.href).origin;
  return found === 'null' ? `${location.protocol}//` : found;
}

/**
 * One surface: the object that is there now, and what it listed last.
 * @param {PageSide} page @param {Kind} kind
 */
export function createSurface({ window, signal, onChange, hasClient, guarded }, { where, find, list, call }) {
  /** @type {any} */
  let object = null;
  let isBrowsers = false;
  let hasFrames = false;
  /** As the page gives them, by namespace and name. @type {Map<string, {ns: string, tool: any}>} */
  let given = new Map();
  /** @type {[string, Tool][]} */
  let tools = [];
  let manifest = '[]';
  /** Ends with the present object. */
  let presence = new AbortController();
  let askedAt = -Infinity;
  let isWaiting = false;
  let isOld = false;
  let isPlanned = false;
  const now = clockOf(window);

  const isOwn = (tool) => !tool.window || tool.window === window;

  function entryOf(tool) {
    if (typeof tool?.name !== 'string' || !tool.name) return [];
    if (!isOwn(tool) && hasClient(tool.window)) return [];
    const ns = (!isOwn(tool) && tool.origin) || originOf(window);
    return [[JSON.stringify([ns, tool.name]), { ns, tool }]];
  }

  function adapted([key, { ns, tool }]) {
    const native = isBrowsers && isOwn(tool) ? { native: true } : {};
    // What the page lists under this name by then: it may have another function by now.
    const run = (args, context) =>
      until(context.signal, call(object, (given.get(key) ?? { tool }).tool, args, context));
    return [ns, { ...declarationOf(tool), ...native, execute: run }];
  }

  function take(answer) {
    const entries = listed(answer).flatMap((tool) => guarded(where, () => entryOf(tool)) ?? []);
    // Of two with a name, the first one.
    given = new Map(entries.reverse());
    hasFrames = entries.some(([, { tool }]) => !isOwn(tool));
    const next = [...given].reverse().flatMap((entry) => guarded(where, () => [adapted(entry)]) ?? []);
    const text = JSON.stringify(next);
    if (text === manifest) return;
    tools = next;
    manifest = text;
    onChange();
  }

  /** Asks for the tools; while there is no answer, and right after one, later. */
  function ask() {
    const since = now() - askedAt;
    if (isWaiting && since < LIST_PATIENCE_MS) isOld = true;
    else if (since < LIST_MS) plan(LIST_MS - since);
    else askNow();
  }

  function askNow() {
    const { signal: present } = presence;
    const turn = (askedAt = now());
    const settled = (run) => (value) => {
      if (present.aborted || turn !== askedAt) return;
      isWaiting = false;
      guarded(where, () => run(value));
      if (isOld) plan(LIST_MS);
      isOld = false;
    };
    const failed = (error) => {
      // Of a frame that may have no tools.
      if (error?.name !== 'NotAllowedError') throw error;
    };
    guarded(where, () => {
      const answer = list(object);
      if (!hasMethod(answer, 'then')) return take(answer);
      isWaiting = true;
      return answer.then(settled(take), settled(failed));
    });
  }

  function plan(ms) {
    if (isPlanned) return;
    isPlanned = true;
    after(window, ms, presence.signal, () => {
      isPlanned = false;
      ask();
    });
  }

  function follow() {
    const { signal: present } = presence;
    const on = (type) => object.addEventListener(type, ask, { signal: present });
    if (hasMethod(object, 'addEventListener')) guarded(where, () => CHANGES.forEach(on));
    // Polyfills tell of every change. Of others that is not known, and a single callback may be the page's.
    if (!isBrowsers && !object.__isWebMCPPolyfill) poll(present);
  }

  function poll(present) {
    after(window, POLL_MS, present, () => {
      ask();
      poll(present);
    });
  }

  function leave() {
    presence.abort();
    presence = new AbortController();
    isWaiting = isOld = isPlanned = false;
    askedAt = -Infinity;
  }
  signal.addEventListener('abort', () => presence.abort());

  return {
    get tools() {
      return tools;
    },
    /** Follows the object that is there now. */
    look() {
      const present = guarded(where, find) || null;
      // Nothing tells of frames that go away.
      if (present === object && hasFrames) return ask();
      if (present === object) return;
      leave();
      object = present;
      isBrowsers = guarded(where, () => isNative(object)) ?? false;
      if (!object) return take([]);
      follow();
      ask();
    },
  };
}
