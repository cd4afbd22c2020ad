import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';

import { fakePage, settle, tool } from './fake-page.mjs';

let loads = 0;
/** Loads the script once more, as a second script element would. */
const load = () => import(`../../pagetools_ipy/static/pagetools.js?load=${(loads += 1)}`);

const borrowed = new Map();

/** Makes the global object the window of a page. */
function becomePage(more = {}) {
  const { window } = fakePage();
  const { document, location, navigator, history, navigation, MutationObserver } = window;
  const methods = ['addEventListener', 'removeEventListener', 'dispatchEvent', 'setTimeout', 'clearTimeout'];
  const bound = Object.fromEntries(methods.map((name) => [name, window[name].bind(window)]));
  const globals = { document, location, navigator, history, navigation, MutationObserver, ...bound, ...more };
  for (const [key, value] of Object.entries({ ...globals, top: globalThis, pagetools: more.pagetools })) {
    borrowed.set(key, Object.getOwnPropertyDescriptor(globalThis, key));
    Object.defineProperty(globalThis, key, { value, configurable: true, writable: true });
  }
  return window;
}

afterEach(() => {
  globalThis.pagetools?.disconnect?.();
  for (const [key, descriptor] of borrowed) {
    delete globalThis[key];
    if (descriptor) Object.defineProperty(globalThis, key, descriptor);
  }
  borrowed.clear();
});

const silent = { ...console, warn() {}, info() {} };

test('outside a browser the module loads and starts nothing', async () => {
  const module = await load();
  assert.equal(module.status().state, 'closed');
  assert.equal('pagetools' in globalThis, false);
  module.register('todo', [tool('add')])();
});

test("in a page the module and window.pagetools are one frozen object's functions", async () => {
  becomePage({ console: silent });
  const { createClient, ...named } = await load();
  assert.ok(Object.isFrozen(globalThis.pagetools));
  const { version, ...shared } = globalThis.pagetools;
  assert.match(version, /^\d+\.\d+\.\d+$/);
  assert.deepEqual({ ...named }, shared);
  assert.equal(typeof createClient, 'function');
});

test('readiness is announced once, when window.pagetools can be used', async () => {
  const window = becomePage({ console: silent });
  const seen = [];
  window.addEventListener('pagetools:ready', () => seen.push(globalThis.pagetools.status().state));
  await load();
  await load();
  assert.equal(seen.length, 1);
});

test("a second load takes the first one's client", async () => {
  becomePage({ console: silent });
  const first = await load();
  const second = await load();
  first.register('todo', [tool('add')]);
  assert.deepEqual(second.status().namespaces, ['todo']);
  assert.equal(second.register, first.register);
});

test("a page's own thing of the same name does not keep the client from starting", async () => {
  becomePage({ console: silent, pagetools: { tagName: 'DIV' } });
  const { register } = await load();
  await settle();
  assert.equal(typeof register, 'function');
  assert.equal(globalThis.pagetools.register, register);
});
