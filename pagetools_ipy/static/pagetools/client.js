// @ts-check
/**
 * A page's one client: the tools it declares, the tab it is in, and the lines over which bridges are told.
 *
 * Knows the page's life. The bridges decide who may connect, check arguments, route calls and time them; none
 * of that is known here. Everything is declared anew on each connection (registrations are state, a
 * connection is not), and each call is answered exactly once, on the line that brought it.
 */
import { createChannel } from './channel.js';
import { createDialler } from './dialler.js';
import {
  AbortController,
  Boolean,
  clockOf,
  Event,
  Map,
  Object,
  queueMicrotask,
  Set,
  Symbol,
} from './globals.js';
import { pageTools } from './surfaces.js';
import { pageView, tabIdentity, watchPage } from './tab.js';
import { toolSet } from './tools.js';
import { isUnused, onUse } from './unused.js';
import { after, randomId } from './values.js';

/** @typedef {import('./values.js').BrowserWindow} BrowserWindow */
/** @typedef {import('./tools.js').Tool} Tool */
/** @typedef {import('./tools.js').ToolSet} ToolSet */
/**
 * @typedef {{state: import('./dialler.js').State, url: string | null, clientId: string | null, tabId: string,
 *   reason: string | null, namespaces: string[]}} Status of the line that the page dials
 */
/** @typedef {ReturnType<typeof createClient>} Client */

const VERSION = '0.1.0';
/** Where a window keeps its client, for whoever brings the script next. */
const CLIENT = Symbol.for('pagetools.client');
/** On the way back, the page that is left lets go of the tab's id only after this one is shown. */
const LET_GO_MS = 50;
const SETTLE_MS = 50;

/** Whether a namespace is the origin of a document, and not a name that the page has chosen. */
const isOrigin = (ns) => ns === 'null' || ns.includes('://');

/**
 * All tools of a page. What it declares under a name of its choice is not listed again under its origin.
 * @param {Map<string, ToolSet>} own @param {Map<string, ToolSet>} found
 */
export function merged(own, found) {
  const named = new Map([...found].filter(([ns]) => !isOrigin(ns)));
  const all = new Map([...named, ...own]);
  const taken = new Set([...all.values()].flatMap(({ tools }) => [...tools.keys()]));
  for (const [ns, set] of found) {
    if (!isOrigin(ns) || own.has(ns)) continue;
    const left = [...set.tools.values()].filter(({ name }) => !taken.has(name));
    if (left.length > 0) all.set(ns, left.length === set.tools.size ? set : toolSet(ns, left));
  }
  return all;
}

/** Whether a window of the same origin has a client of its own. @param {BrowserWindow} window */
function hasClient(window) {
  try {
    return Boolean(window[CLIENT]);
  } catch {
    return false; // of another origin after all
  }
}

/**
 * A client that does nothing until `start()`, and leaves nothing behind after `dispose()`.
 * @param {{window?: BrowserWindow, url?: string | null}} environment the window it lives in; the address of
 *   the page's script, null where the page has none and dials no bridge by itself
 */
