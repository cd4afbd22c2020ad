import assert from 'node:assert/strict';
import { test } from 'node:test';

import { ORIGIN, about, nativeContext, outcome, polyfillContext, surfacesOf } from './fake-context.mjs';
import { settle } from './fake-page.mjs';

const schema = { type: 'object', properties: { q: { type: 'string' } } };
const onDocument = (make) => (window) => (window.document.modelContext = make(window));

/** A page whose tools were registered before our script. */
async function latePage(make, tools, options = {}) {
  const prepare = (window) => {
    window.document.modelContext = make(window);
    for (const tool of tools) window.document.modelContext.registerTool(tool);
  };
  const page = await surfacesOf({ prepare, ...options });
  return { ...page, context: page.window.document.modelContext };
}

const KINDS = {
  text: () => 'just text',
  digits: () => '0042',
  id: () => '12345678901234567890',
  object: () => ({ a: [1, 'é'] }),
  array: () => [1, 2],
  number: () => 3,
  content: () => ({ content: [{ type: 'text', text: 'hi' }], structuredContent: { n: 1 } }),
  nothing: () => undefined,
  null: () => null,
  isError: () => ({ isError: true, content: [{ type: 'text', text: 'bad' }] }),
  arguments: (args) => args,
};
const VALUES = {
  text: '"just text"',
  digits: '"0042"',
  id: '"12345678901234567890"',
  object: '{"a":[1,"é"]}',
  array: '[1,2]',
  number: '3',
  content: '{"content":[{"type":"text","text":"hi"}],"structuredContent":{"n":1}}',
  nothing: 'undefined',
  null: 'null',
  isError: '{"isError":true,"content":[{"type":"text","text":"bad"}]}',
  arguments: '{"q":"x"}',
};
const asTools = () => Object.entries(KINDS).map(([name, execute]) => about(name, execute));
const outcomes = async (page) => {
  const found = {};
  for (const name of page.names()) found[name] = await outcome(page.call(name, { q: 'x' }));
  return found;
};

// ---- contexts that list and execute

for (const [runtime, make] of [
  ['the browser', nativeContext],
  ['a polyfill', polyfillContext],
]) {
  test(`tools that ${runtime} had before our script are listed, called, and answer as they did`, async () => {
    const page = await latePage(make, asTools());
    assert.deepEqual(await outcomes(page), VALUES);
    assert.deepEqual(page.seen.warnings, []);
  });
}

test('only tools of the own document whose function the browser has are native', async () => {
  const other = {};
  const make = (window) => {
    const context = nativeContext(window);
    context.others = [{ name: 'framed', description: '', origin: ORIGIN, window: other }];
    return context;
  };
  const { find, window } = await latePage(make, [about('early')]);
  await window.document.modelContext.registerTool(about('late'));
  await settle();
  assert.deepEqual(
    [find('early').native, find('late').native, find('framed').native],
    [true, undefined, undefined],
  );
});

test('an error that the browser hides is said to be hidden, with the way to see it', async () => {
  const { call, context, find } = await latePage(nativeContext, [
    about('fails', () => {
      throw new RangeError('secret');
    }),
  ]);
  await assert.rejects(call('fails'), (error) => {
    assert.match(
      error.message,
      /browser hides the page's error.*before the page's own scripts.*%pagetools attach/,
    );
    assert.equal(error.name, 'UnknownError');
    return true;
  });
  const { execute } = find('fails');
  context.tools.delete('fails');
  const gone = execute({}, { signal: new AbortController().signal });
  assert.equal(
    await outcome(gone),
    'UnknownError: the page withdrew the tool, or the document that has it went away',
  );
});

