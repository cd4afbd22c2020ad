import assert from 'node:assert/strict';
import { test } from 'node:test';

import { answerOf, connectedPage, settle, tool } from './fake-page.mjs';

const call = (fields = {}) => ({
  v: 1,
  type: 'call',
  callId: 'k1',
  ns: 'app',
  name: 'run',
  args: {},
  ...fields,
});
const cancel = (reason) => ({ v: 1, type: 'cancel', callId: 'k1', reason });

/** A page with a tool that runs until the test ends it. */
async function pageWithSlowTool() {
  const page = await connectedPage();
  const running = [];
  const execute = (args, context) =>
    new Promise((resolve, reject) => running.push({ args, context, resolve, reject }));
  page.client.register('app', [tool('run', execute)]);
  return { page, running };
}

test('a call runs the tool with its arguments and answers with the value', async () => {
  const page = await connectedPage();
  page.client.register('todo', [tool('add', ({ title }) => ({ id: 1, title }))]);
  page.socket.receive(call({ ns: 'todo', name: 'add', args: { title: 'milk' } }));
  await settle();
  assert.deepEqual(page.socket.ofType('result'), [
    { v: 1, type: 'result', callId: 'k1', ok: true, value: { id: 1, title: 'milk' } },
  ]);
});

test('a call without arguments gives the tool an empty object', async () => {
  const page = await connectedPage();
  page.client.register('app', [tool('run', (args) => args)]);
  page.socket.receive({ type: 'call', callId: 'k1', ns: 'app', name: 'run' });
  page.socket.receive(call({ callId: 'k2', args: null }));
  await settle();
  assert.deepEqual(
    page.socket.ofType('result').map(({ value }) => value),
    [{}, {}],
  );
});

test('a tool keeps its own this', async () => {
  const page = await connectedPage();
  const counter = {
    ...tool('run'),
    count: 41,
    execute() {
      return (this.count += 1);
    },
  };
  page.client.register('app', [counter]);
  page.socket.receive(call());
  await settle();
  assert.equal(page.socket.ofType('result')[0].value, 42);
});

test('an answer waits for no timer', async () => {
  const page = await connectedPage();
  page.client.register('app', [tool('run', async () => 'done')]);
  await settle();
  const timers = new Map(page.clock.timers);
  page.socket.receive(call());
  await settle();
  assert.equal(page.socket.ofType('result').length, 1);
  assert.deepEqual(page.clock.timers, timers);
});

test('a tool may fail before its first await, after it, or by returning a broken promise', async () => {
  const failures = [
    () => {
      throw new Error('boom');
    },
    async () => {
      await null;
      throw new Error('boom');
    },
    () => ({
      then(_resolve, reject) {
        reject(new Error('boom'));
      },
    }),
    () => ({
      get then() {
        throw new Error('boom');
      },
    }),
  ];
  for (const execute of failures) {
    const answer = await answerOf(execute);
    assert.equal(answer.ok, false);
    assert.equal(answer.error.message, 'boom');
  }
});

test('an unknown namespace or tool is answered with what there is', async () => {
  const page = await connectedPage();
  page.client.register('todo', [tool('add'), tool('list')]);
  page.socket.receive(call({ callId: 'a', ns: 'shop' }));
  page.socket.receive(call({ callId: 'b', ns: 'todo', name: 'drop' }));
  await settle();
  const [noNamespace, noTool] = page.socket.ofType('result').map(({ error }) => error);
  assert.equal(noNamespace.name, 'NotFoundError');
  assert.equal(noNamespace.message, 'this page has no namespace "shop"; there is todo');
  assert.equal(noTool.message, '"todo" has no tool "drop"; there is add, list');
});

test('a call number that is running already is ignored', async () => {
  const { page, running } = await pageWithSlowTool();
  page.socket.receive(call());
  page.socket.receive(call());
  running[0].resolve('once');
  await settle();
  assert.equal(running.length, 1);
  assert.equal(page.socket.ofType('result').length, 1);
});

