import assert from 'node:assert/strict';
import { test } from 'node:test';

import { connectedPage, FakeHost, FakeLocks, fakePage, FakeStorage, settle, tool } from './fake-page.mjs';

/** A page that loaded no script and was given a channel. */
async function attachedPage(options = {}, host = {}) {
  const page = fakePage({ script: null, ...options });
  page.client.start();
  const bridge = new FakeHost(page, host);
  await settle();
  return { page, bridge };
}
const call = (callId, ns, name, args = {}) => ({ v: 1, type: 'call', callId, ns, name, args });
const idOf = (page) => page.client.status().tabId;
const welcome = (page) => page.welcome({ tabId: idOf(page), maxBytes: 2 ** 20 });
/** A tool that runs until the test ends it. */
function slowTool(name) {
  const running = [];
  const execute = (_args, context) => new Promise((resolve) => running.push({ context, resolve }));
  return { running, ...tool(name, execute) };
}

test('a channel opens at once with hello and the tools, and dials nothing', async () => {
  const page = fakePage({ script: null });
  page.client.register('todo', [tool('add')]);
  page.client.start();
  const bridge = new FakeHost(page);
  await settle();
  assert.deepEqual(bridge.types, ['hello', 'register']);
  const [{ tab, frame, client }, { ns, url }] = bridge.posted;
  assert.deepEqual([tab.id, tab.title, frame], [idOf(page), 'Todos', { top: true }]);
  assert.deepEqual(Object.keys(client), ['name', 'version', 'webmcp']);
  assert.deepEqual([ns, url], ['todo', 'http://127.0.0.1:8000/app']);
  await page.advance(60_000);
  assert.deepEqual([page.sockets.length, page.probes.length, page.said], [0, 0, []]);
  assert.deepEqual([page.client.status().state, page.client.status().url], ['closed', null]);
});

test('over a channel calls are answered, pings too, and states are told', async () => {
  const { page, bridge } = await attachedPage();
  page.client.register('app', [tool('double', ({ n }) => 2 * n)]);
  bridge.receive(call('k1', 'app', 'double', { n: 21 }));
  await settle();
  page.retitle('doubled');
  await settle();
  bridge.receive({ type: 'ping', n: 7 });
  assert.deepEqual(bridge.ofType('result'), [{ v: 1, type: 'result', callId: 'k1', ok: true, value: 42 }]);
  assert.equal(bridge.ofType('state')[0].title, 'doubled');
  assert.deepEqual(bridge.posted.at(-1), { v: 1, type: 'pong', n: 7 });
});

test('the id that a bridge gives over a channel is told to the other bridges', async () => {
  const { page, bridge } = await attachedPage({ storage: new FakeStorage() });
  const other = new FakeHost(page, { key: 'other' });
  await settle();
  bridge.receive({ type: 'welcome', clientId: 'c1', tabId: 'given' });
  await settle();
  assert.equal(idOf(page), 'given');
  assert.equal(page.storage.getItem('pagetools.tab'), 'given');
  assert.deepEqual(bridge.types, ['hello']);
  assert.equal(other.ofType('hello').at(-1).tab.id, 'given');
});

test('a limit that a bridge gives over a channel counts there', async () => {
  const { page, bridge } = await attachedPage();
  bridge.receive({ type: 'welcome', clientId: 'c1', maxBytes: 100 });
  page.client.register('app', [tool('big', () => 'x'.repeat(200))]);
  bridge.receive(call('k1', 'app', 'big'));
  await settle();
  assert.match(bridge.ofType('result')[0].error.message, /result too large/);
});

test('two channels and a socket each answer their own calls', async () => {
  const page = await connectedPage();
  const hosts = [new FakeHost(page, { key: 'a', port: 9400 }), new FakeHost(page, { key: 'b', port: 9500 })];
  const slow = slowTool('run');
  page.client.register('app', [slow]);
  await settle();
  for (const line of [page.socket, ...hosts]) line.receive(call('k1', 'app', 'run'));
  await settle();
  for (const [number, { resolve }] of slow.running.entries()) resolve(number);
  await settle();
  for (const [number, line] of [page.socket, ...hosts].entries()) {
    assert.deepEqual(
      line.ofType('result').map(({ callId, value }) => [callId, value]),
      [['k1', number]],
    );
  }
});

