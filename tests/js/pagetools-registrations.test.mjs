import assert from 'node:assert/strict';
import { test } from 'node:test';

import { connectedPage, fakePage, settle, tool } from './fake-page.mjs';

/** What the bridge knows of a namespace: the names in the last register message, or undefined. */
const declared = (socket, ns) =>
  socket
    .ofType('register')
    .findLast((message) => message.ns === ns)
    ?.tools.map(({ name }) => name);

/** A page's registry in the shape of `window.__AIUI__.tools`. */
function aiuiRegistry(entries) {
  const registry = {
    entries,
    handlers: new Set(),
    calls: [],
    list: () => registry.entries,
    call: async (...args) => registry.calls.push(args) && `called ${args[1]}`,
    onChange(handler) {
      registry.handlers.add(handler);
      return () => registry.handlers.delete(handler);
    },
    change(next) {
      registry.entries = next;
      for (const handler of registry.handlers) handler();
    },
  };
  return registry;
}
const aiuiTool = (name) => ({ name, description: `does ${name}`, inputSchema: { type: 'object' }, run() {} });
const call = (ns, name, args) => ({ type: 'call', callId: 'k1', ns, name, args });

test('tools registered before the socket is open are declared after hello', async () => {
  const page = fakePage();
  page.client.register('todo', [tool('add')]);
  page.client.start();
  await settle();
  assert.deepEqual(
    page.socket.sent.map(({ type }) => type),
    ['hello', 'register'],
  );
});

test('a registration carries what is declared, and not the function', async () => {
  const page = await connectedPage();
  const annotations = { readOnlyHint: true };
  const schema = { type: 'object', properties: { title: { type: 'string' } } };
  const add = {
    ...tool('add'),
    title: 'Add',
    inputSchema: schema,
    outputSchema: schema,
    annotations,
    more: 1,
  };
  page.client.register('todo', [add, { ...tool('list'), inputSchema: null }]);
  await settle();
  assert.deepEqual(page.socket.ofType('register'), [
    {
      v: 1,
      type: 'register',
      ns: 'todo',
      url: 'http://127.0.0.1:8000/app',
      tools: [
        {
          name: 'add',
          title: 'Add',
          description: 'does add',
          inputSchema: schema,
          outputSchema: schema,
          annotations,
        },
        { name: 'list', description: 'does list' },
      ],
    },
  ]);
});

test('registering again replaces the whole set', async () => {
  const page = await connectedPage();
  page.client.register('todo', [tool('add'), tool('drop')]);
  await settle();
  page.client.register('todo', [tool('add')]);
  await page.advance(60);
  assert.deepEqual(declared(page.socket, 'todo'), ['add']);
});

test('the same set again is not sent again', async () => {
  const page = await connectedPage();
  for (let time = 0; time < 3; time += 1) {
    page.client.register('todo', [tool('add')]);
    await page.advance(100);
  }
  assert.equal(page.socket.ofType('register').length, 1);
});

test('several namespaces registered in one go need no timer', async () => {
  const page = await connectedPage();
  await page.advance(100);
  page.client.register('a', [tool('x')]);
  page.client.register('b', [tool('y')]);
  await settle();
  assert.deepEqual(
    page.socket.ofType('register').map(({ ns }) => ns),
    ['a', 'b'],
  );
});

test('a page that changes its tools hundreds of times a second does not flood the bridge', async () => {
  const page = await connectedPage();
  for (let turn = 0; turn < 500; turn += 1) {
    page.client.register('app', turn % 2 ? [tool('a')] : [tool('b')]);
    await page.advance(2);
  }
  await page.advance(60);
  assert.ok(page.socket.ofType('register').length <= 21);
  assert.deepEqual(declared(page.socket, 'app'), ['a']);
});

test('unregister withdraws with an empty set', async () => {
  const page = await connectedPage();
  page.client.register('todo', [tool('add')]);
  await page.advance(60);
  page.client.unregister('todo');
  await page.advance(60);
  assert.deepEqual(declared(page.socket, 'todo'), []);
  assert.deepEqual(page.client.status().namespaces, []);
});

test('the function that register returns withdraws only its own set', async () => {
  const page = await connectedPage();
  const { register } = page.client;
  const first = register('todo', [tool('add')]);
  const second = register('todo', [tool('add'), tool('list')]);
  first();
  assert.deepEqual(page.client.status().namespaces, ['todo']);
  second();
  assert.deepEqual(page.client.status().namespaces, []);
});

