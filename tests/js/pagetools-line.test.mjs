import assert from 'node:assert/strict';
import { test } from 'node:test';

import { merged } from '../../pagetools_ipy/static/pagetools/client.js';
import { createLine } from '../../pagetools_ipy/static/pagetools/line.js';
import { toolSet } from '../../pagetools_ipy/static/pagetools/tools.js';
import { fakePage, settle, tool } from './fake-page.mjs';

const ORIGIN = 'https://app.example';

/** A line of a page with these tools under its origin, and what it posted. */
function lineOf(tools, options = {}) {
  const { window, clock } = fakePage();
  const sets = new Map([[ORIGIN, toolSet(ORIGIN, tools)]]);
  const posted = [];
  const page = {
    window,
    sets,
    runtime: 'none',
    now: () => clock.now,
    look: () => ({ title: 'Todos' }),
    nextSeq: () => 1,
    about: () => ({ client: { webmcp: page.runtime } }),
    rename() {},
    warn() {},
  };
  const side = { ...page, sets: () => page.sets, webmcp: () => page.runtime, about: page.about };
  const line = createLine(side, { post: (text) => posted.push(JSON.parse(text)), ...options });
  line.greet();
  const receive = (message) => line.receive(JSON.stringify(message));
  return { line, page, clock, posted, receive };
}
const call = (name) => ({ v: 1, type: 'call', callId: 'k1', ns: ORIGIN, name, args: { n: 1 } });
const native = (execute) => tool('find', execute, { native: true });

test('a tool whose function only the browser has is left to the host, and forgotten', async () => {
  const executed = [];
  const { posted, receive } = lineOf([native((args) => executed.push(args))], { delegates: true });
  posted.length = 0;
  receive(call('find'));
  receive({ type: 'cancel', callId: 'k1', reason: 'enough' });
  receive(call('find'));
  await settle();
  const left = { v: 1, type: 'native', callId: 'k1', name: 'find', args: { n: 1 } };
  assert.deepEqual([posted, executed], [[left, left], []]);
});

test('other tools are executed in the page, and so are all where nobody can do better', async () => {
  for (const [offered, options] of [
    [tool('find', () => 'found'), { delegates: true }],
    [native(() => 'found'), {}],
  ]) {
    const { posted, receive } = lineOf([offered], options);
    receive(call('find'));
    await settle();
    assert.deepEqual(posted.at(-1), { v: 1, type: 'result', callId: 'k1', ok: true, value: 'found' });
  }
});

test('what only the browser has is not part of what is declared', () => {
  const { posted } = lineOf([native()]);
  assert.deepEqual(posted.at(-1).tools, [{ name: 'find', description: 'does find' }]);
});

test('hello is said again when the page turns out to have another runtime', () => {
  const { line, page, clock, posted } = lineOf([tool('find')]);
  page.runtime = 'native';
  line.declare();
  assert.equal(posted.length, 2, 'not by itself');
  page.sets = new Map();
  clock.now += 10;
  line.declare();
  assert.deepEqual(
    posted.slice(2).map(({ type, client, tools }) => client?.webmcp ?? [type, tools]),
    ['native', ['register', []]],
  );
});

const setOf = (ns, ...names) => [ns, toolSet(ns, names.map((name) => tool(name)))];
const namesOf = (sets) => Object.fromEntries([...sets].map(([ns, { tools }]) => [ns, [...tools.keys()]]));

test('a tool declared in a namespace of its own is not listed again under its origin', () => {
  const own = new Map([setOf('todo', 'add')]);
  const found = new Map([setOf('shop', 'buy'), setOf(ORIGIN, 'add', 'buy', 'find'), setOf('null', 'add')]);
  const all = merged(own, found);
  assert.deepEqual(namesOf(all), { shop: ['buy'], todo: ['add'], [ORIGIN]: ['find'] });
  assert.deepEqual(JSON.parse(all.get(ORIGIN).manifest), [{ name: 'find', description: 'does find' }]);
});

test('the same name in two namespaces of its own is two tools', () => {
  const all = merged(new Map([setOf('todo', 'add')]), new Map([setOf('shop', 'add')]));
  assert.deepEqual(namesOf(all), { shop: ['add'], todo: ['add'] });
});

test('what is registered in a namespace wins over what was found there', () => {
  const found = new Map([setOf('shop', 'buy'), setOf(ORIGIN, 'find')]);
  const all = merged(new Map([setOf('shop', 'sell'), setOf(ORIGIN, 'own')]), found);
  assert.deepEqual(namesOf(all), { shop: ['sell'], [ORIGIN]: ['own'] });
});
