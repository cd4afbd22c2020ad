// @ts-check
/**
 * The model context of a page: where its scripts register tools, whichever of its generations they know.
 *
 * Where the browser has one (`document.modelContext`), the functions that are registered there are kept, as
 * the browser gives back less than they return and throw. Where a page finds no context where it looks for
 * one, it gets ours: in front of the browser's, or one of its own. What a page brings along takes its place.
 *
 * Does not know how tools of other people's contexts are listed and called, nor where any of it is sent.
 */
import { declareForms } from './forms.js';
import {
  AbortController,
  Array,
  DOMException,
  Event,
  EventTarget,
  Function,
  JSON,
  Map,
  Object,
  Proxy,
  queueMicrotask,
  Reflect,
  Set,
  String,
} from './globals.js';
import { declarationOf } from './tools.js';
import { describeError, refuse, tagOf } from './values.js';

/** @typedef {import('./values.js').BrowserWindow} BrowserWindow */
/** @typedef {import('./tools.js').Tool} Tool */
/**
 * @typedef {{tool: any, run: Function, self: unknown, declared?: Tool}} Kept
 * `declared`: what is declared of it, once that was asked
 */

/** What the browser and the polyfills say of a second tool with a name; scripts look for it. */
const DUPLICATE = 'Duplicate tool name';

/** Whether it is the browser's own: polyfills take its name, wrappers of it bind its methods. */
export function isNative(context) {
  const method = context && Object.getPrototypeOf(context)?.registerTool;
  const isMarked = context?.__isWebMCPPolyfill || context?.__isBrowserMcpServer;
  if (typeof method !== 'function' || isMarked) return false;
  return /\[native code\]/.test(Function.prototype.toString.call(method));
}

/** The browser's context, also where the page put something in front of it; or null. */
function nativeContext({ document, Document }) {
  const inherited = () =>
    Object.getOwnPropertyDescriptor(Document?.prototype ?? {}, 'modelContext')?.get?.call(document);
  return [() => document.modelContext, inherited].map((read) => read()).find(isNative) ?? null;
}

/** What a tool says of itself now: a page may use the object again for its next tool. @returns {Kept} */
function keptOf({ name, title, description, inputSchema, outputSchema, annotations, execute }) {
  const tool = { name: String(name), title, description, inputSchema, outputSchema, annotations };
  return { tool, run: execute, self: undefined };
}

/** The second argument of a tool, in the words of every generation. */
export const contextOf = ({ signal = undefined, progress = undefined } = {}) => ({
  signal: signal ?? new AbortController().signal,
  progress: progress ?? (() => {}),
  requestUserInteraction: async (ask) => ask(),
});

/**
 * A tool whose page is told of its calls, as the browser tells of those that it makes.
 * @param {BrowserWindow} window @param {any} native @param {Kept} kept @returns {Kept}
 */
function withEvents(window, native, { tool, run, self }) {
  const tell = (type, Interface) =>
    window[Interface] && native.dispatchEvent(new window[Interface](type, { toolName: tool.name }));
  const announcing = (args, given) => {
    tell('toolactivated', 'ToolActivatedEvent');
    given.signal.addEventListener('abort', () => tell('toolcancel', 'ToolCancelEvent'), { once: true });
    return Reflect.apply(run, self, [args, given]);
  };
  return { tool, run: announcing, self };
}

/** A tool's answer as the browser hands it out: as text. */
function textOf(value) {
  if (value === null || typeof value !== 'object') return String(value);
  return JSON.stringify(value);
}

/** A tool's answer in the shape of MCP. */
function contentOf(value) {
  if (Array.isArray(value?.content)) return value;
  const structured = tagOf(value) === 'Object' ? { structuredContent: value } : {};
  return { content: [{ type: 'text', text: textOf(value) }], ...structured };
}

/**
 * What a page hands to `registerTool`: (tool, {signal}), or (name, descriptor, handler).
 * @throws {TypeError} If there is nothing to call.
 */
function registrationOf(first, second, handler) {
  const isNamed = typeof first === 'string';
  const tool = isNamed ? { ...second, name: first } : first;
  const run = handler ?? tool?.execute ?? tool?.handler ?? tool?.callback;
  if (typeof tool?.name !== 'string' || !tool.name) refuse('registerTool(tool): a tool needs a name');
  if (typeof run !== 'function') refuse(`registerTool("${tool.name}"): a tool needs execute, a function`);
  return { tool, run, signal: isNamed ? undefined : second?.signal };
}

