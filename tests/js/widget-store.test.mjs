import assert from 'node:assert/strict';
import { mock, test } from 'node:test';

import widget, { Store } from '../../pagetools_ipy/static/widget.js';
import { answering, bridge, FakeModel, stateOf, tab } from './fake-model.mjs';

const settle = () => new Promise((resolve) => setImmediate(resolve));

function begun(state = stateOf({ tabs: [tab('a')] }), t = null) {
  const model = new FakeModel(state);
  const life = new AbortController();
  t?.after(() => life.abort());
  const store = new Store(model.proxy(), life.signal);
  let told = 0;
  store.subscribe(() => told++, life.signal);
  return { model, store, life, told: () => told };
}

test('deltas are applied in order, and one that is known already is ignored', (t) => {
  const { model, store, told } = begun(stateOf({ seq: 4, tabs: [tab('a')] }), t);
  model.hear({ kind: 'delta', seq: 4, tabs: { a: { title: 'old' } } });
  assert.equal(told(), 0);
  model.hear({ kind: 'delta', seq: 5, tabs: { a: { title: 'new' } } });
  assert.deepEqual([store.state.tabs[0].title, store.state.seq, told()], ['new', 5, 1]);
});

test('after a gap the whole state is asked for once, and deltas count again from there', async (t) => {
  const { model, store } = begun(undefined, t);
  model.hear({ kind: 'delta', seq: 3, tabs: { a: { title: 'lost' } } });
  model.hear({ kind: 'delta', seq: 4, tabs: { a: { title: 'lost' } } });
  assert.equal(store.state.tabs[0].title, 'Page a');
  const asked = model.sentOf('snapshot');
  assert.equal(asked.length, 1);
  model.reply(asked[0], { state: stateOf({ seq: 4, tabs: [tab('b')] }) });
  await settle();
  model.hear({ kind: 'delta', seq: 5, tabs: { b: { title: 'next' } } });
  assert.deepEqual(
    store.state.tabs.map(({ id, title }) => [id, title]),
    [['b', 'next']],
  );
  model.hear({ kind: 'delta', seq: 9 });
  assert.equal(model.sentOf('snapshot').length, 2);
});

test('a snapshot and the delta right behind it are both taken, though they come in one go', async (t) => {
  const { model, store } = begun(undefined, t);
  model.hear({ kind: 'delta', seq: 3 });
  model.reply(model.sentOf('snapshot')[0], { state: stateOf({ seq: 3, tabs: [tab('b')] }) });
  model.hear({ kind: 'delta', seq: 4, tabs: { b: { title: 'next' } } });
  await settle();
  assert.deepEqual([store.state.seq, store.state.tabs[0].title], [4, 'next']);
  assert.equal(model.sentOf('snapshot').length, 1);
});

test('a reply finds its request, and replies to other front ends find none', async (t) => {
  const { model, store } = begun(undefined, t);
  const [one, two] = [store.request({ kind: 'cell' }), store.request({ kind: 'cell' })];
  const [first, second] = model.sentOf('cell');
  assert.notEqual(first.re, second.re);
  model.reply({ re: 'somebody else' }, { cell: 'x' });
  model.reply(second, { cell: '2' });
  model.reply(first, { cell: '1' });
  assert.deepEqual([(await one).cell, (await two).cell], ['1', '2']);
});

test('a call is started first and over later', async (t) => {
  const { model, store } = begun(undefined, t);
  const started = [];
  const over = store.request({ kind: 'call' }, (id) => started.push(id));
  const [request] = model.sent;
  model.reply(request, { started: 'c7' });
  assert.deepEqual(started, ['c7']);
  model.reply(request, { ok: true, value: '1' });
  assert.equal((await over).value, '1');
});

test('a kernel that lets a request wait is said to be slow until it answers; a call, until it has begun', (t) => {
  mock.timers.enable({ apis: ['setTimeout'] });
  t.after(() => mock.timers.reset());
  const { model, store, told } = begun(undefined, t);
  store.request({ kind: 'call' });
  mock.timers.tick(499);
  assert.equal(store.slow, false);
  mock.timers.tick(1);
  assert.deepEqual([store.slow, told()], [true, 1]);
  model.reply(model.sent[0], { started: 'c1' });
  assert.deepEqual([store.slow, told()], [false, 2]);
  mock.timers.tick(600_000);
  assert.equal(store.slow, false);
});

