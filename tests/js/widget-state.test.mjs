import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';

import {
  ago,
  applyDelta,
  duration,
  focusOf,
  found,
  hueOf,
  liveTabs,
  news,
  routeOf,
  sharedApps,
  toolCount,
} from '../../pagetools_ipy/static/widget.js';
import { bridge, call, stateOf, tab } from './fake-model.mjs';

const idsOf = (list) => list.map(({ id }) => id);

test('a delta changes the fields that it names, and leaves every other tab the same object', () => {
  const state = stateOf({ tabs: [tab('a'), tab('b')] });
  const next = applyDelta(state, { seq: 1, tabs: { b: { focused: true } } });
  assert.equal(next.seq, 1);
  assert.equal(next.tabs[0], state.tabs[0]);
  assert.deepEqual(next.tabs[1], { ...tab('b'), focused: true });
  assert.equal(next.calls, state.calls);
  assert.equal(next.answers, state.answers);
});

test('a delta brings tabs, takes them away and orders them', () => {
  const state = stateOf({ tabs: [tab('a'), tab('b')] });
  const next = applyDelta(state, { seq: 1, tabs: { c: tab('c') }, removed: ['a'], order: ['c', 'b'] });
  assert.deepEqual(idsOf(next.tabs), ['c', 'b']);
});

test('a tab that the order forgets is still shown, and one that is not there is not made up', () => {
  const state = stateOf({ tabs: [tab('a'), tab('b')] });
  assert.deepEqual(idsOf(applyDelta(state, { seq: 1, order: ['b', 'x'] }).tabs), ['b', 'a']);
});

test('a tab of which too little is known is drawn as far as it is', () => {
  const [only] = applyDelta(stateOf(), { seq: 1, tabs: { a: { title: 'A' } } }).tabs;
  assert.deepEqual([only.id, only.title, only.apps, only.number], ['a', 'A', [], null]);
});

test('answers are merged and null takes one away; the pin is replaced, also by null', () => {
  const state = stateOf({ answers: { todo: 'a', shop: 'b' }, pinned: 'a' });
  const next = applyDelta(state, { seq: 1, answers: { todo: null, lab: 'c' }, pinned: null });
  assert.deepEqual(next.answers, { shop: 'b', lab: 'c' });
  assert.equal(next.pinned, null);
  assert.equal(applyDelta(state, { seq: 1, bridge: { ...bridge, port: 1 } }).pinned, 'a');
});

test('calls are kept by id, newest first: all on their way and the last twenty that are over', () => {
  const old = Array.from({ length: 25 }, (_, n) => call(`c${n}`, { startedAt: n }));
  const state = stateOf({ calls: [call('p', { state: 'pending', startedAt: -1, ms: null })] });
  const next = applyDelta(state, { seq: 1, calls: old });
  assert.equal(next.calls.length, 21);
  assert.equal(next.calls[0].id, 'c24');
  assert.equal(next.calls.at(-1).id, 'p');
  const over = applyDelta(next, { seq: 2, calls: [call('c24', { startedAt: 24, note: 'new' })] });
  assert.equal(over.calls[0].note, 'new');
  assert.equal(over.calls.length, 21);
});

test('only tabs with a number can be called and count', () => {
  const tabs = [tab('a'), tab('b', { number: null, state: 'gone' })];
  assert.deepEqual(idsOf(liveTabs(stateOf({ tabs }))), ['a']);
  assert.equal(toolCount(liveTabs(stateOf({ tabs }))), 1);
});

test('of an app in several tabs one answers and the others are shadowed by it', () => {
  const tabs = [tab('a'), tab('b', { number: 1 }), tab('c', { number: 2, apps: [{ ns: 'own', tools: [] }] })];
  const shared = sharedApps(stateOf({ tabs, answers: { todo: 'b', own: 'c' } }));
  assert.deepEqual(routeOf(tabs[0], 'todo', shared, false).words, 'shadowed by tabs[1]');
  assert.deepEqual(routeOf(tabs[1], 'todo', shared, false).words, 'answers calls to todo');
  assert.equal(routeOf(tabs[2], 'own', shared, false), null);
});

