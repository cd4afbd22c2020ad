/**
 * What anywidget hands to the widget, and a kernel behind it that says what a test tells it to.
 *
 * `FakeModel` alone answers nothing; `answering` makes it answer as the kernel does. Both run in node and in a
 * browser. What it cannot show: that the real kernel keeps to the same contract.
 */
export class FakeModel {
  listeners = new Set();
  sent = [];
  alive = true;

  constructor(state) {
    this.state = state;
    this.seq = state.seq;
  }

  /** As in anywidget: every hook gets an object of its own. */
  proxy() {
    return {
      get: (name) => (name === 'state' ? structuredClone(this.state) : undefined),
      on: (name, callback) => this.listeners.add({ name, callback }),
      off: (name, callback) => {
        for (const entry of this.listeners) {
          if (entry.name === name && entry.callback === callback) this.listeners.delete(entry);
        }
      },
      send: (message) => {
        if (!this.alive) throw new Error('Cannot send');
        this.sent.push(structuredClone(message));
        this.onsend?.(message);
      },
    };
  }

  emit(name, ...args) {
    for (const entry of [...this.listeners]) if (entry.name === name) entry.callback(...args);
  }

  hear(message) {
    this.emit('msg:custom', structuredClone(message), []);
  }

  delta(fields) {
    this.hear({ kind: 'delta', seq: ++this.seq, ...fields });
  }

  reply(request, fields) {
    this.hear({ kind: 'reply', re: request.re, ...fields });
  }

  sentOf(kind) {
    return this.sent.filter((message) => message.kind === kind);
  }

  restartKernel() {
    this.alive = false;
    this.emit('comm_live_update');
  }
}

export const bridge = {
  state: 'running',
  port: 9319,
  url: 'http://127.0.0.1:9319',
  host: 'kernel',
  strict: false,
};

export const tab = (id, fields = {}) => ({
  id,
  title: `Page ${id}`,
  url: `http://localhost:5173/${id}`,
  host: 'localhost:5173',
  letter: 'P',
  number: 0,
  visible: false,
  focused: false,
  active: false,
  state: 'connected',
  lookedAt: 0,
  frames: 1,
  apps: [{ ns: 'todo', tools: ['add_todo'] }],
  ...fields,
});

export const call = (id, fields = {}) => ({
  id,
  tool: 'todo/add_todo',
  tab: 'Todo list',
  state: 'answered',
  startedAt: 1000,
  ms: 12,
  progress: null,
  note: '',
  ...fields,
});

export const stateOf = (fields = {}) => ({
  seq: 0,
  bridge,
  tabs: [],
  answers: {},
  pinned: null,
  calls: [],
  ...fields,
});

/** Let `model` answer requests from `toolsOf(tab)` and `run(message)`; `hold` keeps what is asked unanswered. */
export function answering(
  model,
  { toolsOf = () => [], run = () => ({ ok: true, value: 'None', images: [], ms: 3 }) } = {},
) {
  const args = (given) =>
    Object.entries(given)
      .map(([name, value]) => `, ${name}=${JSON.stringify(value)}`)
      .join('')
      .slice(2);
  const cellOf = ({ name, args: given }) => `await tools.${name}(${args(given)})`;
  const answers = {
    tools: ({ tab: id }) => ({ tools: toolsOf(id) }),
    snapshot: () => ({ state: { ...model.state, seq: model.seq } }),
    cell: (message) => ({ cell: cellOf(message) }),
    snippet: () => ({
      snippets: [
        {
          title: 'In the page',
          text: '<script type="module" src="http://127.0.0.1:9319/pagetools.js"></script>',
        },
        { title: 'As a bookmark', text: "javascript:void import('http://127.0.0.1:9319/pagetools.js')" },
        {
          title: "In the browser's console",
          text: "const pagetools = await import('http://127.0.0.1:9319/pagetools.js');",
        },
      ],
    }),
    call: (message) => {
      const reply = run(message);
      return reply && { cell: cellOf(message), ...reply };
    },
  };
  model.hold = new Set();
  model.onsend = (message) => {
    if (!message.re || model.hold.has(message.kind)) return;
    queueMicrotask(() => {
      const reply = answers[message.kind](message);
      if (reply) model.reply(message, reply);
    });
  };
  return model;
}
