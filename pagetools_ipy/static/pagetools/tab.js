// @ts-check
/**
 * The tab a page is in, and what the person sees of the page.
 *
 * Knows windows, storage and focus. Does not know who is told of it.
 */
import { AbortController, Array, Boolean, clockOf, Math, Promise } from './globals.js';
import { after, randomId } from './values.js';

/** @typedef {import('./values.js').BrowserWindow} BrowserWindow */

const TAB_KEY = 'pagetools.tab';
/** Of a frame that is asked for in vain: its id must never stand in the way of its top document's. */
const FRAME_KEY = 'pagetools.frame';
const PEER_WAIT_MS = 150;
const ANSWER_WAIT_MS = 100;
const SANDBOX_WAIT_MS = 500;

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
export function tabIdentity(window, onMove) {
  const { document, navigator, top } = window;
  const isTop = top === window;
  const key = isTop ? TAB_KEY : FRAME_KEY;
  let id = randomId(window);
  /** The window that owns the id, once that is known. @type {BrowserWindow} */
  let owner = null;
  /** Gives up the lock, where one is held or asked for. @type {(() => void) | null} */
  let letGo = null;
  let answered = (_isFound) => {};
  let isHosted = false;
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

  /** What a prerendering page writes into sessionStorage is lost. @param {AbortSignal} signal */
  const shown = async (signal) => {
    const once = { once: true, signal };
    await new Promise((resolve) => document.addEventListener('prerenderingchange', resolve, once));
  };

  return {
    isTop,
    get id() {
      return id;
    },
    /** @param {number} [pause] asking sooner would throw the page that is left out of its cache */
    async claim(pause) {
      isHosted = false;
      turn = new AbortController();
      const { signal } = turn;
      if (document.prerendering) await shown(signal);
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
    /** The id as it was kept, without asking anybody: for a page whose host knows its tabs. */
    async recall() {
      isHosted = true;
      turn = new AbortController();
      if (document.prerendering) await shown(turn.signal);
      id = storage((kept) => kept.getItem(key)) || id;
      store();
    },
    /** @param {string} next the bridge's decision */
    rename(next) {
      if (owner === window) return take(next);
      id = next;
      if (isHosted) store();
    },
    /** Leaves the id to whoever has it now. */
    renew() {
      if (isHosted) this.rename(randomId(window));
      else if (owner === window) take(randomId(window));
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

/** A form or an image may be called `title`. */
const titleOf = ({ title }) => (typeof title === 'string' ? title : '');

/** @param {BrowserWindow} window */
export const snapshot = ({ document, location }) => ({
  url: location.href,
  title: titleOf(document),
  visible: document.visibilityState === 'visible',
  // Not from focus events: a click into a cross-site frame blurs the page, which still has the focus.
  focused: document.hasFocus(),
});

/**
 * The snapshot over time: numbered, and with the moment the page last had the keyboard.
 * @param {BrowserWindow} window
 */
export function pageView(window) {
  let hadFocus = false;
  let seq = 0;
  /** @type {number | undefined} */
  let focusedAt;
  const now = clockOf(window);
  const look = () => {
    const page = snapshot(window);
    if (page.focused || hadFocus) focusedAt = now();
    hadFocus = page.focused;
    return page;
  };
  return {
    look,
    nextSeq: () => (seq += 1),
    lastFocusedAgo: () => (focusedAt === undefined ? undefined : Math.round(now() - focusedAt)),
    /** What comes until the next look is not time the page was looked at. */
    lookAway() {
      look();
      hadFocus = false;
    },
  };
}

/**
 * Tells of everything that may change the snapshot.
 * @param {BrowserWindow} window @param {AbortSignal} signal @param {() => void} changed
 */
export function watchPage(window, signal, changed) {
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