test('where none answers, no tab claims to', () => {
  const tabs = [tab('a'), tab('b', { number: 1 })];
  const shared = sharedApps(stateOf({ tabs }));
  assert.equal(routeOf(tabs[0], 'todo', shared, true).words, 'open in several tabs: name one');
});

test('times are short words', () => {
  assert.deepEqual([0, 12.4, 999, 1000, 59_940, 61_000].map(duration), [
    '0 ms',
    '12 ms',
    '999 ms',
    '1.0 s',
    '59.9 s',
    '1 min 01 s',
  ]);
  assert.equal(duration(-50), '0 ms', 'the clocks of kernel and browser differ');
  const minute = 60_000;
  const words = [-5, 0, 2, 61, 60 * 24, 60 * 49].map((minutes) => ago(0, minutes * minute));
  assert.deepEqual(words, ['just now', 'just now', '2 min ago', '1 h ago', '1 day ago', '2 days ago']);
});

test('where the person looks is said in words', () => {
  const words = (fields) => focusOf(tab('a', fields), 120_000).words;
  assert.equal(words({ focused: true, visible: true }), 'focused');
  assert.equal(words({ active: true }), 'active');
  assert.equal(words({ visible: true }), 'visible');
  assert.equal(words({ lookedAt: 1 }), 'hidden · looked at 2 min ago');
  assert.equal(words({}), 'hidden');
});

test('a host has one colour, and another host another', () => {
  assert.equal(hueOf('localhost:3000'), hueOf('localhost:3000'));
  assert.notEqual(hueOf('localhost:3000'), hueOf('localhost:3001'));
  assert.ok(hueOf('日本') >= 0 && hueOf('日本') < 360);
});

const shop = tab('s', {
  title: 'Garden Shop',
  number: 3,
  apps: [{ ns: 'shop', tools: ['search', 'checkout'] }],
});
const details = [{ ns: 'shop', name: 'checkout', title: null, description: 'Orders what is in the cart' }];

test('a search finds tabs by title, host and number, with all their tools', () => {
  for (const query of ['', 'garden', 'GARDEN shop', '5173', 'tabs[3]']) {
    assert.equal(found(shop, query).size, 2, query);
  }
});

test('a search finds tools by name, namespace and, once known, description; every word counts', () => {
  assert.deepEqual([...found(shop, 'check')], ['["shop","checkout"]']);
  assert.deepEqual([...found(shop, 'cart orders', details)], ['["shop","checkout"]']);
  assert.equal(found(shop, 'cart'), null);
  assert.deepEqual([...found(shop, 'garden check')], ['["shop","checkout"]']);
  assert.equal(found(shop, 'garden missing'), null);
});

test('a tab without tools is found by its title', () => {
  assert.equal(found(tab('a', { apps: [] }), 'page').size, 0);
});

test('a screen reader hears what came, what left, and which long call is over; many at once as one', () => {
  const before = stateOf({ tabs: [tab('a')], calls: [call('c', { state: 'pending', ms: null })] });
  const came = { ...before, tabs: [tab('a'), tab('b')] };
  assert.equal(news(before, came), 'Page b connected');
  assert.equal(news(came, before), 'Page b is gone');
  assert.equal(news(before, { ...before, tabs: [tab('a'), tab('b'), tab('c')] }), '2 tabs connected');
  assert.equal(news(before, { ...before, calls: [call('c', { ms: 12 })] }), '');
  assert.equal(news(before, { ...before, calls: [call('c', { ms: 5000 })] }), 'todo/add_todo answered');
});

test('nothing in the widget reads text as markup or as an address', () => {
  const source = readFileSync(new URL('../../pagetools_ipy/static/widget.js', import.meta.url), 'utf8');
  const parsing =
    /innerHTML|outerHTML|insertAdjacentHTML|DOMParser|createContextualFragment|document\.write|\beval\b|\bhref\b/;
  assert.equal(source.match(parsing), null);
  assert.equal(source.match(/^import\b/m), null, 'anywidget loads one file');
  assert.equal(
    source.match(/export (async )?(function|const) render\b/),
    null,
    'anywidget takes it for a hook',
  );
});
