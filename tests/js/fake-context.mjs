/**
 * Model contexts without a browser: the browser's own, and what polyfills and pages put in its place.
 *
 * The browser's is known by its methods, which show no source; here they are proxies, which show none either.
 * Not shown: that a browser takes its time to accept a registration, and which schemas it refuses.
 */
import { fakePage, settle } from './fake-page.mjs';
import { pageTools } from '../../pagetools_ipy/static/pagetools/surfaces.js';

const HIDDEN = 'Tool was executed but the invocation failed. For example, the script function threw an error';
const failed = (message) => new DOMException(message, 'UnknownError');
const asText = (value) =>
  value !== null && typeof value === 'object' ? JSON.stringify(value) : String(value);

/** Like Chromium 156: takes objects, gives text, hides errors. */
export class Context extends EventTarget {
  tools = new Map();
  lists = 0;
  /** Of frames, as `getTools` gives them. */
  others = [];

  constructor(window) {
    super();
    this.window = window;
  }

  changed() {
    this.dispatchEvent(new Event('toolchange'));
  }

  async registerTool(tool, options) {
    if (this.tools.has(tool.name)) throw new DOMException('Duplicate tool name', 'InvalidStateError');
    if (!/^[\w.-]{1,128}$/.test(tool.name)) throw new DOMException('Invalid tool name', 'InvalidStateError');
    const { name, description, inputSchema, annotations, execute } = tool;
    this.tools.set(name, { name, title: tool.title ?? '', description, inputSchema, annotations, execute });
    options?.signal?.addEventListener('abort', () => this.tools.delete(name) && this.changed());
    this.changed();
  }

  async getTools(options = {}) {
    this.lists += 1;
    this.asked = options;
    const own = [...this.tools.values()].map(({ execute: _execute, ...tool }) => ({
      ...tool,
      origin: 'http://127.0.0.1:8000',
      window: this.window,
    }));
    return [...this.others, ...own];
  }

  async executeTool({ name }, input, options = {}) {
    if (input === null || typeof input !== 'object') {
      throw new TypeError("Failed to execute 'executeTool' on 'ModelContext': invalid input object");
    }
    const tool = this.tools.get(name);
    if (!tool) throw failed('The operation failed for an unknown transient reason');
    try {
      return asText(await tool.execute(structuredClone(input), { signal: options.signal }));
    } catch {
      throw options.signal?.aborted ? options.signal.reason : failed(HIDDEN);
    }
  }
}

/** The same with methods that show no source. */
export function nativeContext(window) {
  class ModelContext extends Context {}
  for (const name of ['registerTool', 'getTools', 'executeTool']) {
    ModelContext.prototype[name] = new Proxy(Context.prototype[name], {});
  }
  return new ModelContext(window);
}

/** Like `@mcp-b/webmcp-polyfill` 5: takes text, adds what was thrown, where it was an error. */
export function polyfillContext(window) {
  class Polyfill extends Context {
    __isWebMCPPolyfill = true;

    async executeTool({ name }, input) {
      if (typeof input !== 'string') throw failed('Failed to parse input arguments');
      try {
        return asText(await this.tools.get(name).execute(JSON.parse(input)));
      } catch (error) {
        throw failed(error instanceof Error ? `${HIDDEN}: ${error.message}` : HIDDEN);
      }
    }
  }
  return new Polyfill(window);
}

/**
 * A page's window and its tools, looked for.
 * @param {{prepare?: (window: any) => void, hasClient?: (other: any) => boolean}} options
 *   `prepare`: what is there before our script
 */
export async function surfacesOf({ prepare = () => {}, hasClient } = {}) {
  const page = fakePage();
  const { window } = page;
  prepare(window);
  const life = new AbortController();
  const seen = { changes: 0, warnings: [] };
  const tools = pageTools(window, {
    signal: life.signal,
    onChange: () => (seen.changes += 1),
    warn: (text) => seen.warnings.push(text),
    hasClient,
  });
  tools.keepLooking();
  await settle();
  /** What is declared, by namespace and name. */
  const declared = () =>
    Object.fromEntries(
      [...tools.sets].map(([ns, { manifest }]) => [
        ns,
        Object.fromEntries(JSON.parse(manifest).map((tool) => [tool.name, tool])),
      ]),
    );
  const names = (ns = ORIGIN) => Object.keys(declared()[ns] ?? {});
  const find = (name) => [...tools.sets.values()].map((set) => set.tools.get(name)).find(Boolean);
  const call = async (name, args = {}, context = {}) =>
    find(name).execute(args, { signal: new AbortController().signal, progress: () => {}, ...context });
  return { page, window, life, seen, tools, declared, names, find, call };
}

export const ORIGIN = 'http://127.0.0.1:8000';

/** What a call ends with, as text: a value as JSON, or the error's name and message. */
export async function outcome(promise) {
  try {
    const value = await promise;
    return value === undefined ? 'undefined' : JSON.stringify(value);
  } catch (error) {
    return `${error?.name}: ${error?.message}`;
  }
}

export const about = (name, execute = () => null, more = {}) => ({
  ...{ name, description: `does ${name}`, execute },
  ...more,
});
