// One tool for each kind of answer, declared in the place that the page's address names.
const place = new URLSearchParams(location.search).get('place');
const schema = { type: 'object', properties: { x: { type: 'string', description: 'é漢' } } };
const waiting = (_args, context) =>
  new Promise((_resolve, reject) => {
    context?.signal?.addEventListener('abort', () => {
      window.sawAbort = true;
      reject(context.signal.reason);
    });
  });

const RUNS = {
  text: () => 'just text',
  digits: () => '42',
  object: () => ({ a: 1, é: 'café' }),
  array: () => [1, 2],
  number: () => 3,
  content: () => ({ content: [{ type: 'text', text: 'hi' }], structuredContent: { n: 1 } }),
  nothing: () => undefined,
  null: () => null,
  big: () => ({ text: 'é漢'.repeat(50_000) }),
  latin: () => ({ text: 'é'.repeat(1000) }),
  arguments: (args) => args,
  isError: () => ({ isError: true, content: [{ type: 'text', text: 'bad' }] }),
  error: () => {
    throw new RangeError('too far');
  },
  thrownText: () => {
    throw 'plain words';
  },
  rejected: () => Promise.reject(),
  waits: waiting,
};

const tools = Object.entries(RUNS).map(([name, execute]) => ({
  name,
  description: `answers with ${name}`,
  inputSchema: schema,
  annotations: { readOnlyHint: true },
  execute,
}));
const run = async (name, args) => RUNS[name](args);
const textOf = (value) => (value === undefined ? 'null' : JSON.stringify(value));

const PLACES = {
  document: () => Promise.all(tools.map((tool) => document.modelContext.registerTool(tool))),
  navigator: () => tools.forEach((tool) => navigator.modelContext.registerTool(tool)),
  provide: () => navigator.modelContext.provideContext({ tools }),
  three: () =>
    tools.forEach(({ name, execute, ...rest }) => {
      const { inputSchema: parameters, ...descriptor } = rest;
      navigator.modelContext.registerTool(name, { ...descriptor, parameters }, execute);
    }),
  page() {
    const listTools = () => tools.map(({ execute: _execute, ...tool }) => tool);
    const callTool = ({ name, arguments: args }) => run(name, args);
    Object.defineProperty(navigator, 'modelContext', { value: { listTools, callTool }, configurable: true });
  },
  testing() {
    const listTools = () => tools.map((tool) => ({ ...tool, inputSchema: JSON.stringify(tool.inputSchema) }));
    const executeTool = async (name, text) => textOf(await run(name, JSON.parse(text)));
    navigator.modelContextTesting = { listTools, executeTool, registerToolsChangedCallback() {} };
  },
  agent() {
    window.agent = {
      tools: [],
      provideContext: (context) => Object.assign(window.agent, context),
      invokeTool: run,
    };
    window.agent.provideContext({ tools });
  },
  aiui() {
    window.__AIUI__ = {
      v: 1,
      tools: {
        list: () => [{ ns: 'app', tools }],
        call: (_ns, name, args) => run(name, args),
        onChange: () => () => {},
      },
    };
  },
};
PLACES[place]();
