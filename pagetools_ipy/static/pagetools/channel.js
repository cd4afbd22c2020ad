// @ts-check
/**
 * A line that somebody holds open for the page: a host that posts its messages and brings the bridge's.
 *
 * Knows when the page is worth telling of, and when a bridge has it on a line of its own already. Does not
 * know what the host is, nor whether it listens.
 */
import { SUPERSEDED } from './dialler.js';
import { AbortController } from './globals.js';
import { createLine } from './line.js';
import { after, encode } from './values.js';

/** After the bridge has ended the line for a reason that may pass. */
const RETRY_MS = 3000;

/**
 * @typedef {{port: number | string, post: (text: string) => void}} Host
 *   `port`: the bridge's; `post`: takes a message, and may be gone
 */
/** @typedef {ReturnType<typeof createChannel>} Channel */

/**
 * @param {import('./line.js').PageSide} page
 * @param {Host} host
 * @param {(port: number | string) => boolean} isDialled whether the page itself is connected to that bridge
 */
export function createChannel(page, host, isDialled) {
  /** @type {import('./line.js').Line | null} */
  let line = null;
  let isQuiet = false;
  /** Ends when the page is put aside, or somebody else holds its line. */
  let life = new AbortController();

  return {
    get line() {
      return line;
    },
    update,
    sleep,
    close: hangUp,
    /** Takes one message of the bridge. @param {string} text */
    receive: (text) => line?.receive(text),
  };

  function post(text) {
    try {
      host.post(text);
    } catch {
      // A host that is gone may throw; nothing in the page is to suffer from that.
    }
  }

  /** Makes the line what it should be now. */
  function update() {
    if (isDialled(host.port)) return beQuiet();
    isQuiet = false;
    if (line?.isGreeted()) return;
    // A page may have dozens of frames that declare nothing, and never will.
    if (!page.tab.isTop && page.sets().size === 0) return;
    if (!page.isIdentified()) return void page.identify();
    line ??= createLine(page, { post, delegates: true, onClosed });
    line.greet();
  }

  /** The bridge lists the page through its socket: one tab, not two. */
  function beQuiet() {
    if (isQuiet) return;
    isQuiet = true;
    line?.retire();
    post(encode({ type: 'quiet', tabId: page.tab.id }));
  }

  /** @param {boolean} isAsleep whether the page is put aside, not left for good */
  function sleep(isAsleep) {
    if (line?.isGreeted()) post(encode({ type: 'bye', asleep: isAsleep }));
    hangUp();
  }

  /** @param {number} code why the bridge has ended the line */
  function onClosed(code) {
    hangUp();
    if (code === SUPERSEDED) {
      page.renew();
      update();
    } else after(page.window, RETRY_MS, life.signal, update);
  }

  function hangUp() {
    life.abort();
    life = new AbortController();
    isQuiet = false;
    line?.drop();
    line = null;
  }
}