/**
 * The context that a page gets where it finds none.
 * @param {BrowserWindow} window
 * @param {ReturnType<typeof keeper>} keep
 * @param {{native: any, register: Function} | null} browser its own, and the way to register there
 */
function ownContext(window, keep, browser) {
  const context = new EventTarget();
  /** The page's way back from each registration made here. @type {Map<string, AbortController>} */
  const registered = new Map();
  /** Names of the last `provideContext`. @type {string[]} */
  let provided = [];
  let announced = false;

  /** Both names that this event has had; once for all changes of a task. */
  const announce = () => {
    if (announced) return;
    announced = true;
    queueMicrotask(() => {
      announced = false;
      for (const type of ['toolchange', 'toolschanged']) {
        const event = new Event(type);
        context.dispatchEvent(event);
        context[`on${type}`]?.call(context, event);
      }
    });
  };

  /** So that others who ask the browser find the tool as well; what only it refuses stays here. */
  async function mirror({ tool, run }, controller) {
    const { description, ...declared } = declarationOf(tool);
    const execute = (args, given) => Reflect.apply(run, tool, [args, contextOf(given)]);
    const offered = { ...declared, description: description || declared.title || tool.name, execute };
    try {
      await browser?.register(offered, { signal: controller.signal });
    } catch (error) {
      const isTaken = String(describeError(error).message).includes(DUPLICATE);
      if (isTaken) controller.abort();
      if (isTaken || controller.signal.aborted) throw error;
    }
  }

  async function enter(given, controller) {
    const { tool, run, signal } = registrationOf(...given);
    signal?.throwIfAborted();
    if (keep.tools.has(tool.name)) throw new DOMException(DUPLICATE, 'InvalidStateError');
    signal?.addEventListener('abort', () => controller.abort(signal.reason), { once: true });
    registered.set(tool.name, controller);
    keep.add({ tool, run, self: tool }, controller.signal);
    await mirror({ tool, run }, controller);
  }

  /** A promise, as today; with `unregister`, as once; a failure that nobody waits for is no page error. */
  const registerTool = (...given) => {
    const controller = new AbortController();
    const entered = enter(given, controller);
    entered.catch((error) => {
      const isWithdrawn = controller.signal.aborted && error === controller.signal.reason;
      if (!isWithdrawn) window.console.warn(`modelContext.registerTool: ${describeError(error).message}`);
    });
    return Object.assign(entered, { unregister: () => controller.abort() });
  };

  const unregisterTool = (nameOrTool) => {
    const name = nameOrTool?.name ?? nameOrTool;
    registered.get(name)?.abort();
    registered.delete(name);
  };

  const run = async (name, args, options = undefined) => {
    const kept = keep.tools.get(name);
    if (!kept) throw new DOMException(`Tool not found: ${name}`, 'UnknownError');
    return Reflect.apply(kept.run, kept.self, [args ?? {}, contextOf(options)]);
  };

  const descriptor = ({ execute: _execute, ...declared }) => ({
    title: '',
    ...declared,
    origin: window.origin,
    window,
  });

  const members = {
    registerTool,
    unregisterTool,
    provideContext({ tools = [] } = {}) {
      provided.forEach(unregisterTool);
      provided = [...tools].map((tool) => tool?.name);
      for (const tool of tools) registerTool(tool);
    },
    clearContext() {
      [...registered.keys()].forEach(unregisterTool);
      provided = [];
    },
    getTools: async (options) => browser?.native.getTools(options) ?? keep.declared().map(descriptor),
    executeTool: async (tool, input, options) => {
      if (browser && typeof tool === 'object') return browser.native.executeTool(tool, input, options);
      const args = typeof input === 'string' ? JSON.parse(input) : input;
      return textOf(await run(tool?.name ?? tool, args, options));
    },
    listTools: () => keep.declared().map(({ execute: _execute, ...declared }) => declared),
    callTool: async (call, args) => contentOf(await run(call?.name ?? call, call?.arguments ?? args)),
    ontoolchange: null,
    ontoolschanged: null,
  };
  browser?.native.addEventListener?.('toolchange', announce);
  return { context: Object.assign(context, members), announce };
}