test('everything is declared anew on each connection', async () => {
  const page = await connectedPage();
  page.client.register('a', [tool('x')]);
  page.client.register('b', [tool('y')]);
  await page.advance(60);
  page.client.unregister('a');
  page.socket.drop();
  page.client.register('c', [tool('z')]);
  await page.advance(200);
  assert.equal(page.sockets.length, 2);
  assert.deepEqual(
    page.socket.sent.map(({ type, ns }) => ns ?? type),
    ['hello', 'b', 'c'],
  );
});

test('misuse of register is a TypeError that names the place', () => {
  const { client } = fakePage();
  const cyclic = { type: 'object' };
  cyclic.self = cyclic;
  const misuses = [
    [['', []], /ns must be a non-empty string/],
    [[undefined, []], /ns must be/],
    [['a', { name: 'x' }], /register\("a", tools\): tools must be an array, not Object/],
    [['a'], /not Undefined/],
    [['a', [null]], /tools\[0\] of "a" needs a name/],
    [['a', [tool('x'), { description: 'd', execute() {} }]], /tools\[1\] of "a" needs a name/],
    [['a', [{ name: 'x', description: 5, execute() {} }]], /\("x"\): description must be a string/],
    [['a', [{ name: 'x', description: 'd' }]], /\("x"\) needs execute/],
    [['a', [tool('x', () => 1, { inputSchema: '{}' })]], /inputSchema must be an object/],
    [['a', [tool('x', () => 1, { annotations: [] })]], /annotations must be an object/],
    [['a', [tool('x', () => 1, { inputSchema: cyclic })]], /\("x"\) has no JSON form: .*circular/],
    [['a', [tool('x'), tool('y'), tool('x')]], /"a" has two tools named "x"/],
  ];
  for (const [args, expected] of misuses) {
    assert.throws(
      () => client.register(...args),
      (error) => error instanceof TypeError && expected.test(error.message),
    );
  }
  assert.deepEqual(client.status().namespaces, []);
});

test("the tools of a page's __AIUI__ registry are declared and called through it", async () => {
  const page = fakePage();
  const registry = aiuiRegistry([{ ns: 'shop', tools: [aiuiTool('buy')], active: true }]);
  page.window.__AIUI__ = { tools: registry };
  page.client.start();
  await settle();
  assert.deepEqual(page.socket.ofType('register')[0].tools, [
    { name: 'buy', description: 'does buy', inputSchema: { type: 'object' } },
  ]);
  page.socket.receive(call('shop', 'buy', { n: 1 }));
  await settle();
  assert.equal(page.socket.ofType('result')[0].value, 'called buy');
  assert.deepEqual(registry.calls, [['shop', 'buy', { n: 1 }]]);
});

test('a registry that comes late is found within half a second', async () => {
  const page = await connectedPage();
  await page.advance(10_000);
  page.window.__AIUI__ = { tools: aiuiRegistry([{ ns: 'shop', tools: [aiuiTool('buy')] }]) };
  await page.advance(600);
  assert.deepEqual(declared(page.socket, 'shop'), ['buy']);
});

test('the search for a registry slows down; adopt() searches at once', async () => {
  const page = await connectedPage();
  await page.advance(25_000);
  assert.equal(page.client.adopt(), false);
  page.window.__AIUI__ = { tools: aiuiRegistry([{ ns: 'shop', tools: [aiuiTool('buy')] }]) };
  await page.advance(600);
  assert.equal(declared(page.socket, 'shop'), undefined);
  assert.equal(page.client.adopt(), true);
  await settle();
  assert.deepEqual(declared(page.socket, 'shop'), ['buy']);
});

test('adopted namespaces follow onChange, those that vanish are withdrawn', async () => {
  const page = fakePage();
  const registry = aiuiRegistry([
    { ns: 'a', tools: [aiuiTool('x')] },
    { ns: 'b', tools: [aiuiTool('y')] },
  ]);
  page.window.__AIUI__ = { tools: registry };
  page.client.start();
  await settle();
  registry.change([{ ns: 'b', tools: [aiuiTool('y'), aiuiTool('z')] }]);
  await page.advance(60);
  assert.deepEqual(declared(page.socket, 'a'), []);
  assert.deepEqual(declared(page.socket, 'b'), ['y', 'z']);
});