test('an error that a polyfill tells is told in the words of the tool', async () => {
  const tools = [
    about('error', () => Promise.reject(new Error('too\nfar'))),
    about('text', () => Promise.reject('plain words')),
  ];
  const { call } = await latePage(polyfillContext, tools);
  assert.equal(await outcome(call('error')), 'UnknownError: too\nfar');
  assert.match(await outcome(call('text')), /hides the page's error/);
});

test('arguments go in the form that the runtime takes, and no tool runs twice', async () => {
  const inputs = [];
  const forms = (refusal, takes) => (window) => {
    const context = nativeContext(window);
    context.executeTool = new Proxy(async (_tool, input) => {
      inputs.push(typeof input);
      if (typeof input !== takes) throw refusal;
      return 'ran';
    }, {});
    return context;
  };
  const parse = new DOMException('Failed to parse input arguments', 'UnknownError');
  const older = await latePage(forms(parse, 'string'), [about('run')]);
  assert.equal(await older.call('run'), 'ran');
  assert.deepEqual(inputs.splice(0), ['object', 'string']);
  const newer = await latePage(forms(parse, 'object'), [about('run')]);
  assert.equal(await newer.call('run'), 'ran');
  assert.deepEqual(inputs.splice(0), ['object']);
  const failing = await latePage(forms(new Error('it failed'), 'nothing'), [about('run')]);
  assert.equal(await outcome(failing.call('run')), 'Error: it failed');
  assert.deepEqual(inputs, ['object']);
});

test('the signal reaches the tool, and the call ends even if the tool goes on', async () => {
  let aborted;
  const waits = (_args, { signal }) =>
    new Promise(() => signal.addEventListener('abort', () => (aborted = true)));
  for (const make of [nativeContext, polyfillContext]) {
    aborted = undefined;
    const ending = new AbortController();
    const slow = about('slow', make === nativeContext ? waits : () => new Promise(() => {}));
    const { call } = await latePage(make, [slow]);
    const called = outcome(call('slow', {}, { signal: ending.signal }));
    ending.abort(new DOMException('enough', 'AbortError'));
    assert.equal(await called, 'AbortError: enough');
    assert.equal(aborted, make === nativeContext ? true : undefined);
  }
});

test('changes are followed; many of them in a second cost a few lists', async () => {
  const { page, context, names, seen } = await latePage(nativeContext, [about('add')]);
  context.tools.set('more', about('more'));
  context.changed();
  await page.advance(300);
  assert.deepEqual(names(), ['add', 'more']);
  const [lists, changes] = [context.lists, seen.changes];
  for (let round = 0; round < 100; round++) {
    for (let time = 0; time < 6; time++) context.changed();
    await page.advance(10);
  }
  assert.ok(context.lists - lists <= 5, `${context.lists - lists} lists`);
  assert.equal(seen.changes, changes);
});

test('a browser whose first list never comes is asked again', async () => {
  const { page, context, names } = await latePage(nativeContext, [about('add')], {
    prepare(window) {
      const context = nativeContext(window);
      const list = context.getTools.bind(context);
      context.getTools = () => (context.lists++ === 0 ? new Promise(() => {}) : list());
      context.registerTool(about('add'));
      window.document.modelContext = context;
    },
  });
  assert.deepEqual(names(), []);
  await page.advance(5000);
  context.changed();
  await page.advance(300);
  assert.deepEqual(names(), ['add']);
});

test('the browser is not asked while the document is read, but functions are kept', async () => {
  const prepare = (window) => {
    onDocument(nativeContext)(window);
    window.document.readyState = 'loading';
  };
  const { window, names } = await surfacesOf({ prepare });
  const { document } = window;
  await document.modelContext.registerTool(about('add'));
  document.modelContext.tools.set('form', about('form'));
  document.modelContext.changed();
  await settle();
  assert.deepEqual([names(), document.modelContext.lists], [['add'], 0]);
  document.readyState = 'interactive';
  document.emit('DOMContentLoaded');
  await settle();
  assert.deepEqual(names(), ['add', 'form']);
});

// ---- frames

test("a frame's tools are listed under its origin, unless it declares them; the document's own win", async () => {
  const [same, client, cross] = [{}, {}, {}];
  const make = (window) => {
    const context = nativeContext(window);
    const framed = (name, frame, origin = ORIGIN) => ({ name, description: 'framed', origin, window: frame });
    context.others = [framed('both', same), framed('inner', same), framed('theirs', client)];
    context.others.push(framed('shared', cross, 'https://other.example'));
    window.document.querySelectorAll = () => [
      { src: 'https://other.example/x' },
      { src: `${ORIGIN}/y` },
      { src: '' },
    ];
    return context;
  };
  const { declared, context, page } = await latePage(make, [about('both')], {
    hasClient: (one) => one === client,
  });
  assert.deepEqual(Object.keys(declared()[ORIGIN]), ['both', 'inner']);
  assert.equal(declared()[ORIGIN].both.description, 'does both');
  assert.deepEqual(Object.keys(declared()['https://other.example']), ['shared']);
  assert.deepEqual(context.asked, { fromOrigins: ['https://other.example'] });
  // Nothing tells of a frame that is removed.
  context.others = [];
  await page.advance(1000);
  assert.deepEqual(Object.keys(declared()), [ORIGIN]);
});

test('the namespace is the origin, also where the page has a variable of that name', async () => {
  for (const origin of ['Berlin', '', { lat: 52, lng: 13 }, null]) {
    const prepare = (window) => {
      window.origin = origin;
      window.document.modelContext = nativeContext(window);
    };
    const { window, names } = await surfacesOf({ prepare });
    await window.document.modelContext.registerTool(about('search'));
    assert.deepEqual(names(), ['search']);
  }
});

test('a frame that may have no tools says nothing', async () => {
  const make = (window) => {
    const context = nativeContext(window);
    context.getTools = async () => {
      throw new DOMException('not here', 'NotAllowedError');
    };
    return context;
  };
  const { seen, names } = await latePage(make, []);
  assert.deepEqual([seen.warnings, names()], [[], []]);
});

// ---- objects of pages

const listedIn = {
  array: (tools) => tools,
  promise: async (tools) => tools,
  'MCP answer': async (tools) => ({ tools }),
};
for (const [how, list] of Object.entries(listedIn)) {
  test(`tools that a page's own context lists as ${how} are listed and called through it`, async () => {
    const tools = [{ name: 'pm/one', description: 'd', inputSchema: JSON.stringify(schema) }];
    const context = { listTools: () => list(tools), callTool: async (name, args) => ({ name, args }) };
    const prepare = (window) => (window.navigator.modelContext = context);
    const { declared, call, tools: found } = await surfacesOf({ prepare });
    assert.deepEqual(declared()[ORIGIN]['pm/one'].inputSchema, schema);
    assert.deepEqual(await call('pm/one', { q: 1 }), { name: 'pm/one', args: { q: 1 } });
    assert.equal(found.runtime, 'polyfill');
  });
}

const POSITIONS = [['run', { q: 1 }]];
const ONE_OBJECT = [[{ name: 'run', arguments: { q: 1 } }]];
for (const [source, make, expected] of [
  [
    'callTool(name, args)',
    (calls) => ({
      callTool(name, args) {
        calls.push([name, args]);
      },
    }),
    POSITIONS,
  ],
  [
    'callTool(name, args = {})',
    (calls) => ({
      async callTool(name, args = {}) {
        calls.push([name, args]);
      },
    }),
    POSITIONS,
  ],
  ['(e, t = {}) =>', (calls) => ({ callTool: (e, t = {}) => calls.push([e, t]) }), POSITIONS],
  ['callTool(...all)', (calls) => ({ callTool: (...all) => calls.push(all) }), POSITIONS],
  [
    'callTool({ name, arguments })',
    (calls) => ({ callTool: async ({ name, arguments: args }) => calls.push([{ name, arguments: args }]) }),
    ONE_OBJECT,
  ],
  [
    'callTool(request)',
    (calls) => ({
      async callTool(request) {
        calls.push([request]);
      },
    }),
    ONE_OBJECT,
  ],
  ['request =>', (calls) => ({ callTool: (request) => calls.push([request]) }), ONE_OBJECT],
  [
    'bound',
    (calls) => ({
      callTool: function (request) {
        calls.push([request]);
      }.bind(null),
    }),
    ONE_OBJECT,
  ],
  [
    'executeTool(name, args)',
    (calls) => ({
      executeTool(name, args) {
        calls.push([name, args]);
      },
    }),
    POSITIONS,
  ],
]) {
  test(`a page's method gets its arguments as it takes them: ${source}`, async () => {
    const calls = [];
    const prepare = (window) => {
      window.navigator.modelContext = { ...make(calls), listTools: () => [about('run')] };
    };
    await (await surfacesOf({ prepare })).call('run', { q: 1 });
    assert.deepEqual(calls, expected);
  });
}

const agentTool = { description: 'd', execute: (args) => ({ ran: args }) };
for (const [how, tools] of [
  ['an array', [{ name: 'buy', ...agentTool }]],
  ['a Map', new Map([['buy', agentTool]])],
  ['an object', { buy: agentTool }],
  ['an object of functions', { buy: agentTool.execute }],
]) {
  test(`window.agent may hold its tools in ${how}, and call them itself or not`, async () => {
    const alone = await surfacesOf({ prepare: (window) => (window.agent = { tools }) });
    assert.deepEqual(await alone.call('buy', { q: 1 }), { ran: { q: 1 } });
    const agent = { tools, provideContext() {}, invokeTool: async (name, args) => [name, args] };
    const { names, call } = await surfacesOf({ prepare: (window) => (window.agent = agent) });
    assert.deepEqual([names(), await call('buy', { q: 1 })], [['buy'], ['buy', { q: 1 }]]);
  });
}

test('any other window.agent is left alone', async () => {
  for (const agent of [
    'text',
    7,
    {},
    { tools: null },
    { tools: 'none' },
    { tools: [null, 7, { name: 3 }] },
  ]) {
    const { declared, seen } = await surfacesOf({ prepare: (window) => (window.agent = agent) });
    assert.deepEqual([declared(), seen.warnings], [{}, []]);
  }
});

test('modelContextTesting takes and gives text', async () => {
  const answers = {
    text: '"words"',
    object: '{"a":1}',
    left: null,
    wrapped: '{"content":[{"type":"text","text":"7"}],"isError":false}',
  };
  const testing = {
    listTools: () =>
      Object.keys(answers).map((name) => ({ name, description: 'd', inputSchema: JSON.stringify(schema) })),
    executeTool: async (name, text) => (text === '{"q":1}' ? answers[name] : 'no text'),
    registerToolsChangedCallback: () => assert.fail('it has room for one, and that is the page’s'),
  };
  const { names, call, declared } = await surfacesOf({
    prepare: (window) => (window.navigator.modelContextTesting = testing),
  });
  assert.deepEqual(names(), ['left', 'object', 'text', 'wrapped']);
  assert.deepEqual(declared()[ORIGIN].text.inputSchema, schema);
  const found = await Promise.all(names().map((name) => call(name, { q: 1 })));
  assert.deepEqual(found, [null, { a: 1 }, 'words', 7]);
});

test('what a server of MCP-B has wrapped is unwrapped, and what a tool gave in that shape is not', async () => {
  const content = [{ type: 'text', text: '[1,2]' }];
  const results = {
    plain: { content, isError: false },
    structured: { content, structuredContent: 'x', isError: false },
    own: { content },
    failed: { content, isError: true },
    more: { content, isError: false, _meta: {} },
  };
  const server = {
    __isBrowserMcpServer: true,
    listTools: () => Object.keys(results).map((name) => ({ name })),
    callTool: async ({ name }) => results[name],
  };
  const prepare = (window) => (window.navigator.modelContext = server);
  const { call } = await surfacesOf({ prepare });
  assert.deepEqual(await call('plain'), [1, 2]);
  assert.deepEqual(await call('structured'), 'x');
  for (const name of ['own', 'failed', 'more']) assert.deepEqual(await call(name), results[name]);
});

test('a tool on several surfaces is listed once, on the best of them', async () => {
  const said = (text) => [{ name: 'same', description: text }];
  const prepare = (window) => {
    onDocument(nativeContext)(window);
    window.document.modelContext.tools.set('native', { name: 'native', description: 'native' });
    window.navigator.modelContext = {
      listTools: () => [...said('page'), { name: 'native', description: 'page' }],
    };
    window.navigator.modelContextTesting = {
      listTools: () => [...said('testing'), { name: 'only', description: 'testing' }],
    };
    window.agent = { tools: said('agent') };
  };
  const { window, declared } = await surfacesOf({ prepare });
  const from = () =>
    Object.values(declared()[ORIGIN]).map(({ name, description }) => `${name}: ${description}`);
  assert.deepEqual(from(), ['native: native', 'only: testing', 'same: page']);
  await window.document.modelContext.registerTool({ ...about('same'), description: 'kept' });
  assert.deepEqual(from(), ['native: native', 'only: testing', 'same: kept']);
});

// ---- in time

test('a surface that appears late is found: soon after the page, later while somebody looks', async () => {
  const { window, page, names } = await surfacesOf();
  await page.advance(10_000);
  window.agent = { tools: [about('late')] };
  await page.advance(500);
  assert.deepEqual(names(), ['late']);
  await page.advance(50_000);
  window.agent = { tools: [about('later')] };
  window.document.visibilityState = 'hidden';
  await page.advance(20_000);
  assert.deepEqual(names(), ['late']);
  window.document.visibilityState = 'visible';
  await page.advance(5000);
  assert.deepEqual(names(), ['later']);
  delete window.agent;
  await page.advance(5000);
  assert.deepEqual(names(), []);
});

test('changes of an object that tells nothing are seen within about a second', async () => {
  const agent = { tools: [about('one', () => 'old')] };
  const { page, names, call, seen } = await surfacesOf({ prepare: (window) => (window.agent = agent) });
  agent.tools = [about('one', () => 'new'), about('two')];
  await page.advance(1300);
  assert.deepEqual([names(), await call('one')], [['one', 'two'], 'new']);
  const { changes } = seen;
  agent.tools = [about('one', () => 'newest'), about('two')];
  await page.advance(1300);
  assert.deepEqual([seen.changes, await call('one')], [changes, 'newest']);
});

test('a change is told once until the tools are read', async () => {
  const { window, seen, names } = await surfacesOf();
  const { modelContext } = window.document;
  await modelContext.registerTool(about('one'));
  await modelContext.registerTool(about('two'));
  assert.equal(seen.changes, 1);
  names();
  await modelContext.registerTool(about('three'));
  assert.equal(seen.changes, 2);
});

test('when all ends, no timer and no listener stays', async () => {
  const prepare = (window) => {
    onDocument(nativeContext)(window);
    window.agent = { tools: [about('one')] };
  };
  const { window, page, life, seen } = await surfacesOf({ prepare });
  await page.advance(3000);
  life.abort();
  await page.advance(10_000);
  const { changes } = seen;
  window.document.modelContext.changed();
  await page.advance(1000);
  assert.deepEqual([page.clock.timers.size, seen.changes], [0, changes]);
  assert.deepEqual([window.listeners.size, window.document.listeners.size], [0, 0]);
});

// ---- what is wrong with them

test('a surface that throws costs a warning and itself, not the others', async () => {
  const failing = (text) => () => {
    throw new Error(text);
  };
  const prepare = (window) => {
    Object.defineProperty(window.document, 'modelContext', { get: failing('no document') });
    Object.defineProperty(window.navigator, 'modelContext', { get: failing('no navigator') });
    window.navigator.modelContextTesting = { listTools: failing('no list') };
    window.agent = {
      tools: [
        about('works'),
        {
          get name() {
            throw new Error('no name');
          },
        },
      ],
    };
  };
  const { names, seen, tools } = await surfacesOf({ prepare });
  assert.deepEqual(names(), ['works']);
  assert.deepEqual([...new Set(seen.warnings)].toSorted(), [
    'document.modelContext: no document',
    'navigator.modelContext: no navigator',
    'navigator.modelContextTesting: no list',
    'window.agent: no name',
  ]);
  assert.equal(tools.runtime, 'none');
});

test('a list that fails later keeps what was listed', async () => {
  const { page, context, names, seen } = await latePage(nativeContext, [about('add')]);
  context.getTools = async () => {
    throw new Error('not now');
  };
  context.changed();
  await page.advance(300);
  assert.deepEqual([names(), seen.warnings], [['add'], ['document.modelContext: not now']]);
});

const cyclic = {};
cyclic.self = cyclic;
for (const [what, given, expected] of [
  ['an object', schema, schema],
  ['JSON text', JSON.stringify(schema), schema],
  ['keywords nobody knows', { type: 'object', 'x-ui': { a: 1 } }, { type: 'object', 'x-ui': { a: 1 } }],
  [
    'a regular expression as format',
    { properties: { t: { format: '^[0-9]+$' } } },
    { properties: { t: { format: '^[0-9]+$' } } },
  ],
  [
    'types in a list',
    { properties: { t: { type: ['string', 'null'] } } },
    { properties: { t: { type: ['string', 'null'] } } },
  ],
  ['nothing', undefined, undefined],
  ['an empty object', {}, {}],
  ['text that is no JSON', 'a string', undefined],
  ['a list', [schema], undefined],
  ['a cycle', cyclic, undefined],
  ['a BigInt', { minimum: 1n }, undefined],
  ['a function', { type: 'object', parse() {} }, undefined],
  ["a validator library's object", { '~standard': {}, type: 'object' }, undefined],
  ["a validator library's shape", { title: { _def: { typeName: 'ZodString' } } }, undefined],
  ['a validator deeper down', { type: 'object', properties: { a: { _zod: {} } } }, undefined],
  ['keywords that hold objects', { type: { name: 'object' } }, undefined],
  ['a description that holds an object', { description: { type: 'string' } }, undefined],
  ['a validator that gives JSON Schema', { '~standard': { jsonSchema: { input: () => schema } } }, schema],
]) {
  test(`a schema is declared where it is one, and a tool is not lost with it: ${what}`, async () => {
    const { declared } = await surfacesOf({
      prepare: (window) => (window.agent = { tools: [about('one', () => 1, { inputSchema: given })] }),
    });
    const { one } = declared()[ORIGIN];
    assert.equal(one.description, 'does one');
    assert.deepEqual(one.inputSchema, expected);
  });
}