test('a kernel that was restarted ends every request in words, and nothing is thrown', async (t) => {
  const { model, store, told } = begun(undefined, t);
  const waiting = store.request({ kind: 'call' });
  model.restartKernel();
  assert.deepEqual([store.stale, told()], [true, 1]);
  assert.equal((await waiting).error, 'The kernel was restarted.');
  assert.equal((await store.request({ kind: 'cell' })).ok, false);
  store.send({ kind: 'pin', tab: 'a' });
  assert.equal(model.sentOf('pin').length, 0);
});

test('a send that fails is how a restart is noticed where no event told of it', async (t) => {
  const { model, store } = begun(undefined, t);
  model.alive = false;
  assert.equal((await store.request({ kind: 'snippet' })).ok, false);
  assert.equal(store.stale, true);
});

test('tools are asked for once for each set of them, and what is known stays until the answer', async (t) => {
  const { model, store } = begun(undefined, t);
  let tools = [{ ns: 'todo', name: 'one' }];
  answering(model, { toolsOf: () => tools });
  const now = () => store.state.tabs[0];
  store.learn(now());
  store.learn(now());
  await settle();
  assert.equal(model.sentOf('tools').length, 1);
  assert.equal(store.toolsOf(now()).tools[0].name, 'one');
  tools = [{ ns: 'todo', name: 'two' }];
  model.delta({ tabs: { a: { title: 'other title' } } });
  store.learn(now());
  assert.equal(model.sentOf('tools').length, 1);
  model.delta({ tabs: { a: { apps: [{ ns: 'todo', tools: ['two'] }] } } });
  store.learn(now());
  assert.equal(store.toolsOf(now()).tools[0].name, 'one');
  await settle();
  assert.equal(store.toolsOf(now()).tools[0].name, 'two');
});

test('an answer that a newer question has overtaken is not taken for its answer', async (t) => {
  const { model, store } = begun(undefined, t);
  store.learn(store.state.tabs[0]);
  model.delta({ tabs: { a: { apps: [{ ns: 'todo', tools: ['two'] }] } } });
  store.learn(store.state.tabs[0]);
  const [first, second] = model.sentOf('tools');
  model.reply(second, { tools: [{ ns: 'todo', name: 'two' }] });
  model.reply(first, { tools: [{ ns: 'todo', name: 'one' }] });
  await settle();
  assert.equal(store.toolsOf(store.state.tabs[0]).tools[0].name, 'two');
});

test('tools that could not be had are an error, and can be asked for again', async (t) => {
  const { model, store } = begun(undefined, t);
  store.learn(store.state.tabs[0]);
  model.reply(model.sent[0], { error: 'the tab is asleep' });
  await settle();
  assert.equal(store.toolsOf(store.state.tabs[0]).error, 'the tab is asleep');
  store.forget(store.state.tabs[0]);
  store.learn(store.state.tabs[0]);
  assert.equal(model.sentOf('tools').length, 2);
});

test('when the model goes, no listener, timer or subscriber stays', (t) => {
  mock.timers.enable({ apis: ['setTimeout'] });
  t.after(() => mock.timers.reset());
  const { model, store, life, told } = begun();
  assert.ok(model.listeners.size > 0);
  store.request({ kind: 'cell' });
  life.abort();
  assert.equal(model.listeners.size, 0);
  mock.timers.tick(10_000);
  model.delta({ bridge });
  assert.equal(told(), 0);
});

test('each model has hooks of its own, and what initialize gives back ends it without a signal', () => {
  const [one, two] = [widget(), widget()];
  assert.notEqual(one, two);
  const model = new FakeModel(stateOf());
  const end = one.initialize({ model: model.proxy() });
  assert.ok(model.listeners.size > 0);
  end();
  assert.equal(model.listeners.size, 0);
});