test('cancel on one line leaves the call of the same number on another alone', async () => {
  const { page, bridge } = await attachedPage();
  const other = new FakeHost(page, { key: 'other' });
  await settle();
  const slow = slowTool('run');
  page.client.register('app', [slow]);
  for (const host of [bridge, other]) host.receive(call('k1', 'app', 'run'));
  other.receive({ type: 'cancel', callId: 'k1', reason: 'enough' });
  assert.deepEqual(
    slow.running.map(({ context }) => context.signal.aborted),
    [false, true],
  );
});

test('a second channel with the same key takes the place of the first', async () => {
  const { page, bridge: first } = await attachedPage();
  const slow = slowTool('run');
  page.client.register('app', [slow]);
  await settle();
  first.receive(call('k1', 'app', 'run'));
  const second = new FakeHost(page);
  await settle();
  const { length } = first.posted;
  assert.equal(slow.running[0].context.signal.aborted, true);
  slow.running[0].resolve('too late');
  first.receive({ type: 'ping', n: 1 });
  first.line.close();
  await settle();
  assert.equal(first.posted.length, length);
  page.retitle('seen by the second');
  await settle();
  assert.deepEqual(second.types, ['hello', 'register', 'state']);
});

test('a channel that is closed is told nothing more', async () => {
  const { page, bridge } = await attachedPage();
  bridge.line.close();
  page.client.register('app', [tool('run')]);
  page.retitle('unseen');
  await page.advance(100);
  page.window.emit('pagehide', { persisted: true });
  page.window.emit('pageshow', { persisted: true });
  await page.advance(100);
  assert.deepEqual(bridge.types, ['hello']);
});

test('a channel is quiet while the page itself is connected to its bridge, and comes back after', async () => {
  const page = fakePage();
  page.client.register('app', [tool('run')]);
  page.client.register('same', [tool('stay')]);
  page.client.start();
  const bridge = new FakeHost(page, { port: 9333 });
  await settle();
  assert.deepEqual(bridge.types, ['hello', 'register', 'register']);
  welcome(page);
  await settle();
  assert.deepEqual(bridge.posted.slice(3), [{ v: 1, type: 'quiet', tabId: idOf(page) }]);
  page.retitle('told once');
  page.client.register('app', [tool('run'), tool('more')]);
  await page.advance(100);
  assert.equal(bridge.types.at(-1), 'quiet');
  assert.equal(page.socket.ofType('state').length, 1);
  page.bridge = 'down';
  page.socket.drop();
  await settle();
  const [hello, ...registers] = bridge.posted.slice(4);
  assert.equal(hello.tab.title, 'told once');
  assert.deepEqual(
    registers.map(({ ns, tools }) => [ns, tools.length]),
    [
      ['app', 2],
      ['same', 1],
    ],
  );
  page.bridge = 'up';
  await page.advance(1000);
  welcome(page);
  await settle();
  assert.deepEqual(bridge.types.slice(4), ['hello', 'register', 'register', 'quiet']);
});

test('a channel that opens while the page is connected says only that it is quiet, once', async () => {
  for (const script of ['http://127.0.0.1:9333/pagetools.js', 'http://localhost:9333/pagetools.js']) {
    const page = await connectedPage({ script });
    const bridge = new FakeHost(page, { port: '9333' });
    await settle();
    page.client.register('app', [tool('run')]);
    await settle();
    assert.deepEqual(bridge.types, ['quiet']);
  }
});

test('a channel to another bridge than the one that is dialled is not quiet', async () => {
  for (const [script, port] of [
    ['http://127.0.0.1:9333/pagetools.js', 9334],
    ['http://hub.example:9333/user/ann/pagetools.js', 9333],
  ]) {
    const page = await connectedPage({ script });
    const bridge = new FakeHost(page, { port });
    await settle();
    assert.deepEqual(bridge.types, ['hello']);
  }
});

test('a call that runs when its channel becomes quiet is answered over the channel', async () => {
  const page = fakePage();
  const slow = slowTool('run');
  page.client.register('app', [slow]);
  page.client.start();
  const bridge = new FakeHost(page);
  await settle();
  bridge.receive(call('k1', 'app', 'run'));
  await settle();
  welcome(page);
  await settle();
  page.document.title = 'changed by the tool';
  slow.running[0].context.progress(1);
  slow.running[0].resolve('done');
  await settle();
  assert.deepEqual(bridge.types.slice(2), ['quiet', 'progress', 'result']);
  assert.equal(page.socket.ofType('result').length, 0);
});

