// @ts-check
/**
 * The names that the language and the browser give, as they were when this script came.
 *
 * Scripts of a page share their names, and pages have classes of their own called `Map`, `Set` or `Event`,
 * and variables called `performance`. Knows what may be taken from us, not what it is used for.
 */
export const {
  AbortController,
  Array,
  ArrayBuffer,
  Boolean,
  DOMException,
  Date,
  Error,
  Event,
  EventTarget,
  Function,
  JSON,
  Map,
  Math,
  MessageChannel,
  Number,
  Object,
  Promise,
  Proxy,
  RangeError,
  Reflect,
  Set,
  String,
  Symbol,
  TextEncoder,
  TypeError,
  URL,
  Uint8Array,
  btoa,
  queueMicrotask,
} = globalThis;

/** A clock of milliseconds for a window, also where the page has taken its name. */
export function clockOf({ performance }) {
  return typeof performance?.now === 'function' ? () => performance.now() : () => Date.now();
}
