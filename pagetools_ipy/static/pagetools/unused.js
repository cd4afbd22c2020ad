// @ts-check
/**
 * A window before it has its first document: an empty one is there, of whoever made the window.
 *
 * The next document has the same window, if it is of the same origin, with all that was put there; and
 * Chromium ends a page whose model context somebody asked for in both. So in the empty one nothing may be
 * done but to wait for the next. Does not know what is waited for.
 */
import { AbortController, Object, Reflect, Symbol } from './globals.js';

/** @typedef {import('./values.js').BrowserWindow} BrowserWindow */

/** Where a window keeps those who wait. */
const WAITING = Symbol.for('pagetools.waiting');
const NAME = 'modelContext';

/** Whether a window has no document but the empty one; one that a person opened is not meant. */
export function isUnused({ location, origin, navigation }) {
  return location.href.startsWith('about:blank') && origin !== 'null' && !navigation?.currentEntry;
}

/**
 * Waits until such a window has another document, or one is written into the empty one.
 * @param {BrowserWindow} window
 * @param {() => void} run told before any script of the document can find a model context
 */
export function onUse(window, run) {
  const waiting = window[WAITING] ?? [];
  waiting.push(run);
  if (waiting.length > 1) return;
  Object.defineProperty(window, WAITING, { value: waiting, configurable: true });
  watch(window, () => {
    delete window[WAITING];
    for (const told of waiting) told();
  });
}

function watch(window, run) {
  const { document } = window;
  const life = new AbortController();
  const { signal } = life;
  const look = () => {
    if (signal.aborted || (window.document === document && isUnused(window))) return;
    life.abort();
    run();
  };
  const leave = () => {
    // No timer: those of hidden tabs are slow.
    const { port1, port2 } = new window.MessageChannel();
    port1.onmessage = look;
    port2.postMessage(null);
  };
  window.addEventListener('pagehide', leave, { signal });
  // Often nobody is told that the empty document goes.
  for (const Interface of [window.Navigator, window.Document]) {
    if (Interface) intercept(Interface.prototype, look, signal);
  }
  window.addEventListener('load', look, { signal });
  // Writing to a document takes its listeners away, but not this.
  const observer = new window.MutationObserver(look);
  observer.observe(document, { childList: true });
  signal.addEventListener('abort', () => observer.disconnect());
}

/** Looks when somebody asks for a model context, before they get it. */
function intercept(holder, look, signal) {
  const original = Object.getOwnPropertyDescriptor(holder, NAME);
  if (original?.configurable === false) return;
  const get = function () {
    look();
    if (signal.aborted) return this[NAME];
    return original?.get && Reflect.apply(original.get, this, []);
  };
  const set = function (value) {
    look();
    const open = { configurable: true, enumerable: true, writable: true };
    if (signal.aborted) Reflect.set(this, NAME, value);
    else Object.defineProperty(this, NAME, { ...open, value });
  };
  Object.defineProperty(holder, NAME, { configurable: true, enumerable: true, get, set });
  signal.addEventListener('abort', () => {
    if (Object.getOwnPropertyDescriptor(holder, NAME)?.get !== get) return;
    if (original) Object.defineProperty(holder, NAME, original);
    else delete holder[NAME];
  });
}
