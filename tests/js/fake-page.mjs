/**
 * A page without a browser: a window with its own clock, storage, locks, network and console.
 *
 * Time passes only in `advance()`. `bridge` says what a dial meets: 'up', 'down', 'silent' (never answers),
 * 'refusing' (answers plain requests, fails sockets) or 'blocked' (an error event and nothing after it).
 * `script` is the address of the page's script, null where the page has loaded none.
 * A page made with `parent` is a frame: it shares that page's clock, and they can post to each other.
 * What it cannot show: the order in which real browsers fire focus and visibility events.
 */
import { setMaxListeners } from 'node:events';

import { createClient } from '../../pagetools_ipy/static/pagetools/client.js';

// Node takes many listeners on one signal for a leak; here they are the design.
setMaxListeners(0);

/** Lets everything that waits for promises run. */
export const settle = () => new Promise((resolve) => setImmediate(resolve));

/** An EventTarget that knows how many listeners hang on it. */
class Target extends EventTarget {
  listeners = new Set();

  addEventListener(type, listener, options = {}) {
    if (options.signal?.aborted) return;
    const entry = { type, listener };
    this.listeners.add(entry);
    options.signal?.addEventListener('abort', () => this.listeners.delete(entry));
    super.addEventListener(type, listener, options);
    if (options.once) super.addEventListener(type, () => this.listeners.delete(entry), { once: true });
  }

  emit(type, fields = {}) {
    this.dispatchEvent(Object.assign(new Event(type), fields));
  }
}

class Clock {
  now = 1000;
  timers = new Map();
  #ids = 0;

  setTimeout = (run, ms) => {
    this.timers.set(++this.#ids, { run, at: this.now + ms });
    return this.#ids;
  };

  clearTimeout = (id) => this.timers.delete(id);

  async advance(ms) {
    const end = this.now + ms;
    await settle();
    for (;;) {
      const [id, next] = [...this.timers].sort(([, a], [, b]) => a.at - b.at)[0] ?? [];
      if (!next || next.at > end) break;
      this.now = next.at;
      this.timers.delete(id);
      next.run();
      await settle();
    }
    this.now = end;
  }
}

/** A Web Lock manager; give the same one to several pages of one browser. */
export class FakeLocks {
  held = new Set();

  async request(name, { ifAvailable }, callback) {
    if (!ifAvailable) throw new Error('this fake only knows ifAvailable');
    await null;
    if (this.held.has(name)) return callback(null);
    this.held.add(name);
    try {
      return await callback({ name });
    } finally {
      this.held.delete(name);
    }
  }
}

/** One origin's broadcast channels. */
export function fakeBroadcast() {
  const open = new Set();
  return class {
    constructor(name) {
      this.name = name;
      open.add(this);
    }

    postMessage(data) {
      const others = [...open].filter((other) => other !== this && other.name === this.name);
      for (const other of others) queueMicrotask(() => open.has(other) && other.onmessage?.({ data }));
    }

    close() {
      open.delete(this);
    }
  };
}

class FakeMessageChannel {
  port1 = { onmessage: null };
  port2 = { postMessage: (data) => queueMicrotask(() => this.port1.onmessage({ data })) };
}

export class FakeStorage {
  items = new Map();

  getItem(key) {
    return this.items.get(key) ?? null;
  }

  setItem(key, value) {
    this.items.set(key, value);
  }

  /** What a duplicated tab starts with. */
  copy() {
    const copy = new FakeStorage();
    copy.items = new Map(this.items);
    return copy;
  }
}

/** The window of a page as another page of its tab sees it: it may be counted, compared and written to. */
function windowSeenBy(viewer, page) {
  if (viewer === page) return page.window;
  const { views } = viewer;
  if (!views.has(page)) {
    const deliver = (data) => page.window.emit('message', { data, source: windowSeenBy(page, viewer) });
    const view = { postMessage: (data) => queueMicrotask(() => deliver(structuredClone(data))) };
    Object.defineProperty(view, 'top', { get: () => windowSeenBy(viewer, page.top) });
    views.set(page, showFrames(view, viewer, page));
  }
  return views.get(page);
}

function showFrames(view, viewer, { frames }) {
  Object.defineProperty(view, 'length', { get: () => frames.length, configurable: true });
  for (const index of Array(5).keys()) {
    const get = () => frames[index] && windowSeenBy(viewer, frames[index]);
    Object.defineProperty(view, index, { get });
  }
  return view;
}

const wire = (page) =>
  class FakeSocket extends Target {
    readyState = 0;
    /** @type {any[]} */
    sent = [];
    /** What a real socket would have dropped without a word. */
    lost = [];
    closedWith = null;

    constructor(url, protocols) {
      super();
      if (page.constructorError) throw page.constructorError;
      Object.assign(this, { url, protocols });
      page.sockets.push(this);
      queueMicrotask(() => this.#meet());
    }

    #meet() {
      if (this.readyState !== 0) return;
      if (page.bridge === 'up') {
        this.readyState = 1;
        this.emit('open');
      } else if (page.bridge === 'blocked') {
        this.readyState = 3;
        this.emit('error');
      } else if (page.bridge !== 'silent') this.drop();
    }

    send(text) {
      (this.readyState === 1 ? this.sent : this.lost).push(JSON.parse(text));
    }

    /** The bridge says something. */
    receive(message) {
      this.emit('message', { data: typeof message === 'string' ? message : JSON.stringify(message) });
    }

    /** The connection ends from the other side. */
    drop(code = 1006, reason = '') {
      this.readyState = 3;
      if (code === 1006) this.emit('error');
      this.emit('close', { code, reason });
    }

