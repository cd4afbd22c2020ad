// @ts-check
/**
 * The tools that a page declares by itself, on whatever surface.
 *
 * Knows where pages and browsers put such tools and how each kind of surface lists and calls them: the
 * browser's own context, those of polyfills and of the page, `modelContextTesting`, `window.agent`,
 * `window.__AIUI__`. What is wrong with one of them becomes a warning and costs only the part that is wrong.
 * Nothing of the page is changed here. Does not know who asks for tools, nor what is sent.
 */
import { callPages, callTesting, execute, hasMethod, isMcp, until } from './calling.js';
import { modelContext } from './context.js';
import { Boolean, Map, Number, Set } from './globals.js';
import { createSurface, originOf } from './surface.js';
import { manifestOf, toolSet } from './tools.js';
import { after, describeError } from './values.js';

/** @typedef {import('./values.js').BrowserWindow} BrowserWindow */
/** @typedef {import('./tools.js').Tool} Tool */
/** @typedef {import('./tools.js').ToolSet} ToolSet */
/** @typedef {import('./surface.js').Kind} Kind */
/** @typedef {import('./surface.js').PageSide} PageSide */

const LOOK_MS = 500;
const QUICK_LOOKS = 40;
const SLOW_LOOK_MS = 5000;

/** The origins of frames that may show their tools to this page. @returns {string[]} */
function sharingOrigins(window) {
  const frames = [...(window.document.querySelectorAll?.('iframe[allow*="tools"][src]') ?? [])];
  const origins = frames.flatMap(({ src }) => /^https?:\/\/[^/?#]+/.exec(src) ?? []);
  return [...new Set(origins)].filter((origin) => origin !== originOf(window));
}

/** The browser's list; a frame that it may not ask must not cost the others. */
async function nativeList(window, native) {
  const fromOrigins = sharingOrigins(window);
  const own = () => native.getTools();
  const tools = await (fromOrigins.length > 0 ? native.getTools({ fromOrigins }).catch(own) : own());
  // The document's own win over those of its frames.
  return [...tools].sort((one, other) => Number(other.window === window) - Number(one.window === window));
}

/** Asks a page's object for its tools. */
function listOf(object) {
  const methods = isMcp(object) ? ['listTools'] : ['getTools', 'listTools'];
  const method = methods.find((name) => hasMethod(object, name));
  return method ? object[method]() : object.tools;
}

/** The object, if tools can be read from it. */
const listing = (object) =>
  hasMethod(object, 'getTools') || hasMethod(object, 'listTools') || object?.tools ? object : null;

/**
 * The kinds of surfaces, the best one first.
 * @param {PageSide} page @param {ReturnType<typeof modelContext>} context @returns {Kind[]}
 */
function kindsOf({ window, guarded }, context) {
  const { document, navigator } = window;
  const native = {
    where: 'document.modelContext',
    // Some builds never list anything once they were asked before the page had a tool.
    find: () => (document.readyState === 'loading' ? null : context.native),
    list: (object) => nativeList(window, object),
    call: (object, tool, args, given) => execute(object, tool, args, given.signal),
  };
  /** By one that fills both places, and complains when the second one is read. */
  const isPolyfilled = () =>
    guarded('document.modelContext', () => document.modelContext?.__isWebMCPPolyfill);
  const ofPage = (where, read) => ({
    where,
    find: () => {
      const object = listing(read());
      return object === context.native || context.isOwn(object) ? null : object;
    },
    list: listOf,
    call: callPages,
  });
  return [
    native,
    ofPage('document.modelContext', () => document.modelContext),
    ofPage('navigator.modelContext', () => (isPolyfilled() ? null : navigator.modelContext)),
    { ...ofPage('navigator.modelContextTesting', () => navigator.modelContextTesting), call: callTesting },
    ofPage('window.agent', () => window.agent),
  ];
}

/**
 * Reads a page's `window.__AIUI__.tools` as if its namespaces were registered here.
 * @param {PageSide} page
 */
function adoptedTools({ window, signal, onChange, guarded }) {
  const where = 'window.__AIUI__.tools';
  /** @type {any} */
  let registry = null;
  /** @type {any} */
  let unsubscribe;
  /** @type {Map<string, ToolSet>} */
  let sets = new Map();
  let isStale = false;

  const changed = () => {
    isStale = true;
    onChange();
  };
  const adapted = (ns, { name, description = '', inputSchema }) => {
    const call = async (args) => registry.call(ns, name, args);
    const run = (args, { signal: ending }) => until(ending, call(args));
    const tool = { name, description, inputSchema, execute: run };
    manifestOf(tool, `a tool of "${ns}"`);
    return tool;
  };
  const read = () => {
    const found = new Map();
    for (const entry of registry.list()) {
      const sound = (tool) => guarded(`${where}.list`, () => [adapted(entry.ns, tool)]) ?? [];
      guarded(`${where}.list`, () => found.set(entry.ns, toolSet(entry.ns, entry.tools.flatMap(sound))));
    }
    return found;
  };
  const leave = () => unsubscribe && guarded(`${where}.onChange`, () => unsubscribe());
  signal.addEventListener('abort', leave);

  return {
    /** Follows the page's registry; false while there is none. */
    look() {
      const present = guarded(where, () => window.__AIUI__?.tools);
      if (typeof present?.list === 'function' && present !== registry) {
        leave();
        registry = present;
        unsubscribe = guarded(`${where}.onChange`, () => registry.onChange(changed));
        changed();
      } else if (registry && !hasMethod(registry, 'onChange')) changed();
      return registry !== null;
    },
    /** The namespaces now. */
    get sets() {
      if (isStale) {
        isStale = false;
        sets = guarded(`${where}.list`, read) ?? sets;
      }
      return sets;
    },
  };
}

/**
 * All tools that a page declares without being asked to, by namespace: those of `__AIUI__` by its names, all
 * others by the origin of the document that declared them.
 * @param {BrowserWindow} window
 * @param {{signal: AbortSignal, onChange: () => void, warn: (text: string) => void,
 *   hasClient?: (other: BrowserWindow) => boolean}} options
 *   `onChange`: told once, until `sets` is read again; `hasClient`: whether a frame declares its own tools
 */
export function pageTools(window, { signal, onChange, warn, hasClient = () => false }) {
  const { document } = window;
  /** @type {Map<string, ToolSet>} */
  let sets = new Map();
  // Some pages change their tools hundreds of times a second: they are looked at when somebody asks.
  let isStale = false;
  let isLooking = false;

  const guarded = (where, run) => {
    try {
      return run();
    } catch (error) {
      warn(`${where}: ${describeError(error).message}`);
      return undefined;
    }
  };
  const changed = () => {
    if (isStale) return;
    isStale = true;
    onChange();
  };
  const page = { window, signal, onChange: changed, hasClient, guarded };
  const context = modelContext(window, { signal, onChange: changed, warn });
  const surfaces = kindsOf(page, context).map((kind) => createSurface(page, kind));
  const adopted = adoptedTools(page);

  function read() {
    /** @type {Map<string, Map<string, {tool: Tool, text: string}>>} */
    const found = new Map();
    const add = ([ns, tool]) => {
      if (!found.has(ns)) found.set(ns, new Map());
      if (found.get(ns).has(tool.name)) return;
      guarded(ns, () => found.get(ns).set(tool.name, { tool, text: manifestOf(tool, 'a tool') }));
    };
    for (const tool of context.declared()) add([originOf(window), tool]);
    for (const surface of surfaces) surface.tools.forEach(add);
    const setOf = ([ns, byName]) => {
      // In an order of our own: a tool that is registered anew has not changed.
      const entries = [...byName].sort(([one], [other]) => (one < other ? -1 : 1));
      const tools = new Map(entries.map(([name, { tool }]) => [name, tool]));
      return [ns, { tools, manifest: `[${entries.map(([, { text }]) => text).join()}]` }];
    };
    return new Map([...[...found].map(setOf), ...adopted.sets]);
  }

  /** Looks for surfaces now. @returns {boolean} whether the page has any tools, or a place for them */
  function look() {
    for (const surface of surfaces) surface.look();
    return adopted.look();
  }

  function lookAgain(left) {
    after(window, left > 0 ? LOOK_MS : SLOW_LOOK_MS, signal, () => {
      if (left > 0 || document.visibilityState === 'visible') look();
      lookAgain(left - 1);
    });
  }

  return {
    look,
    /** Begins to keep what the page registers, and looks for what it brings along, however late. */
    keepLooking() {
      if (isLooking) return;
      isLooking = true;
      context.install();
      look();
      document.addEventListener('DOMContentLoaded', look, { signal });
      window.addEventListener('load', look, { signal });
      lookAgain(QUICK_LOOKS);
    },
    /** The tools now. */
    get sets() {
      if (isStale) {
        isStale = false;
        sets = read();
      }
      return sets;
    },
    /** Where the page registers tools. @returns {'native' | 'polyfill' | 'own' | 'none'} */
    get runtime() {
      if (context.native) return 'native';
      const places = [() => document.modelContext, () => window.navigator.modelContext];
      const present = places.map((read) => guarded('modelContext', read)).filter(Boolean);
      if (present.some((place) => !context.isOwn(place))) return 'polyfill';
      return present.length > 0 ? 'own' : 'none';
    },
  };
}