/** The functions that are registered, by the names of their tools. @param {() => void} onChange */
function keeper(onChange) {
  /** @type {Map<string, Kept>} */
  const tools = new Map();
  const call = ({ run, self }, args, given) => Reflect.apply(run, self, [args, contextOf(given)]);
  return {
    tools,
    /** @param {Kept} kept @param {(AbortSignal | undefined)[]} signals withdraw it, unless it was replaced */
    add(kept, ...signals) {
      const { name } = kept.tool;
      if (signals.some((signal) => signal?.aborted)) return;
      tools.set(name, kept);
      const remove = () => {
        if (tools.get(name) === kept && tools.delete(name)) onChange();
      };
      for (const signal of signals) signal?.addEventListener('abort', remove, { once: true });
      onChange();
    },
    /** Only now is it looked at: some pages register and withdraw hundreds of tools a second. */
    declared: () =>
      [...tools.values()].map(
        (kept) =>
          (kept.declared ??= {
            ...declarationOf(kept.tool),
            execute: (args, context) => call(kept, args, context),
          }),
      ),
  };
}

/**
 * The page's own registrations, from `install()` on.
 * @param {BrowserWindow} window
 * @param {{signal: AbortSignal, onChange: () => void, warn: (text: string) => void}} options
 */
export function modelContext(window, { signal, onChange, warn }) {
  const { document, navigator } = window;
  let announce = () => {};
  const keep = keeper(() => {
    announce();
    onChange();
  });
  /** @type {any} */
  let native = null;
  /** @type {any} */
  let own = null;

  const guarded = (what, run) => {
    try {
      return run();
    } catch (error) {
      warn(`${what}: ${describeError(error).message}`);
      return undefined;
    }
  };

  /** Keeps what the browser accepts. To the page, it is the same method as before. */
  function wrap() {
    const holder = Object.getPrototypeOf(native);
    const original = holder.registerTool;
    /** Names that were accepted before. */
    const known = new Set();

    const follow = (kept, given, answer) => {
      const { name } = kept.tool;
      const refused = new AbortController();
      const add = () => {
        known.add(name);
        keep.add(kept, given?.signal, refused.signal);
      };
      // A tool that is only replaced is not seen to go away.
      const isReplaced = known.has(name) && !keep.tools.has(name);
      const isPromise = typeof answer?.then === 'function';
      if (isReplaced || !isPromise) add();
      if (!isPromise) return answer;
      const accepted = (value) => {
        if (!isReplaced) add();
        return value;
      };
      const failed = (error) => {
        refused.abort();
        throw error;
      };
      // A promise of our own: to wait for the page's would hide its failure from the browser's console.
      return answer.then(accepted, failed);
    };
    const apply = (_target, self, given) => {
      const answer = Reflect.apply(original, self, given);
      const [tool, options] = given;
      if (self !== native || !tool) return answer;
      const kept = guarded('registerTool', () => withEvents(window, native, keptOf(tool)));
      return kept ? follow(kept, options, answer) : answer;
    };
    const wrapped = new Proxy(original, { apply });
    holder.registerTool = wrapped;
    signal.addEventListener('abort', () => {
      if (holder.registerTool === wrapped) holder.registerTool = original;
    });
    return (tool, options) => Reflect.apply(original, native, [tool, options]);
  }

  /** Gives an object's `modelContext` a value until the page assigns or defines its own. */
  function give(object, Interface) {
    const holder = Interface?.prototype ?? object;
    const get = function () {
      return this === object ? own : undefined;
    };
    const open = { configurable: true, enumerable: true };
    const set = function (value) {
      Object.defineProperty(this, 'modelContext', { ...open, value, writable: true });
    };
    Object.defineProperty(holder, 'modelContext', { ...open, get, set });
    signal.addEventListener('abort', () => {
      if (Object.getOwnPropertyDescriptor(holder, 'modelContext')?.get === get) delete holder.modelContext;
    });
  }

  return {
    declared: keep.declared,
    get native() {
      return native;
    },
    isOwn: (object) => own !== null && object === own,
    install() {
      native = guarded('document.modelContext', () => nativeContext(window)) ?? null;
      const register = native && guarded('document.modelContext', wrap);
      const made = ownContext(window, keep, native && { native, register });
      announce = made.announce;
      const isFree = (object) => guarded('modelContext', () => !('modelContext' in object));
      if (!isFree(navigator)) return;
      own = made.context;
      guarded('navigator.modelContext', () => give(navigator, window.Navigator));
      if (!isFree(document)) return;
      guarded('document.modelContext', () => give(document, window.Document));
      const add = (tool, run, life) => keep.add({ tool, run, self: undefined }, life);
      const has = (name) => keep.tools.has(name);
      // The polyfills that would do this see our context and leave everything to it.
      if (window.HTMLFormElement) declareForms(window, { signal, add, has, guarded });
    },
  };
}
