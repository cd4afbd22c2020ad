// One tool for each kind of answer, with whatever runtime the page has.
const inputSchema = { type: 'object', properties: { title: { type: 'string' } } };
const context = document.modelContext ?? navigator.modelContext;

const RUNS = {
  content: () => ({ content: [{ type: 'text', text: 'hi' }], structuredContent: { n: 1 } }),
  text: () => 'just text',
  object: (args) => ({ got: args.title }),
  nothing: () => undefined,
  fails: () => {
    throw new RangeError('kaboom');
  },
  waits: () => new Promise(() => (window.isWaiting = true)),
};

for (const [name, execute] of Object.entries(RUNS)) {
  context.registerTool({ name, description: `answers with ${name}`, inputSchema, execute });
}
