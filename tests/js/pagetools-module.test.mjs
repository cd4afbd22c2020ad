import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';

import { readdirSync, readFileSync } from 'node:fs';

import { attachPage, clientOf } from '../../pagetools_ipy/static/pagetools/client.js';
import { fakePage, settle, tool } from './fake-page.mjs';

const CLIENT = Symbol.for('pagetools.client');
const STATIC = new URL('../../pagetools_ipy/static/', import.meta.url);

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
  delete globalThis[CLIENT];
});

/** What a host that injects the client defines, and what it was posted. */
function fakeHost(more = {}) {
  const host = { key: 'bridge', port: 9400, posted: [], ...more };
  host.post = (text) => host.posted.push(JSON.parse(text));
  host.expose = (receive) => (host.receive = (message) => receive(JSON.stringify(message)));
  return host;
}
const typesOf = ({ posted }) => posted.map(({ type }) => type);
/** Has the page run its scripts. */
function finishLoading(document) {
  document.readyState = 'interactive';
  document.emit('DOMContentLoaded');
}

const silent = { ...console, warn() {}, info() {} };

test('outside a browser the module loads and starts nothing', async () => {
  const module = await load();
  assert.equal(module.status().state, 'closed');
  assert.equal('pagetools' in globalThis, false);
  module.register('todo', [tool('add')])();
});

test("in a page the module and window.pagetools are one frozen object's functions", async () => {
  becomePage({ console: silent });
  const named = await load();
  assert.ok(Object.isFrozen(globalThis.pagetools));
  const { version, ...shared } = globalThis.pagetools;
  assert.match(version, /^\d+\.\d+\.\d+$/);
  assert.deepEqual({ ...named }, shared);
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

test('an attached page has a client that dials nothing and does not show in its window', async () => {
  const { window } = fakePage();
  const keys = Object.keys(window);
  const host = fakeHost();
  attachPage(window, host);
  window.pagetools.register('todo', [tool('add', () => 'added')]);
  await settle();
  assert.deepEqual(typesOf(host), ['hello', 'register']);
  host.receive({ type: 'call', callId: 'k1', ns: 'todo', name: 'add' });
  await settle();
  assert.equal(host.posted.at(-1).value, 'added');
  assert.deepEqual(Object.keys(window), keys);
  assert.ok(Object.isFrozen(window.pagetools));
  for (const name of ['channel', 'dial', 'start', 'dispose']) assert.equal(name in window.pagetools, false);
  window.pagetools = 'mine';
  assert.equal(window.pagetools, 'mine');
});

test("attaching leaves a page's own thing of the same name alone", async () => {
  const { window } = fakePage();
  window.pagetools = { tagName: 'DIV' };
  const host = fakeHost();
  attachPage(window, host);
  await settle();
  assert.deepEqual([window.pagetools, typesOf(host)], [{ tagName: 'DIV' }, ['hello']]);
});

test('a page that is attached twice has one client, and one line to each bridge', async () => {
  const { window } = fakePage();
  const [first, again, other] = [fakeHost(), fakeHost(), fakeHost({ key: 'other' })];
  attachPage(window, first);
  await settle();
  const client = clientOf(window);
  attachPage(window, again);
  attachPage(window, other);
  window.pagetools.register('todo', [tool('add')]);
  await settle();
  assert.equal(clientOf(window), client);
  const both = ['hello', 'register'];
  assert.deepEqual([first, again, other].map(typesOf), [['hello'], both, both]);
});

const EMPTY = { href: 'about:blank', navigation: null };

test('the empty document that is there first has no client, the next one in its window has', async () => {
  const { window } = fakePage(EMPTY);
  const { document } = window;
  const hosts = [fakeHost(), fakeHost({ key: 'other' })];
  for (const host of hosts) attachPage(window, host);
  await settle();
  assert.equal(clientOf(window), null);
  window.emit('pagehide', { persisted: false });
  window.document = fakePage().document;
  window.location = new URL('http://127.0.0.1:8000/frame');
  await settle();
  window.pagetools.register('todo', [tool('add')]);
  await settle();
  for (const host of hosts) assert.deepEqual(typesOf(host), ['hello', 'register']);
  assert.equal(clientOf(window).document, window.document);
  assert.equal(document.listeners.size, 0);
});

test('an empty document that is written to has a client from then on', async () => {
  const { window, document, mutate } = fakePage(EMPTY);
  const host = fakeHost();
  attachPage(window, host);
  mutate(document, 'childList');
  assert.equal(clientOf(window), null);
  window.location = new URL('http://127.0.0.1:8000/opener');
  mutate(document, 'childList');
  await settle();
  assert.deepEqual(typesOf(host), ['hello']);
});

test('an empty document that a person has opened has a client', async () => {
  const { window } = fakePage(EMPTY);
  window.origin = 'null';
  const host = fakeHost();
  attachPage(window, host);
  await settle();
  assert.deepEqual(typesOf(host), ['hello']);
});

test('an attached page that loads the script has one client, which dials as well', async () => {
  const window = becomePage({ console: silent });
  const host = fakeHost();
  window.document.readyState = 'loading';
  delete globalThis.pagetools;
  attachPage(globalThis, host);
  const { register } = globalThis.pagetools;
  const seen = [];
  window.addEventListener('pagetools:ready', () => seen.push(clientOf(globalThis).script));
  const module = await load();
  await load();
  finishLoading(window.document);
  assert.deepEqual([module.register, globalThis.pagetools.register], [register, register]);
  assert.equal(seen.length, 1);
  assert.match(seen[0], /pagetools\.js\?load=/);
});

test('an attached page that waits for readiness hears of it once its scripts have run', () => {
  for (const readyState of ['loading', 'complete']) {
    const { window, document } = fakePage();
    document.readyState = readyState;
    const seen = [];
    const wait = () => window.addEventListener('pagetools:ready', () => seen.push(window.pagetools));
    if (readyState === 'complete') wait();
    attachPage(window, fakeHost());
    if (readyState === 'loading') wait();
    finishLoading(document);
    assert.deepEqual(seen, [window.pagetools]);
  }
});

/** The modules as one classic script: imports and the word `export` dropped. */
function asOneScript() {
  const parts = readdirSync(new URL('pagetools/', STATIC)).filter((name) => name !== 'globals.js');
  const names = ['globals.js', ...parts];
  const texts = names.map((name) => readFileSync(new URL(`pagetools/${name}`, STATIC), 'utf8'));
  const imports = /^import \{[^}]*\} from '\.\/[\w-]+\.js';\n/gm;
  return texts.map((text) => text.replace(imports, '').replace(/^export (?=\S)/gm, '')).join('\n');
}

test('the modules can be run as one classic script', async () => {
  const script = asOneScript();
  const declarations = script.matchAll(/^(?:async )?(?:function\*?|const|let|class) (\w+)/gm);
  const names = Array.from(declarations, ([, name]) => name);
  assert.deepEqual(
    names.filter((name, index) => names.indexOf(name) !== index),
    [],
  );
  assert.doesNotMatch(script, /^(import|export|await)\b|import\.meta/m);
  const { window } = fakePage();
  const host = fakeHost();
  new Function('window', 'host', `'use strict';${script}\nattachPage(window, host);`)(window, host);
  await settle();
  assert.deepEqual(typesOf(host), ['hello']);
});
