import assert from 'node:assert/strict';
import { test } from 'node:test';

import { ORIGIN, about, nativeContext, outcome, surfacesOf } from './fake-context.mjs';
import { settle } from './fake-page.mjs';

/** A page whose browser has WebMCP, and our script before its own. */
async function nativePage(options = {}) {
  const prepare = (window) => (window.document.modelContext = nativeContext(window));
  const page = await surfacesOf({ prepare, ...options });
  return { ...page, context: page.window.document.modelContext };
}

const schema = { type: 'object', properties: { title: { type: 'string' } } };

// ---- the browser's own

test("a tool that is registered on the browser's context is declared as the page described it", async () => {
  const { context, declared } = await nativePage();
  const annotations = { readOnlyHint: true };
  await context.registerTool(about('add', () => 1, { title: 'Add', inputSchema: schema, annotations }));
  assert.deepEqual(declared(), {
    [ORIGIN]: {
      add: { name: 'add', title: 'Add', description: 'does add', inputSchema: schema, annotations },
    },
  });
});

test('its function is kept: values, errors, progress and the signal are its own', async () => {
  const { context, call, find } = await nativePage();
  const bigint = 10n;
  const thrown = { odd: true };
  await context.registerTool(about('big', () => bigint));
  await context.registerTool(about('fails', () => Promise.reject(thrown)));
  await context.registerTool(
    about('context', function (args, { signal, progress }) {
      progress(1, 2, 'half');
      return { self: this, args, signal };
    }),
  );
  assert.equal(await call('big'), bigint);
  await assert.rejects(call('fails'), (error) => error === thrown);
  const { signal } = new AbortController();
  const reports = [];
  const given = { signal, progress: (...report) => reports.push(report) };
  assert.deepEqual(await call('context', { a: 1 }, given), { self: undefined, args: { a: 1 }, signal });
  assert.deepEqual(reports, [[1, 2, 'half']]);
  assert.equal(find('big').native, undefined);
});

test('the page is told of calls and of cancelled ones, as by the browser', async () => {
  class ToolEvent extends Event {
    constructor(type, { toolName }) {
      super(type);
      this.toolName = toolName;
    }
  }
  const { context, call, window } = await nativePage();
  Object.assign(window, { ToolActivatedEvent: ToolEvent, ToolCancelEvent: ToolEvent });
  const told = [];
  for (const type of ['toolactivated', 'toolcancel'])
    context.addEventListener(type, ({ toolName }) => told.push([type, toolName]));
  await context.registerTool(about('add', () => told.length));
  const life = new AbortController();
  assert.equal(await call('add', {}, { signal: life.signal }), 1);
  life.abort();
  assert.deepEqual(told, [
    ['toolactivated', 'add'],
    ['toolcancel', 'add'],
  ]);
});

test('what the browser refuses is not declared, and the page gets the same error', async () => {
  const { context, names, call } = await nativePage();
  await context.registerTool(about('add', () => 'first'));
  await assert.rejects(context.registerTool(about('add', () => 'second')), /Duplicate tool name/);
  await assert.rejects(context.registerTool(about('a/b')), /Invalid tool name/);
  assert.deepEqual(names(), ['add']);
  assert.equal(await call('add'), 'first');
});

test('a failed registration that the page does not wait for stays an unhandled rejection', async () => {
  const { context } = await nativePage();
  const unhandled = [];
  const usual = process.listeners('unhandledRejection');
  process.removeAllListeners('unhandledRejection');
  process.on('unhandledRejection', (error) => unhandled.push(error.message));
  try {
    context.registerTool(about('a/b'));
    await settle();
    await settle();
  } finally {
    process.removeAllListeners('unhandledRejection');
    for (const listener of usual) process.on('unhandledRejection', listener);
  }
  assert.deepEqual(unhandled, ['Invalid tool name']);
});

test("a tool goes with its signal, unless another took its place; the page's object may change", async () => {
  const { context, names, declared, seen } = await nativePage();
  const [first, second] = [new AbortController(), new AbortController()];
  const description = about('add');
  await context.registerTool(description, { signal: first.signal });
  description.name = 'other';
  assert.deepEqual(names(), ['add']);
  const before = seen.changes;
  first.abort();
  assert.equal(seen.changes, before + 1);
  assert.deepEqual(names(), []);
  await context.registerTool(
    about('add', () => 1, { title: 'Again' }),
    { signal: second.signal },
  );
  first.abort();
  assert.equal(declared()[ORIGIN].add.title, 'Again');
});

test('a tool whose signal ends before the browser has accepted it is not declared', async () => {
  const { context, names } = await nativePage();
  const ending = new AbortController();
  const registered = context.registerTool(about('add'), { signal: ending.signal });
  ending.abort();
  await registered;
  assert.deepEqual(names(), []);
});