test('a call is still cancelled after its channel was quiet', async () => {
  const page = fakePage();
  const slow = slowTool('run');
  page.client.register('app', [slow]);
  page.client.start();
  const bridge = new FakeHost(page);
  await settle();
  bridge.receive(call('k1', 'app', 'run'));
  welcome(page);
  await settle();
  page.socket.drop();
  await settle();
  bridge.receive({ type: 'cancel', callId: 'k1' });
  assert.equal(slow.running[0].context.signal.aborted, true);
});

test('a host of a channel is left the tools whose function only the browser has', async () => {
  const { page, bridge } = await attachedPage();
  page.client.register('app', [tool('find', () => 'found', { native: true })]);
  bridge.receive(call('k1', 'app', 'find', { n: 1 }));
  await settle();
  assert.deepEqual(bridge.ofType('native'), [
    { v: 1, type: 'native', callId: 'k1', name: 'find', args: { n: 1 } },
  ]);
  assert.equal(bridge.ofType('result').length, 0);
});

test('a frame that declares nothing asks for nothing and says nothing', async () => {
  const top = fakePage({ script: null });
  top.client.start();
  const heard = [];
  top.window.addEventListener('message', ({ data }) => heard.push(data));
  const locks = new FakeLocks();
  const frame = fakePage({ script: null, parent: top, locks });
  frame.client.start();
  const bridge = new FakeHost(frame);
  await top.advance(60_000);
  frame.document.emit('freeze');
  frame.document.emit('resume');
  await settle();
  assert.deepEqual([bridge.types, heard, locks.held.size, frame.storage.items.size], [[], [], 0, 0]);
  frame.document.emit('freeze');
  frame.client.register('app', [tool('run')]);
  await settle();
  frame.document.emit('resume');
  await settle();
  assert.deepEqual(bridge.types, ['hello', 'register']);
  assert.deepEqual(bridge.posted[0].frame, { top: false });
  assert.equal(locks.held.size, 0, 'its host knows which tab it is in');
  frame.client.unregister('app');
  await top.advance(10);
  assert.deepEqual(bridge.posted.at(-1).tools, [], 'once known, it is not forgotten');
});

test('a page that is put aside takes its leave, and says hello when it is back', async () => {
  const ways = [
    ['window', 'pagehide', { persisted: true }, 'window', 'pageshow', true],
    ['window', 'pagehide', { persisted: false }, 'window', 'pageshow', false],
    ['document', 'freeze', {}, 'document', 'resume', true],
  ];
  for (const [where, leave, fields, whereBack, come, asleep] of ways) {
    const { page, bridge } = await attachedPage();
    page.client.register('app', [tool('run')]);
    await settle();
    page[where].emit(leave, fields);
    assert.deepEqual(bridge.posted.at(-1), { v: 1, type: 'bye', asleep }, leave);
    page.document.emit('freeze');
    page.retitle('unseen');
    await page.advance(60_000);
    assert.equal(bridge.types.at(-1), 'bye');
    page[whereBack].emit(come);
    await page.advance(60);
    assert.deepEqual(bridge.types, ['hello', 'register', 'bye', 'hello', 'register']);
    assert.equal(bridge.posted[0].tab.id, bridge.posted[3].tab.id);
  }
});

test('calls of a page that is left are aborted, and answered no more', async () => {
  const { page, bridge } = await attachedPage();
  const slow = slowTool('run');
  page.client.register('app', [slow]);
  bridge.receive(call('k1', 'app', 'run'));
  page.window.emit('pagehide', { persisted: true });
  page.window.emit('pageshow', { persisted: true });
  await page.advance(100);
  assert.equal(slow.running[0].context.signal.aborted, true);
  slow.running[0].resolve('too late');
  await settle();
  assert.equal(bridge.ofType('result').length, 0);
});

test('a page that is prerendered says hello when it is shown', async () => {
  const page = fakePage({ script: null, prerendering: true });
  page.client.start();
  const bridge = new FakeHost(page);
  await page.advance(5000);
  assert.deepEqual(bridge.types, []);
  page.document.prerendering = false;
  page.document.emit('prerenderingchange');
  await settle();
  assert.deepEqual(bridge.types, ['hello']);
});