test('an own namespace wins over an adopted one, which comes back when it goes', async () => {
  const page = fakePage();
  page.window.__AIUI__ = { tools: aiuiRegistry([{ ns: 'shop', tools: [aiuiTool('buy')] }]) };
  const unregister = page.client.register('shop', [tool('own', () => 'own')]);
  page.client.start();
  await page.advance(60);
  assert.deepEqual(declared(page.socket, 'shop'), ['own']);
  page.socket.receive(call('shop', 'own'));
  unregister();
  await page.advance(60);
  assert.deepEqual(declared(page.socket, 'shop'), ['buy']);
  assert.equal(page.socket.ofType('result')[0].value, 'own');
});

test("a registry that takes another one's place is followed, the old one is left", async () => {
  const page = fakePage();
  const [first, second] = [
    aiuiRegistry([{ ns: 'a', tools: [aiuiTool('x')] }]),
    aiuiRegistry([{ ns: 'b', tools: [aiuiTool('y')] }]),
  ];
  page.window.__AIUI__ = { tools: first };
  page.client.start();
  await page.advance(100);
  page.window.__AIUI__.tools = second;
  page.client.adopt();
  await page.advance(100);
  assert.deepEqual(page.client.status().namespaces, ['b']);
  assert.equal(first.handlers.size, 0);
});

test('a broken tool or namespace of a registry costs only itself, and is named once', async () => {
  const page = fakePage();
  const cyclic = {};
  cyclic.self = cyclic;
  const registry = aiuiRegistry([
    {
      ns: 'good',
      tools: [aiuiTool('x'), null, { run() {} }, { name: 'bare' }, { name: 'c', inputSchema: cyclic }],
    },
    { ns: 7, tools: [] },
    { ns: 'no tools' },
    null,
    { ns: 'also good', tools: [aiuiTool('y')] },
  ]);
  page.window.__AIUI__ = { tools: registry };
  page.client.start();
  await page.advance(100);
  const warned = page.warnings().length;
  registry.change([...registry.entries]);
  await page.advance(100);
  assert.deepEqual(page.client.status().namespaces, ['good', 'also good']);
  assert.deepEqual(declared(page.socket, 'good'), ['x', 'bare']);
  assert.ok(warned > 0);
  assert.equal(page.warnings().length, warned);
});

test('a registry that throws disturbs neither the page nor the client', async () => {
  const boom = () => {
    throw new Error('boom');
  };
  const registries = [
    {
      get tools() {
        return boom();
      },
    },
    { tools: { list: boom, onChange: boom } },
    { tools: { list: () => 7, onChange: () => 'no function' } },
    {
      tools: {
        list: () => [
          {
            get ns() {
              return boom();
            },
          },
        ],
      },
    },
    { tools: { list: 'no function' } },
    { tools: 'no registry' },
    7,
  ];
  for (const registry of registries) {
    const page = fakePage();
    page.window.__AIUI__ = registry;
    page.client.register('own', [tool('x', () => 'fine')]);
    page.client.start();
    await settle();
    page.welcome();
    page.socket.receive(call('own', 'x'));
    await settle();
    assert.equal(page.socket.ofType('result')[0].value, 'fine');
    page.client.dispose();
  }
});

test('a registry whose list fails later keeps what it had', async () => {
  const page = fakePage();
  const registry = aiuiRegistry([{ ns: 'shop', tools: [aiuiTool('buy')] }]);
  page.window.__AIUI__ = { tools: registry };
  page.client.start();
  await page.advance(100);
  registry.list = () => {
    throw new Error('not now');
  };
  registry.change([]);
  await page.advance(100);
  assert.deepEqual(page.client.status().namespaces, ['shop']);
  assert.deepEqual(page.warnings(), ['pagetools: window.__AIUI__.tools.list: not now']);
});

test("a failing call of a registry is the call's failure", async () => {
  const page = fakePage();
  const registry = aiuiRegistry([{ ns: 'shop', tools: [aiuiTool('buy')] }]);
  registry.call = () => {
    throw new Error('sold out');
  };
  page.window.__AIUI__ = { tools: registry };
  page.client.start();
  await settle();
  page.socket.receive(call('shop', 'buy'));
  await settle();
  assert.equal(page.socket.ofType('result')[0].error.message, 'sold out');
});