test('a tool that is withdrawn and registered again at once is never seen to be gone', async () => {
  const { context, names } = await nativePage();
  const first = new AbortController();
  await context.registerTool(about('count'), { signal: first.signal });
  first.abort();
  const again = context.registerTool(about('count'));
  assert.deepEqual(names(), ['count']);
  await again;
  assert.deepEqual(names(), ['count']);
});

test('a tool that the browser refuses to register again is gone', async () => {
  const { context, names } = await nativePage();
  const first = new AbortController();
  await context.registerTool(about('count'), { signal: first.signal });
  first.abort();
  context.tools.set('count', about('count'));
  await assert.rejects(context.registerTool(about('count', null, { title: 'Second' })));
  context.tools.delete('count');
  assert.deepEqual(names(), []);
});

test('registerTool looks and works as before, and is the same again when all ends', async () => {
  const context = nativeContext();
  const holder = Object.getPrototypeOf(context);
  const before = Object.getOwnPropertyDescriptor(holder, 'registerTool');
  const { life, window } = await surfacesOf({ prepare: (page) => (page.document.modelContext = context) });
  const { registerTool } = context;
  assert.notEqual(registerTool, before.value);
  assert.deepEqual([registerTool.name, registerTool.length], ['registerTool', 2]);
  assert.match(String(registerTool), /\[native code\]/);
  assert.equal(Object.getOwnPropertyDescriptor(holder, 'registerTool').enumerable, before.enumerable);
  const other = nativeContext();
  await registerTool.call(other, about('elsewhere'));
  assert.deepEqual([...other.tools.keys()], ['elsewhere']);
  life.abort();
  assert.equal(holder.registerTool, before.value);
  assert.equal('modelContext' in window.navigator, false);
});

test('a loop of registrations costs one notice until the tools are read, and they are read when asked', async () => {
  const { context, seen, names } = await nativePage();
  names();
  seen.changes = 0;
  let looks = 0;
  for (let round = 0; round < 550; round++) {
    const ending = new AbortController();
    const tool = about('loop');
    Object.defineProperty(tool, 'inputSchema', {
      get: () => ({
        get type() {
          return ++looks && 'object';
        },
      }),
    });
    await context.registerTool(tool, { signal: ending.signal });
    ending.abort();
  }
  assert.deepEqual([seen.changes, looks], [1, 0]);
  assert.ok(context.lists < 5, `${context.lists} lists`);
});

// ---- the alias

test("navigator.modelContext stands for the browser's context in the words of every generation", async () => {
  const { window, context, names, call } = await nativePage();
  const alias = window.navigator.modelContext;
  const asked = (args, agent) => agent.requestUserInteraction(async () => ['asked', args]);
  alias.registerTool('three', { description: 'd', parameters: schema }, asked);
  alias.registerTool({ name: 'handler', description: 'd', handler: () => 'handled' });
  alias.registerTool({
    name: 'self',
    execute() {
      return this.name;
    },
  });
  const { registerTool } = alias;
  await registerTool(about('loose', () => 'loose'));
  assert.deepEqual(names(), ['handler', 'loose', 'self', 'three']);
  assert.deepEqual([...context.tools.keys()].toSorted(), names());
  assert.deepEqual(await call('three', { title: 'x' }), ['asked', { title: 'x' }]);
  assert.deepEqual([await call('handler'), await call('self')], ['handled', 'self']);
  // Whoever asks the browser gets the same.
  const three = (await context.getTools()).find(({ name }) => name === 'three');
  assert.deepEqual(three.inputSchema, schema);
  assert.equal(await context.executeTool(three, {}), '["asked",{}]');
});

test('a tool of the alias goes by its handle, by its name, by its signal and with its context', async () => {
  const { window, context, names } = await nativePage();
  const alias = window.navigator.modelContext;
  const ending = new AbortController();
  const handle = alias.registerTool(about('by-handle'));
  alias.registerTool(about('by-name'));
  alias.registerTool(about('by-tool'));
  alias.registerTool(about('by-signal'), { signal: ending.signal });
  alias.provideContext({ tools: [about('old'), about('kept')] });
  alias.provideContext({ tools: [about('kept', () => 'new'), about('new')] });
  await settle();
  assert.deepEqual(names(), ['by-handle', 'by-name', 'by-signal', 'by-tool', 'kept', 'new']);
  handle.unregister();
  alias.unregisterTool('by-name');
  alias.unregisterTool({ name: 'by-tool' });
  ending.abort();
  assert.deepEqual(names(), ['kept', 'new']);
  alias.clearContext();
  await settle();
  assert.deepEqual([names(), [...context.tools.keys()]], [[], []]);
});

