// @ts-check
/**
 * Values on the wire: what a page hands over as JSON text, and whatever was thrown as a plain error.
 *
 * Also the few helpers that all parts of the page's side share. Knows neither tools nor connections.
 */
import {
  Array,
  ArrayBuffer,
  btoa,
  clockOf,
  Date,
  JSON,
  Map,
  Math,
  Object,
  String,
  TextEncoder,
  TypeError,
  Uint8Array,
} from './globals.js';

/** @typedef {any} BrowserWindow a window, or what a test puts in its place */

const MAX_HTML_CHARS = 2000;

/**
 * A timer that ends with `signal` and, once fired, leaves nothing on it.
 * @param {BrowserWindow} window @param {number} ms @param {AbortSignal} signal @param {() => void} run
 */
export function after(window, ms, signal, run) {
  if (signal.aborted) return;
  const stop = () => window.clearTimeout(timer);
  const timer = window.setTimeout(() => {
    signal.removeEventListener('abort', stop);
    run();
  }, ms);
  signal.addEventListener('abort', stop, { once: true });
}

/**
 * The same for a moment so short that the timers of a hidden tab, which fire once a second, would spoil it.
 * @param {BrowserWindow} window @param {number} ms @param {AbortSignal} signal @param {() => void} run
 */
export function shortlyAfter(window, ms, signal, run) {
  if (window.document.visibilityState === 'visible') return after(window, ms, signal, run);
  const now = clockOf(window);
  const end = now() + ms;
  const { port1, port2 } = new window.MessageChannel();
  port1.onmessage = () => {
    if (signal.aborted) return;
    if (now() < end) port2.postMessage(null);
    else run();
  };
  port2.postMessage(null);
}

/**
 * A function that says whether one more thing may pass now.
 * @param {{burst: number, rate: number}} allowance @param {() => number} now
 */
export function gate({ burst, rate }, now) {
  let left = burst;
  let at = now();
  return () => {
    left = Math.min(burst, left + (now() - at) * rate);
    at = now();
    return left >= 1 && left-- > 0;
  };
}

/**
 * Keeps to so many things in any span of time, the first ones close to each other.
 * @param {{gaps: number[], ms: number}} allowance `gaps`: what lies before each of them; `ms`: the span
 * @param {() => number} now
 */
export function pace({ gaps, ms }, now) {
  /** @type {number[]} */
  let times = [];
  const isFull = () => {
    times = times.filter((time) => now() - time < ms);
    return times.length >= gaps.length;
  };
  return {
    /** Whether another one would be too many. */
    isFull,
    /** How long the next one has to wait. */
    wait() {
      const due = isFull() ? times[0] + ms : times.at(-1) + gaps[times.length];
      return times.length > 0 ? Math.max(0, due - now()) : 0;
    },
    count: () => times.push(now()),
  };
}

/** @param {BrowserWindow} window */
export function randomId(window) {
  const bytes = window.crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
}

/** What a value is, also when it comes from another frame, where `instanceof` fails. */
export const tagOf = (value) => Object.prototype.toString.call(value).slice(8, -1);

export function refuse(why) {
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
export function toJson(value) {
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

/** Whether a debugger can take a value into a page: browsers refuse other keys. @returns {boolean} */
export function hasAsciiKeys(value) {
  if (value === null || typeof value !== 'object') return true;
  const isPlain = ([key, part]) => /^[\0-\x7f]*$/.test(key) && hasAsciiKeys(part);
  return Object.entries(value).every(isPlain);
}

/** One message; `raw` holds fields that are JSON text already. @param {Record<string, string>} raw */
export function encode(fields, raw = {}) {
  const tail = Object.entries(raw).map(([key, text]) => `,"${key}":${text}`);
  return `${JSON.stringify({ v: 1, ...fields }).slice(0, -1)}${tail.join('')}}`;
}

/** A canvas or an image Blob as MCP image content; anything else as it is. @param {any} value */
export async function imageAsContent(value) {
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

export async function resultJson(value, tool) {
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
export function describeError(thrown) {
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
export function excess(text, maxBytes) {
  // A UTF-16 unit takes at most three bytes in UTF-8, so most messages need no measuring.
  if (text.length * 3 <= maxBytes) return '';
  const bytes = new TextEncoder().encode(text).length;
  const inMiB = (count) => `${Math.ceil((count / 2 ** 20) * 10) / 10} MiB`;
  return bytes > maxBytes ? `${inMiB(bytes)} > ${inMiB(maxBytes)}` : '';
}