export function createClient({ window = globalThis, url = null } = {}) {
  const { document } = window;
  const life = new AbortController();
  const docId = randomId(window);
  const view = pageView(window);
  const tab = tabIdentity(window, () => introduce());
  /** @type {Set<string>} */
  const said = new Set();
  /** @type {Map<string, ToolSet>} */
  const own = new Map();
  /** @type {Pick<ReturnType<typeof pageTools>, 'sets' | 'look' | 'runtime'>} */
  let surfaces = { sets: new Map(), look: () => false, runtime: 'none' };
  /** By the bridge they lead to. @type {Map<string, import('./channel.js').Channel>} */
  const channels = new Map();
  /** Of the tab's id, while the page is there. @type {Promise<void> | null} */
  let claim = null;
  let isIdentified = false;
  let isWatching = false;
  let hasNewTools = false;
  let isSettling = false;
  /** While the page is put aside. @type {{isLeft: boolean, wasIdentified: boolean} | null} */
  let aside = null;

  /** @type {import('./line.js').PageSide} */
  const page = {
    window,
    tab,
    now: clockOf(window),
    isIdentified: () => isIdentified,
    identify: () => identify(),
    sets: () => merged(own, surfaces.sets),
    look: view.look,
    nextSeq: view.nextSeq,
    webmcp: () => surfaces.runtime,
    about: (seen) => ({
      tab: { id: tab.id, docId, ...seen, lastFocusedAgo: view.lastFocusedAgo() },
      frame: { top: tab.isTop },
      client: { name: 'pagetools.js', version: VERSION, webmcp: surfaces.runtime },
    }),
    rename,
    renew,
    warn,
  };
  const dialler = createDialler(page, {
    onTurn: () => queueMicrotask(updateChannels),
    onSuperseded: renew,
    onConnect: () => said.clear(),
  });

  // -- the tab

  /** Ends when the tab's id is known. A frame that nobody is told of does not even ask for it. */
  function identify(pause = 0) {
    if (claim) return claim;
    const before = tab.id;
    const claiming = url === null ? tab.recall() : tab.claim(pause);
    claim = claiming;
    claiming.then(() => {
      if (claim !== claiming) return;
      isIdentified = true;
      if (tab.id !== before) introduce();
      updateChannels();
    });
    watch();
    return claim;
  }

  const lines = () =>
    [dialler, ...channels.values()].map(({ line }) => line).filter((line) => line !== null);

  /** Tells the bridges which tab this is now; one that has decided so itself knows. */
  function introduce(except = null) {
    for (const line of lines()) if (line !== except) line.introduce();
  }

  function rename(tabId, line) {
    if (tabId === tab.id) return;
    tab.rename(tabId);
    introduce(line);
  }

  function renew() {
    tab.renew();
    introduce();
  }

  // -- what the bridges are told

  function updateChannels() {
    if (!aside) for (const channel of channels.values()) channel.update();
  }

  /** A page may change its tools hundreds of times a second: nothing happens here but for a flag. */
  function toolsChanged() {
    if (hasNewTools) return;
    hasNewTools = true;
    queueMicrotask(() => {
      hasNewTools = false;
      if (life.signal.aborted) return;
      for (const line of lines()) line.declare();
      updateChannels();
    });
  }

  function withdraw(ns) {
    own.delete(ns);
    toolsChanged();
  }

  function watch() {
    if (isWatching) return;
    isWatching = true;
    watchPage(window, life.signal, pageChanged);
  }

  function pageChanged() {
    queueMicrotask(tellInTurn);
    // Once more when things have settled: focus and visibility events come in no order to rely on.
    settle();
  }

  function settle() {
    if (isSettling) return;
    isSettling = true;
    after(window, SETTLE_MS, life.signal, () => {
      isSettling = false;
      tellInTurn();
    });
  }

  function tellInTurn() {
    view.look();
    const waiting = lines().filter((line) => !line.tellInTurn());
    if (waiting.length > 0) settle();
  }

  function warn(text) {
    if (said.has(text)) return;
    said.add(text);
    window.console.warn(`pagetools: ${text}`);
  }

  // -- the page's life

  /** A page in the back/forward cache, or frozen, must not look connected: it would be deaf. */
  function sleep({ type, persisted }) {
    if (aside) return;
    const isLeft = type === 'pagehide';
    aside = { isLeft, wasIdentified: claim !== null };
    dialler.sleep(persisted || !isLeft);
    for (const channel of channels.values()) channel.sleep(Boolean(persisted || !isLeft));
    view.lookAway();
    claim = null;
    isIdentified = false;
    tab.release();
  }

  function wake() {
    if (!aside) return;
    const { isLeft, wasIdentified } = aside;
    aside = null;
    if (wasIdentified) identify(isLeft ? LET_GO_MS : 0);
    dialler.wake();
    updateChannels();
  }

  return Object.freeze({
    version: VERSION,
    document,

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

    /** Looks now for tools that the page declares by itself. @returns {boolean} whether there are some */
    adopt: () => surfaces.look(),

    /**
     * Dials, with other settings where given.
     * @param {{port?: number | string, token?: string}} [settings]
     */
    connect: (settings) => dialler.connect(settings),

    /** Closes, and stays closed until `connect()`. */
    disconnect: () => dialler.disconnect(),

    /** @returns {Status} */
    status: () => ({ ...dialler.status(), tabId: tab.id, namespaces: [...page.sets().keys()] }),

    /** The address of the script that the page itself has loaded; null while there is none. */
    get script() {
      return url;
    },

    /** Dials the bridge that serves a script, unless there is one. @param {string} script its address */
    dial(script) {
      if (url === null) claim = null; // so far a host has vouched for the tab
      url = script;
      if (dialler.status().url === null) dialler.dial(script);
    },

    /**
     * Opens a line that somebody else holds, in place of the one to the same bridge.
     * @param {{key: string} & import('./channel.js').Host} host `key`: which bridge this is
     * @returns {{receive: (text: string) => void, close: () => void}}
     */
    channel({ key, port, post }) {
      const channel = createChannel(page, { port, post }, dialler.isOpenTo);
      channels.get(key)?.close();
      channels.set(key, channel);
      const close = () => {
        channel.close();
        if (channels.get(key) === channel) channels.delete(key);
      };
      // Whoever opens it gets hold of `receive` before the first message.
      queueMicrotask(updateChannels);
      return { receive: channel.receive, close };
    },

    start() {
      const on = (target, type, run) => target.addEventListener(type, run, { signal: life.signal });
      on(window, 'pagehide', sleep);
      on(document, 'freeze', sleep);
      on(document, 'resume', wake);
      on(window, 'pageshow', wake);
      on(window, 'focus', dialler.hurry);
      on(document, 'visibilitychange', dialler.hurry);
      on(document, 'securitypolicyviolation', dialler.judgePolicy);
      const found = pageTools(window, { signal: life.signal, onChange: toolsChanged, warn, hasClient });
      surfaces = found;
      found.keepLooking();
      if (tab.isTop) identify();
      if (url !== null) dialler.dial(url);
    },

    dispose() {
      dialler.disconnect('the client was disposed');
      for (const channel of channels.values()) channel.close();
      channels.clear();
      life.abort();
      tab.release();
    },
  });
}