test('what only the browser refuses about a tool of the alias does not cost the tool', async () => {
  const { window, names, call, declared } = await nativePage();
  const validator = { title: { _def: {}, parse() {} }, '~standard': {} };
  window.navigator.modelContext.registerTool(about('cart/add', () => 1));
  window.navigator.modelContext.registerTool(about('raw', () => 2, { inputSchema: validator }));
  await settle();
  assert.deepEqual(names(), ['cart/add', 'raw']);
  assert.equal(declared()[ORIGIN].raw.inputSchema, undefined);
  assert.deepEqual([await call('cart/add'), await call('raw')], [1, 2]);
});

test('a name that is taken is refused, said in the console, and no unhandled rejection', async () => {
  const { window, page, call, names } = await nativePage();
  const alias = window.navigator.modelContext;
  await window.document.modelContext.registerTool(about('theirs', () => 'theirs'));
  await alias.registerTool(about('mine', () => 'first'));
  alias.registerTool(about('mine', () => 'second'));
  alias.registerTool({ name: 'nothing to run' });
  await assert.rejects(alias.registerTool(about('theirs')), { name: 'InvalidStateError' });
  await settle();
  assert.deepEqual([names(), await call('mine')], [['mine', 'theirs'], 'first']);
  assert.deepEqual(page.warnings(), [
    'modelContext.registerTool: Duplicate tool name',
    'modelContext.registerTool: registerTool("nothing to run"): a tool needs execute, a function',
    'modelContext.registerTool: Duplicate tool name',
  ]);
});

test('what a page withdraws before the browser has taken it is nothing to warn of', async () => {
  const untilWithdrawn = (_tool, { signal }) =>
    new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
  const prepare = (window) => {
    const context = nativeContext(window);
    Object.getPrototypeOf(context).registerTool = new Proxy(untilWithdrawn, {});
    window.document.modelContext = context;
  };
  const { page, window, names } = await nativePage({ prepare });
  const { modelContext } = window.navigator;
  modelContext.registerTool(about('once')).unregister();
  modelContext.provideContext({ tools: [about('first')] });
  modelContext.provideContext();
  await settle();
  assert.deepEqual([names(), page.warnings()], [[], []]);
});

test('a page that asks the alias for its tools gets them in the shape of its generation', async () => {
  const { window } = await nativePage();
  const alias = window.navigator.modelContext;
  await alias.registerTool(about('add', ({ n }) => ({ sum: n + 1 }), { inputSchema: schema }));
  assert.deepEqual(alias.listTools(), [{ name: 'add', description: 'does add', inputSchema: schema }]);
  const content = [{ type: 'text', text: '{"sum":3}' }];
  const expected = { content, structuredContent: { sum: 3 } };
  assert.deepEqual(await alias.callTool({ name: 'add', arguments: { n: 2 } }), expected);
  assert.deepEqual(await alias.callTool('add', { n: 2 }), expected);
  const [tool] = await alias.getTools();
  assert.equal(await alias.executeTool(tool, { n: 2 }), '{"sum":3}');
});

// ---- a context of our own

test('where the browser has no context, both places get one that works alone', async () => {
  const { window, names, call, tools } = await surfacesOf();
  const { modelContext } = window.document;
  assert.equal(window.navigator.modelContext, modelContext);
  let events = 0;
  modelContext.addEventListener('toolchange', () => (events += 1));
  modelContext.ontoolchange = () => (events += 1);
  const ending = new AbortController();
  await modelContext.registerTool(
    about('add', ({ n }) => n + 1),
    { signal: ending.signal },
  );
  await assert.rejects(modelContext.registerTool(about('add')), { name: 'InvalidStateError' });
  await settle();
  assert.equal(events, 2);
  assert.deepEqual([names(), await call('add', { n: 1 }), tools.runtime], [['add'], 2, 'own']);
  const [tool] = await modelContext.getTools();
  assert.equal(await modelContext.executeTool(tool, '{"n":1}'), '2');
  assert.equal(
    await outcome(modelContext.executeTool({ name: 'gone' }, {})),
    'UnknownError: Tool not found: gone',
  );
  ending.abort();
  assert.deepEqual(names(), []);
});

test('what the page assigns or defines takes the place of ours', async () => {
  const { window, page, names, tools } = await surfacesOf();
  const theirs = { listTools: () => [about('theirs')], callTool: (name, _args) => name };
  window.navigator.modelContext = theirs;
  Object.defineProperty(window.document, 'modelContext', { value: theirs, configurable: true });
  assert.equal(window.navigator.modelContext, theirs);
  assert.equal(window.document.modelContext, theirs);
  await page.advance(600);
  assert.deepEqual([names(), tools.runtime], [['theirs'], 'polyfill']);
});

test('a context that the page has already is left as it is', async () => {
  const theirs = { listTools: () => [], callTool() {} };
  const prepare = (window) => (window.navigator.modelContext = theirs);
  const { window, life } = await surfacesOf({ prepare });
  assert.equal(window.navigator.modelContext, theirs);
  assert.equal('modelContext' in window.document, false);
  life.abort();
  assert.equal(window.navigator.modelContext, theirs);
});