test('many calls at once are each answered once, in the order they finish', async () => {
  const { page, running } = await pageWithSlowTool();
  for (let number = 0; number < 20; number += 1) page.socket.receive(call({ callId: `k${number}` }));
  for (const [number, each] of running.entries()) if (number % 2) each.resolve(number);
  await settle();
  for (const [number, each] of running.entries()) if (number % 2 === 0) each.reject(new Error('even'));
  await settle();
  const answers = page.socket.ofType('result');
  assert.equal(new Set(answers.map(({ callId }) => callId)).size, 20);
  assert.equal(answers.length, 20);
});

test("cancel aborts the tool's signal with the reason, and the tool's failure is an AbortError", async () => {
  const { page, running } = await pageWithSlowTool();
  page.socket.receive(call());
  const { signal } = running[0].context;
  signal.addEventListener('abort', () => running[0].reject(signal.reason));
  page.socket.receive(cancel('the cell was interrupted'));
  await settle();
  assert.equal(signal.reason.name, 'AbortError');
  const [{ ok, error }, ...more] = page.socket.ofType('result');
  assert.deepEqual([ok, error.name, error.message], [false, 'AbortError', 'the cell was interrupted']);
  assert.equal(more.length, 0);
});

test('a tool that fails in its own way after cancel still counts as aborted', async () => {
  const { page, running } = await pageWithSlowTool();
  page.socket.receive(call());
  page.socket.receive(cancel('timeout'));
  running[0].reject(new TypeError('half done'));
  await settle();
  const { error } = page.socket.ofType('result')[0];
  assert.deepEqual([error.name, error.message], ['AbortError', 'half done']);
});

test('a tool that does not listen to cancel answers late, once', async () => {
  const { page, running } = await pageWithSlowTool();
  page.socket.receive(call());
  page.socket.receive(cancel('timeout'));
  page.socket.receive(cancel('again'));
  await settle();
  assert.equal(page.socket.ofType('result').length, 0);
  running[0].resolve('partial');
  await settle();
  assert.deepEqual(
    page.socket.ofType('result').map(({ value }) => value),
    ['partial'],
  );
});

test('cancelling a call that is over or was never there changes nothing', async () => {
  const page = await connectedPage();
  page.client.register('app', [tool('run')]);
  page.socket.receive(call());
  await settle();
  page.socket.receive(cancel('late'));
  page.socket.receive({ type: 'cancel', callId: 'unknown' });
  await settle();
  assert.equal(page.socket.ofType('result').length, 1);
});

test('progress is told as numbers or as an object', async () => {
  const page = await connectedPage();
  page.client.register('app', [
    tool('run', (_args, { progress }) => {
      progress(1);
      progress(2, 10, 'two of ten', { rows: new Set([1]) });
      progress({ progress: 3, total: 10, message: 'three', value: null });
    }),
  ]);
  page.socket.receive(call());
  await settle();
  const base = { v: 1, type: 'progress', callId: 'k1' };
  assert.deepEqual(page.socket.ofType('progress'), [
    { ...base, progress: 1 },
    { ...base, progress: 2, total: 10, message: 'two of ten', value: { rows: [1] } },
    { ...base, progress: 3, total: 10, message: 'three', value: null },
  ]);
});

test('a progress object cannot pass for another message', async () => {
  const page = await connectedPage();
  const forged = { progress: 1, type: 'result', callId: 'other', ok: true, v: 9 };
  page.client.register('app', [tool('run', (_args, { progress }) => progress(forged))]);
  page.socket.receive(call());
  await settle();
  assert.deepEqual(page.socket.ofType('progress'), [{ v: 1, type: 'progress', callId: 'k1', progress: 1 }]);
  assert.equal(page.socket.ofType('result').length, 1);
});

test('progress after the answer is dropped', async () => {
  let report;
  const page = await connectedPage();
  page.client.register('app', [
    tool('run', (_args, { progress }) => {
      report = progress;
    }),
  ]);
  page.socket.receive(call());
  await settle();
  report(1);
  assert.equal(page.socket.ofType('progress').length, 0);
});