test('a host that is gone hurts neither the page nor the other lines', async () => {
  const page = await connectedPage();
  const gone = new FakeHost(page, { key: 'gone', port: 9400 });
  const other = new FakeHost(page, { key: 'other', port: 9500 });
  gone.isGone = true;
  page.client.register('app', [tool('run', (_args, { progress }) => progress(1) ?? 'done')]);
  await settle();
  for (const line of [gone, other, page.socket]) line.receive(call('k1', 'app', 'run'));
  page.retitle('told');
  await settle();
  assert.deepEqual(other.types, ['hello', 'register', 'progress', 'state', 'result']);
  assert.equal(page.socket.ofType('result').length, 1);
  page.window.emit('pagehide', { persisted: true });
  assert.equal(page.socket.closedWith.code, 4001);
  assert.equal(other.types.at(-1), 'bye');
  assert.deepEqual([gone.posted, page.warnings()], [[], []]);
});

test('tools are declared at most four times in any second, at first soon, and at last', async () => {
  const { page, bridge } = await attachedPage();
  const times = [];
  const { post } = bridge;
  const counting = page.client.channel({
    key: 'counting',
    port: 1,
    post: (text) => JSON.parse(text).type === 'register' && times.push(page.clock.now) && post(text),
  });
  await settle();
  for (let turn = 0; turn < 1000; turn += 1) {
    page.client.register('app', [tool(`t${turn}`)]);
    await page.advance(5);
  }
  await page.advance(1000);
  assert.ok(times[1] - times[0] <= 10 && times[3] - times[0] < 350, 'four soon');
  for (let turn = 4; turn < times.length; turn += 1) assert.ok(times[turn] - times[turn - 4] >= 1000);
  assert.ok(times.length >= 20, 'and they go on');
  assert.equal(bridge.ofType('register').at(-1).tools[0].name, 't999');
  counting.close();
});

test('a timer that is late does not hold tools back once it is their turn', async () => {
  const { page, bridge } = await attachedPage();
  for (const [name, gap] of Object.entries({ a: 10, b: 50, c: 250, d: 0, e: 0 })) {
    page.client.register('app', [tool(name)]);
    await settle();
    await page.advance(gap);
  }
  assert.equal(bridge.ofType('register').at(-1).tools[0].name, 'd');
  page.clock.now += 1000;
  page.client.register('app', [tool('f')]);
  await settle();
  assert.equal(bridge.ofType('register').at(-1).tools[0].name, 'f');
});

test('tools that a page registers one by one come in few messages', async () => {
  const { page, bridge } = await attachedPage();
  const tools = [];
  for (let turn = 0; turn < 30; turn += 1) {
    tools.push(tool(`t${turn}`));
    page.client.register('app', tools);
    await settle();
  }
  await page.advance(10);
  assert.deepEqual(
    bridge.ofType('register').map(({ tools }) => tools.length),
    [1, 30],
  );
});

test('what a tool changes in the tools is declared before its answer', async () => {
  const { page, bridge } = await attachedPage();
  const more = tool('run', () => {
    page.client.register('a', [tool('a')]);
    page.client.register('b', [tool('b')]);
  });
  page.client.register('app', [more]);
  await settle();
  bridge.receive(call('k1', 'app', 'run'));
  await settle();
  assert.deepEqual(bridge.types.slice(-3), ['register', 'register', 'result']);
});

test('a burst sends only the namespaces that differ', async () => {
  const { page, bridge } = await attachedPage();
  for (const ns of ['a', 'b', 'c']) page.client.register(ns, [tool('run')]);
  await settle();
  page.client.register('a', [tool('run')]);
  page.client.register('b', [tool('other')]);
  page.client.unregister('c');
  await page.advance(10);
  assert.deepEqual(
    bridge.ofType('register').slice(3).map(({ ns, tools }) => [ns, tools.length]),
    [
      ['b', 1],
      ['c', 0],
    ],
  );
});

test('a page that is superseded on its socket tells its channels its new id', async () => {
  const page = await connectedPage({ locks: new FakeLocks() });
  const bridge = new FakeHost(page, { port: 9400 });
  await settle();
  page.socket.drop(4409, 'superseded');
  await settle();
  assert.equal(bridge.ofType('hello').at(-1).tab.id, page.socket.sent[0].tab.id);
});

test('dispose ends the channels', async () => {
  const { page, bridge } = await attachedPage();
  const slow = slowTool('run');
  page.client.register('app', [slow]);
  bridge.receive(call('k1', 'app', 'run'));
  await settle();
  page.client.dispose();
  await settle();
  assert.equal(slow.running[0].context.signal.aborted, true);
  assert.equal(page.window.listeners.size + page.document.listeners.size + page.clock.timers.size, 0);
  assert.equal(page.window.navigator.locks.held.size, 0);
});