/** The client that lives in a window; not that of the empty document which was there first. */
export function clientOf(window) {
  const present = window[CLIENT];
  if (!present || present.document === window.document) return present ?? null;
  present.dispose();
  if (window.pagetools?.register === present.register) delete window.pagetools;
  return null;
}

/**
 * The functions of a client that are for the page.
 * @param {Client} client
 */
export function publicOf({ start, dispose, dial, script, channel, document, ...client }) {
  return Object.freeze(client);
}

/** A window's new client. @param {BrowserWindow} window @param {string | null} url see `createClient` */
export function settleIn(window, url) {
  const client = createClient({ window, url });
  Object.defineProperty(window, CLIENT, { value: client, configurable: true });
  return client;
}

/** Tells a page that waits for `window.pagetools`. */
export function announce(window) {
  window.dispatchEvent(new Event('pagetools:ready'));
}

/**
 * Gives a page that knows nothing of all this a line to a bridge.
 * @param {BrowserWindow} window
 * @param {{key: string, expose: (receive: (text: string) => void) => void} & import('./channel.js').Host} host
 *   `key`: which bridge this is; `expose`: takes the function that is handed the bridge's messages
 */
export function attachPage(window, host) {
  if (isUnused(window)) return onUse(window, () => attachPage(window, host));
  const present = clientOf(window);
  const client = present ?? settleIn(window, null);
  host.expose(client.channel(host).receive);
  if (present) return;
  if (!('pagetools' in window)) {
    const value = publicOf(client);
    Object.defineProperty(window, 'pagetools', { value, configurable: true, writable: true });
  }
  client.start();
  announceInTime(window, client);
}

/** Once the page's own scripts have run; where one of them brought this script, that was told. */
function announceInTime(window, client) {
  const inTime = () => client.script ?? announce(window);
  const { document } = window;
  if (document.readyState !== 'loading') inTime();
  else document.addEventListener('DOMContentLoaded', inTime, { once: true });
}