test('a partial value that cannot be sent fails the tool with the reason', async () => {
  const unserialisable = await answerOf((_args, { progress }) => progress(1, 2, 'x', 10n));
  assert.match(unserialisable.error.message, /BigInt/);
  const large = await answerOf((_args, { progress }) => progress(1, 2, 'x'.repeat(2 ** 21)), {
    maxBytes: 2 ** 20,
  });
  assert.match(large.error.message, /progress too large: 2.1 MiB > 1 MiB/);
});

test('a flood of progress is thinned out, its last report comes before the answer', async () => {
  const page = await connectedPage();
  const execute = (_args, { progress }) => {
    for (let row = 1; row <= 10_000; row += 1) progress(row, 10_000);
  };
  page.client.register('app', [tool('run', execute)]);
  page.socket.receive(call());
  await settle();
  const reports = page.socket.ofType('progress');
  assert.equal(reports.length, 101);
  assert.equal(reports.at(-1).progress, 10_000);
  assert.equal(page.socket.sent.at(-1).type, 'result');
});

test('progress that keeps to the rate goes out at once', async () => {
  const { page, running } = await pageWithSlowTool();
  page.socket.receive(call());
  for (let step = 1; step <= 300; step += 1) {
    running[0].context.progress(step);
    await page.advance(20);
  }
  assert.equal(page.socket.ofType('progress').length, 300);
});

test('a connection that ends aborts its calls, and their answers go nowhere', async () => {
  const { page, running } = await pageWithSlowTool();
  page.socket.receive(call());
  const first = page.socket;
  first.drop();
  assert.equal(running[0].context.signal.aborted, true);
  await page.advance(200);
  page.welcome();
  running[0].context.progress(5);
  running[0].resolve('too late');
  await settle();
  assert.notEqual(page.socket, first);
  for (const socket of page.sockets) {
    assert.equal(socket.ofType('result').length + socket.ofType('progress').length, 0);
    assert.deepEqual(socket.lost, []);
  }
});

test('a call number may come again on the next connection', async () => {
  const { page, running } = await pageWithSlowTool();
  page.socket.receive(call());
  page.socket.drop();
  await page.advance(200);
  page.socket.receive(call());
  running[0].resolve('old');
  running[1].resolve('new');
  await settle();
  assert.deepEqual(
    page.socket.ofType('result').map(({ value }) => value),
    ['new'],
  );
});

test('a call finds the tools that are registered when it comes', async () => {
  const page = await connectedPage();
  const unregister = page.client.register('app', [tool('run', () => 'old')]);
  page.client.register('app', [tool('run', () => 'new')]);
  page.socket.receive(call());
  unregister();
  page.socket.receive(call({ callId: 'k2' }));
  await settle();
  assert.deepEqual(
    page.socket.ofType('result').map(({ value }) => value),
    ['new', 'new'],
  );
});

test('a tool that unregisters itself while it runs is answered', async () => {
  const page = await connectedPage();
  const unregister = page.client.register('app', [tool('run', () => unregister())]);
  page.socket.receive(call());
  await settle();
  assert.equal(page.socket.ofType('result')[0].ok, true);
});

test('ping is answered at once', async () => {
  const page = await connectedPage();
  page.socket.receive({ v: 1, type: 'ping', n: 7 });
  assert.deepEqual(page.socket.sent.at(-1), { v: 1, type: 'pong', n: 7 });
});

test('what the client does not understand is ignored', async () => {
  const page = await connectedPage();
  const before = page.socket.sent.length;
  for (const frame of [
    '{',
    'null',
    '7',
    '[]',
    '{"type":"registered","ns":"a","hash":"h"}',
    '{"type":"new"}',
    {},
  ]) {
    page.socket.receive(frame);
  }
  await settle();
  assert.equal(page.socket.sent.length, before);
  assert.equal(page.client.status().state, 'open');
});

test('what the bridge rejects is told in the console', async () => {
  const page = await connectedPage();
  page.socket.receive({
    type: 'rejected',
    code: 'schema',
    message: 'expected object',
    path: 'tools[0].inputSchema',
  });
  assert.deepEqual(page.warnings(), [
    'pagetools: the bridge rejected tools[0].inputSchema: expected object (schema)',
  ]);
});
