// @ts-check
/**
 * The page's side: declares a page's tools to the bridge in a notebook and answers its calls.
 *
 * What a page loads, with a script element or an import. Knows only how a page comes by its one client,
 * however often and from wherever the script is loaded; the client is in `pagetools/client.js`.
 */
import { announce, clientOf, createClient, publicOf, settleIn } from './pagetools/client.js';

/** The page's client, dialling the bridge that this script comes from. */
function clientOfPage() {
  if (typeof document === 'undefined') return publicOf(createClient());
  const present = clientOf(globalThis);
  if (present) return dialHere(present);
  const client = settleIn(globalThis, import.meta.url);
  const pagetools = show(client);
  client.start();
  announce(globalThis);
  return pagetools;
}

/** @param {import('./pagetools/client.js').Client} present */
function dialHere(present) {
  const pagetools = show(present);
  if (present.script === null) {
    present.dial(import.meta.url);
    announce(globalThis);
  }
  // Somebody loads the script of another bridge while the first one is away: that is the one they want.
  const { url, state } = present.status();
  const { hostname, port } = new URL(import.meta.url);
  const isElsewhere = hostname === '127.0.0.1' && !url?.includes(`:${port}/`);
  if (isElsewhere && ['waiting', 'closed'].includes(state)) present.connect({ port });
  return pagetools;
}

/** @param {import('./pagetools/client.js').Client} client */
function show(client) {
  const shown = /** @type {any} */ (globalThis).pagetools;
  if (shown?.register === client.register) return shown;
  const pagetools = publicOf(client);
  Object.assign(globalThis, { pagetools });
  return pagetools;
}

/** @type {ReturnType<typeof publicOf>} */
const pagetools = clientOfPage();
export const { register, unregister, connect, disconnect, status, adopt } = pagetools;