    close(code, reason) {
      this.readyState = this.readyState === 3 ? 3 : 2;
      this.closedWith = { code, reason };
    }

    ofType(type) {
      return this.sent.filter((message) => message.type === type);
    }
  };

/** A page and its client, not started. */
export function fakePage(options = {}) {
  const { parent } = options;
  const clock = parent?.clock ?? new Clock();
  const page = { clock, bridge: 'up', sockets: [], probes: [], said: [], observers: new Set(), settle };
  Object.assign(page, { frames: [], views: new Map(), top: parent?.top ?? page });
  parent?.frames.push(page);
  const document = Object.assign(new Target(), {
    title: 'Todos',
    visibilityState: 'visible',
    prerendering: options.prerendering ?? false,
    hasFocus: () => page.focused,
    querySelectorAll: () => [],
    documentElement: {},
    head: {},
  });
  page.focused = true;
  const history = {
    pushState: (_state, _title, url) => (window.location.href = url),
    replaceState: (_state, _title, url) => (window.location.href = url),
  };
  const log = (level) => (text) => page.said.push({ level, text });
  const location = new URL(options.href ?? 'http://127.0.0.1:8000/app');
  const window = Object.assign(new Target(), {
    document,
    history,
    location: { href: location.href, hostname: location.hostname, protocol: location.protocol },
    navigation: options.navigation === null ? undefined : Object.assign(new Target(), { currentEntry: {} }),
    navigator: { locks: options.locks === null ? undefined : (options.locks ?? new FakeLocks()) },
    BroadcastChannel: options.broadcast,
    MessageChannel: FakeMessageChannel,
    performance: { now: () => clock.now },
    crypto: globalThis.crypto,
    setTimeout: clock.setTimeout,
    clearTimeout: clock.clearTimeout,
    console: { info: log('info'), warn: log('warn') },
    MutationObserver: class {
      constructor(changed) {
        this.changed = changed;
      }

      nodes = new Map();

      observe(node, options) {
        page.observers.add(this);
        this.nodes.set(node, options);
      }

      disconnect() {
        page.observers.delete(this);
        this.nodes.clear();
      }
    },
    WebSocket: wire(page),
    fetch: (url, { signal, ...init }) => {
      page.probes.push({ url, init, signal });
      return new Promise((resolve, reject) => {
        signal.addEventListener('abort', () => reject(signal.reason));
        if (page.bridge === 'down' || page.probesFail) reject(new TypeError('Failed to fetch'));
        else if (page.bridge !== 'silent') resolve({});
      });
    },
  });
  if (options.permission) {
    window.navigator.permissions = { query: async () => ({ state: page.permission }) };
    page.permission = options.permission;
  }
  const storage = options.storage ?? new FakeStorage();
  Object.defineProperty(window, 'sessionStorage', {
    get() {
      if (options.storage === null) throw new DOMException('no storage here', 'SecurityError');
      return storage;
    },
  });
  page.window = window;
  window.top = windowSeenBy(page, page.top);
  showFrames(window, page, page);
  page.document = document;
  page.storage = storage;
  const script = 'http://127.0.0.1:9333/pagetools.js';
  page.client = createClient({ window, url: options.script === undefined ? script : options.script });
  page.warnings = () => page.said.filter(({ level }) => level === 'warn').map(({ text }) => text);
  Object.defineProperty(page, 'socket', { get: () => page.sockets.at(-1) });
  page.advance = (ms) => clock.advance(ms);
  /** Something changes right below a node ('childList'), or deeper ('subtree'). */
  page.mutate = (node, where) => {
    for (const observer of [...page.observers]) if (observer.nodes.get(node)?.[where]) observer.changed();
  };
  page.retitle = (title) => {
    document.title = title;
    page.mutate(document.head ?? document.documentElement, 'subtree');
  };
  page.welcome = (fields = {}) => page.socket.receive({ v: 1, type: 'welcome', clientId: 'c1', ...fields });
  return page;
}

/** A page whose client is connected and welcomed. */
export async function connectedPage(options = {}) {
  const page = fakePage(options);
  page.client.start();
  await settle();
  page.welcome({ tabId: page.client.status().tabId, maxBytes: options.maxBytes ?? 4 * 2 ** 20 });
  return page;
}

/** What a host of a channel holds: the messages it was posted, and the way to the page. */
export class FakeHost {
  /** @type {any[]} */
  posted = [];
  /** Whether posting throws, as when a debugger was detached. */
  isGone = false;

  constructor(page, { key = 'bridge', port = 9333 } = {}) {
    Object.assign(this, { key, port });
    this.line = page.client.channel({ key, port, post: this.post });
  }

  post = (text) => {
    if (this.isGone) throw new Error('detached');
    this.posted.push(JSON.parse(text));
  };

  receive(message) {
    this.line.receive(JSON.stringify(message));
  }

  get types() {
    return this.posted.map(({ type }) => type);
  }

  ofType(type) {
    return this.posted.filter((message) => message.type === type);
  }
}

export const tool = (name, execute = () => null, more = {}) => ({
  name,
  description: `does ${name}`,
  execute,
  ...more,
});

/** The one answer to a call of a tool with this body. */
export async function answerOf(execute, options = {}) {
  const page = await connectedPage(options);
  page.client.register('app', [tool('run', execute)]);
  page.socket.receive({ v: 1, type: 'call', callId: 'k1', ns: 'app', name: 'run', args: {} });
  await settle();
  const answers = page.socket.ofType('result');
  if (answers.length !== 1) throw new Error(`expected one answer, got ${JSON.stringify(answers)}`);
  return answers[0];
}
