// @ts-check
/**
 * The widget's front end: draws what the kernel says is connected and sends what the person asks for.
 *
 * It owns no truth. The kernel's state comes whole once and in numbered deltas after that; a gap is answered
 * by asking for the whole again. One store per model keeps it, any number of views draw it.
 *
 * Nearly all text here was written by a page. It reaches the document as text or as a property, never as
 * markup, and never as an address, but for images that are data of a known kind.
 */

/** @typedef {{ns: string, tools: string[]}} App */
/**
 * @typedef {{id: string, title: string, url: string, host: string, letter: string, number: number | null,
 *   visible: boolean, focused: boolean, active: boolean, state: string, blocked?: string, lookedAt: number,
 *   frames: number, apps: App[]}} Tab
 */
/**
 * @typedef {{id: string, tool: string, tab: string, state: string, startedAt: number, ms: number | null,
 *   progress: {done: number, total: number | null, message: string | null} | null, note: string}} Call
 */
/** @typedef {{state: string, port: number, url: string, host: string, strict: boolean}} Bridge */
/**
 * @typedef {{seq: number, bridge: Bridge, tabs: Tab[], answers: Record<string, string>, pinned: string | null,
 *   calls: Call[]}} State
 */
/**
 * @typedef {{ns: string, name: string, title: string | null, description: string, readOnly: boolean,
 *   destructive: boolean, schema: object | null,
 *   params: {name: string, type: string, required: boolean, description: string}[]}} Tool
 */
/**
 * @typedef {{name: string, kind: 'text' | 'long' | 'date' | 'number' | 'integer' | 'choice' | 'fixed' | 'json',
 *   type: string, required: boolean, nullable: boolean, help: string, initial: string, choices: unknown[],
 *   rest: boolean}} Field `rest`: an object whose entries are arguments themselves
 */
/** @typedef {any} Model anywidget's; a new proxy for each initialize and render */
/** @typedef {{node: HTMLElement, update: (...changed: any[]) => void}} Part */

const FINISHED_KEPT = 20;
const FINISHED_SHOWN = 5;
const SEARCH_FROM = 13;
const LONG_LIST = 8;
const SLOW_MS = 500;
const TICK_MS = 200;
const LAZY_TICK_MS = 30_000;
const COPIED_MS = 1600;
/** Screen readers hear of other people's calls only if somebody can have been waiting for them. */
const WORTH_SAYING_MS = 2000;
/** A page's schema may refer to itself many times over; past this it is shown as JSON. */
const MAX_RESOLVED = 2000;
const RESTARTED = 'The kernel was restarted.';

// ---- State -----------------------------------------------------------------------------------------------

/** @type {State} */
export const NOTHING = {
  seq: 0,
  bridge: { state: 'stopped', port: 0, url: '', host: 'kernel', strict: false },
  tabs: [],
  answers: {},
  pinned: null,
  calls: [],
};

/** @type {Tab} */
const BLANK_TAB = {
  id: '',
  title: '',
  url: '',
  host: '',
  letter: '?',
  number: null,
  visible: false,
  focused: false,
  active: false,
  state: 'connected',
  lookedAt: 0,
  frames: 1,
  apps: [],
};

/**
 * What is known after `delta`; what it does not touch stays the same object, so that a view can tell.
 * @param {State} state @param {any} delta @returns {State}
 */
export function applyDelta(state, delta) {
  return {
    seq: delta.seq,
    bridge: delta.bridge ?? state.bridge,
    tabs: mergeTabs(state.tabs, delta),
    answers: delta.answers ? mergeAnswers(state.answers, delta.answers) : state.answers,
    pinned: delta.pinned === undefined ? state.pinned : delta.pinned,
    calls: delta.calls ? mergeCalls(state.calls, delta.calls) : state.calls,
  };
}

/** @param {Tab[]} tabs @param {any} delta */
function mergeTabs(tabs, { tabs: changed = {}, removed = [], order }) {
  if (!Object.keys(changed).length && !removed.length && !order) return tabs;
  const byId = new Map(tabs.map((tab) => [tab.id, tab]));
  for (const [id, fields] of Object.entries(changed)) {
    byId.set(id, { ...(byId.get(id) ?? BLANK_TAB), ...fields, id });
  }
  for (const id of removed) byId.delete(id);
  const ids = new Set([...(order ?? []), ...byId.keys()]);
  return [...ids].flatMap((id) => byId.get(id) ?? []);
}

function mergeAnswers(answers, changed) {
  const entries = Object.entries({ ...answers, ...changed });
  return Object.fromEntries(entries.filter(([, tab]) => tab !== null));
}

/** @param {Call[]} calls @param {Call[]} changed */
function mergeCalls(calls, changed) {
  const byId = new Map([...calls, ...changed].map((call) => [call.id, call]));
  const newest = [...byId.values()].sort((a, b) => b.startedAt - a.startedAt);
  let finished = 0;
  return newest.filter((call) => call.state === 'pending' || ++finished <= FINISHED_KEPT);
}

/** Tabs that can be called, not those that are merely remembered. @param {State} state */
export const liveTabs = (state) => state.tabs.filter((tab) => tab.number !== null);

/** @param {Tab[]} tabs */
export const toolCount = (tabs) =>
  tabs.reduce((sum, tab) => sum + tab.apps.reduce((n, app) => n + app.tools.length, 0), 0);

/**
 * The apps that several tabs have open, each with the tab that would answer now.
 * @param {State} state @returns {Map<string, Tab | null>}
 */
export function sharedApps(state) {
  const holders = new Map();
  for (const tab of liveTabs(state)) {
    for (const { ns } of tab.apps) holders.set(ns, [...(holders.get(ns) ?? []), tab]);
  }
  const shared = [...holders].filter(([, tabs]) => tabs.length > 1);
  return new Map(shared.map(([ns, tabs]) => [ns, tabs.find((tab) => tab.id === state.answers[ns]) ?? null]));
}

// ---- Words -----------------------------------------------------------------------------------------------

/** @param {number} n @param {string} word */
export const counted = (n, word) => `${n} ${word}${n === 1 ? '' : 's'}`;

/** @param {number} ms */
export function duration(ms) {
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`;
  if (ms < 59_950) return `${(ms / 1000).toFixed(1)} s`;
  const seconds = Math.round(ms / 1000);
  return `${Math.floor(seconds / 60)} min ${String(seconds % 60).padStart(2, '0')} s`;
}

/** @param {number} then @param {number} now */
export function ago(then, now) {
  const minutes = Math.round((now - then) / 60_000);
  if (minutes < 1) return 'just now';
  if (minutes < 60) return `${minutes} min ago`;
  if (minutes < 24 * 60) return `${Math.round(minutes / 60)} h ago`;
  return `${counted(Math.round(minutes / (24 * 60)), 'day')} ago`;
}

/** @param {Tab} tab @param {number} now @returns {{mark: string, words: string}} */
export function focusOf(tab, now) {
  if (tab.focused) return { mark: 'focused', words: 'focused' };
  if (tab.active) return { mark: 'focused', words: 'active' };
  if (tab.visible) return { mark: 'visible', words: 'visible' };
  return { mark: 'hidden', words: tab.lookedAt ? `hidden · looked at ${ago(tab.lookedAt, now)}` : 'hidden' };
}

/** @param {Tab} tab */
export const nameOf = (tab) => (tab.number === null ? tab.title || tab.host : `tabs[${tab.number}]`);

/** Colours differ between hosts and stay the same for one. @param {string} host */
export function hueOf(host) {
  let hash = 0;
  for (const char of host) hash = (hash * 31 + (char.codePointAt(0) ?? 0)) % 1_000_003;
  return (hash * 137) % 360;
}

const OUTCOMES = {
  answered: { icon: 'check', words: 'answered' },
  failed: { icon: 'cross', words: 'failed' },
  'timed out': { icon: 'clock', words: 'timed out' },
  gone: { icon: 'gone', words: 'page gone' },
  cancelled: { icon: 'stop', words: 'cancelled' },
  pending: { icon: 'dots', words: 'running' },
};
const outcomeOf = (state) => OUTCOMES[state] ?? { icon: 'cross', words: state };

const STATE_WORDS = {
  asleep: 'The browser has put this tab to sleep: look at it to wake it.',
  reloading: 'The page is loading again.',
  'not responding': 'The page does not answer: it may be busy, or stopped in its debugger.',
  gone: 'The page was closed or left.',
  'waiting for approval': 'Nothing of this page is used until it is let in.',
};

/** @param {Tab} tab @param {string} ns @param {Map<string, Tab | null>} shared @param {boolean} strict */
export function routeOf(tab, ns, shared, strict) {
  if (tab.number === null || !shared.has(ns)) return null;
  const answering = shared.get(ns);
  if (answering?.id === tab.id) return { mark: 'answers', words: `answers calls to ${ns}` };
  if (answering) return { mark: 'shadowed', words: `shadowed by ${nameOf(answering)}` };
  return { mark: 'shadowed', words: strict ? 'open in several tabs: name one' : 'open in several tabs' };
}

// ---- Search ----------------------------------------------------------------------------------------------

const keyOf = (ns, name) => JSON.stringify([ns, name]);

/**
 * The tools of `tab` that a search finds, or null where it finds nothing of the tab.
 * @param {Tab} tab @param {string} query @param {Tool[]} details what is known of its tools so far
 * @returns {Set<string> | null}
 */
export function found(tab, query, details = []) {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  const about = `${nameOf(tab)} ${tab.title} ${tab.host}`.toLowerCase();
  const known = new Map(
    details.map((tool) => [keyOf(tool.ns, tool.name), `${tool.title ?? ''} ${tool.description}`]),
  );
  const hits = new Set();
  for (const { ns, tools } of tab.apps) {
    for (const name of tools) {
      const text = `${about} ${ns}/${name} ${known.get(keyOf(ns, name)) ?? ''}`.toLowerCase();
      if (words.every((word) => text.includes(word))) hits.add(keyOf(ns, name));
    }
  }
  return hits.size || words.every((word) => about.includes(word)) ? hits : null;
}

// ---- Forms from schemas ----------------------------------------------------------------------------------

const isRecord = (value) => typeof value === 'object' && value !== null && !Array.isArray(value);
const listOf = (value) => (Array.isArray(value) ? value : []);

/** @param {any} root @param {string} ref */
function lookUp(root, ref) {
  if (!ref.startsWith('#')) return {};
  const steps = ref.slice(1).split('/').slice(1);
  return steps.reduce((at, step) => {
    const key = step.replaceAll('~1', '/').replaceAll('~0', '~');
    return at !== null && typeof at === 'object' && Object.hasOwn(at, key) ? at[key] : undefined;
  }, root);
}

/**
 * `schema` without `$ref` and `allOf`.
 * @param {any} schema @param {{root: any, left: number}} budget
 */
function resolved(schema, budget) {
  if (!isRecord(schema) || budget.left-- <= 0) return {};
  const { $ref, allOf, ...own } = schema;
  const parts = listOf(allOf);
  if (typeof $ref === 'string') parts.unshift(lookUp(budget.root, $ref));
  return parts.reduce((sum, part) => merged(sum, resolved(part, budget)), own);
}

function merged(a, b) {
  const both = { ...b, ...a };
  if (a.properties && b.properties) both.properties = { ...b.properties, ...a.properties };
  if (a.required && b.required) both.required = [...listOf(b.required), ...listOf(a.required)];
  return both;
}

/** `schema` with null taken out of it. */
function withoutNull(schema, budget) {
  const types = listOf(schema.type);
  if (types.includes('null')) {
    const left = types.filter((type) => type !== 'null');
    return { schema: { ...schema, type: left.length === 1 ? left[0] : left }, nullable: true };
  }
  const union = schema.anyOf ?? schema.oneOf;
  if (!Array.isArray(union)) return { schema, nullable: schema.type === 'null' };
  const parts = union.map((part) => resolved(part, budget));
  const left = parts.filter((part) => part.type !== 'null');
  const { anyOf, oneOf, ...own } = schema;
  const nullable = left.length < parts.length;
  if (left.length === 1) return { schema: merged(own, left[0]), nullable };
  if (left.length && left.every((part) => 'const' in part)) {
    return { schema: { ...own, enum: left.map((part) => part.const) }, nullable };
  }
  return { schema: { ...own, type: 'any' }, nullable };
}

function choicesOf(schema, nullable) {
  const choices =
    'const' in schema ? [schema.const] : schema.type === 'boolean' ? [true, false] : listOf(schema.enum);
  return nullable && choices.length && !choices.includes(null) ? [...choices, null] : choices;
}

const LONG_FORMATS = ['textarea', 'multiline', 'multi-line', 'markdown', 'html', 'text'];

function kindOf(schema, choices, required) {
  if ('const' in schema && required && choices.length === 1) return 'fixed';
  if (choices.length) return 'choice';
  if (schema.type === 'number' || schema.type === 'integer') return schema.type;
  if (schema.type !== 'string') return 'json';
  if (schema.format === 'date') return 'date';
  const long =
    LONG_FORMATS.includes(schema.format) ||
    'contentMediaType' in schema ||
    schema.maxLength > 255 ||
    String(schema.default ?? '').includes('\n');
  return long ? 'long' : 'text';
}

function typeWords(schema, choices, nullable) {
  const declared = listOf(typeof schema.type === 'string' ? [schema.type] : schema.type);
  const types = declared.length
    ? declared
    : choices.map((choice) => (choice === null ? 'null' : typeof choice));
  const type = [...new Set(types)].join(' | ');
  const format = typeof schema.format === 'string' ? ` (${schema.format})` : '';
  const items = isRecord(schema.items) && typeof schema.items.type === 'string' ? schema.items.type : '';
  const words = type === 'array' && items ? `${items}[]` : `${type || 'any'}${format}`;
  return nullable ? `${words} or null` : words;
}

function rangeWords({ minimum, maximum }) {
  if (typeof minimum === 'number' && typeof maximum === 'number') return `${minimum} to ${maximum}.`;
  if (typeof minimum === 'number') return `At least ${minimum}.`;
  return typeof maximum === 'number' ? `At most ${maximum}.` : '';
}

function initialOf(kind, choices, value) {
  if (kind === 'fixed') return '0';
  if (value === undefined) return '';
  if (kind === 'choice') {
    const at = choices.findIndex((choice) => JSON.stringify(choice) === JSON.stringify(value));
    return at < 0 ? '' : String(at);
  }
  if (kind === 'json') return JSON.stringify(value, null, 2);
  return value === null ? '' : String(value);
}

/** @returns {Field} */
function fieldOf(name, declared, required, budget) {
  const { schema, nullable } = withoutNull(resolved(declared, budget), budget);
  const choices = choicesOf(schema, nullable);
  const kind = kindOf(schema, choices, required);
  const said = typeof schema.description === 'string' ? schema.description : '';
  return {
    name,
    kind,
    required,
    nullable,
    choices,
    type: typeWords(schema, choices, nullable && !choices.length),
    help: [said, rangeWords(schema)].filter(Boolean).join(' '),
    initial: initialOf(kind, choices, schema.default),
    rest: false,
  };
}

/** @param {string} name @param {string} help @returns {Field} */
const restField = (name, help) => ({
  name,
  help,
  kind: 'json',
  type: 'object',
  required: false,
  nullable: false,
  initial: '',
  choices: [],
  rest: true,
});

/** All arguments in one field: what a form cannot show, and what should go past it. */
export const wholeField = () => restField('arguments', 'All arguments as one JSON object.');

/**
 * What a form asks for.
 * @param {any} schema a tool's input schema @returns {Field[]}
 */
export function fieldsOf(schema) {
  const budget = { root: schema, left: MAX_RESOLVED };
  const top = resolved(schema, budget);
  const branches = [...listOf(top.oneOf), ...listOf(top.anyOf)];
  if (branches.some((branch) => isRecord(branch) && (branch.properties || branch.$ref)))
    return [wholeField()];
  const properties = isRecord(top.properties) ? top.properties : {};
  const required = listOf(top.required);
  const fields = Object.entries(properties).map(([name, declared]) =>
    fieldOf(name, declared, required.includes(name), budget),
  );
  const open =
    isRecord(top.additionalProperties) ||
    top.additionalProperties === true ||
    isRecord(top.patternProperties);
  return open ? [...fields, restField('more', 'Further arguments as a JSON object.')] : fields;
}

/** @param {Field} field @param {string} raw @returns {{value?: unknown, error?: string}} */
function read(field, raw) {
  const text = field.kind === 'text' || field.kind === 'long' ? raw : raw.trim();
  // A default that was left as it stands is the page's to apply, as for a call from a cell.
  if (!field.required && raw === field.initial) return {};
  if (text === '') {
    if (!field.required) return {};
    return field.nullable ? { value: null } : { error: 'This one is required.' };
  }
  if (field.kind === 'choice' || field.kind === 'fixed') return { value: field.choices[Number(text)] };
  if (field.kind === 'number' || field.kind === 'integer') return readNumber(field.kind, text);
  return field.kind === 'json' ? readJson(field, text) : { value: text };
}

function readNumber(kind, text) {
  const value = Number(text);
  if (!Number.isFinite(value)) return { error: `Not a number: ${text}` };
  if (kind === 'integer' && !Number.isInteger(value)) return { error: `Not a whole number: ${text}` };
  if (Number.isInteger(value) && !Number.isSafeInteger(value))
    return { error: 'Too large: a page would round it.' };
  return { value };
}

function readJson(field, text) {
  try {
    const value = JSON.parse(text);
    return field.rest && !isRecord(value)
      ? { error: 'A JSON object is needed here: {"name": value}' }
      : { value };
  } catch (error) {
    return { error: `Not JSON (text needs "double quotes"): ${error.message}` };
  }
}

/**
 * The arguments that a form holds.
 * @param {Field[]} fields @param {string[]} raws what stands in each field
 * @returns {{args: Record<string, unknown>, errors: (string | undefined)[]}}
 */
export function argsFrom(fields, raws) {
  const reads = fields.map((field, at) => read(field, raws[at] ?? ''));
  const entries = fields.flatMap((field, at) => {
    if (!('value' in reads[at])) return [];
    const value = /** @type {any} */ (reads[at].value);
    return field.rest ? Object.entries(value) : [[field.name, value]];
  });
  return { args: Object.fromEntries(entries), errors: reads.map(({ error }) => error) };
}

// ---- Store -----------------------------------------------------------------------------------------------

/** A timer that ends with `signal`. @param {AbortSignal} signal @param {number} ms @param {() => void} run */
function after(signal, ms, run) {
  const stop = () => {
    clearTimeout(timer);
    signal.removeEventListener('abort', stop);
  };
  const timer = setTimeout(() => {
    stop();
    run();
  }, ms);
  signal.addEventListener('abort', stop);
  return stop;
}

/** What the kernel said so far, for all views of one model. */
export class Store {
  /** @type {State} */ state;
  stale = false;
  #model;
  #signal;
  #listeners = new Set();
  #requests = new Map();
  #asksForAll = false;
  #tools = new Map();

  /** @param {Model} model @param {AbortSignal} signal ends it */
  constructor(model, signal) {
    this.#model = model;
    this.#signal = signal;
    this.state = { ...NOTHING, ...model.get('state') };
    const heard = (message) => this.#hear(message);
    const liveness = () => this.#setStale(model.comm_live !== true);
    model.on('msg:custom', heard);
    model.on('comm_live_update', liveness);
    signal.addEventListener('abort', () => {
      model.off('msg:custom', heard);
      model.off('comm_live_update', liveness);
      this.#listeners.clear();
      this.#requests.clear();
    });
  }

  /** @param {() => void} listener @param {AbortSignal} signal */
  subscribe(listener, signal) {
    this.#listeners.add(listener);
    signal.addEventListener('abort', () => this.#listeners.delete(listener));
  }

  /** Whether the kernel lets a request wait. */
  get slow() {
    return [...this.#requests.values()].some((request) => request.slow);
  }

  /** @param {object} message */
  send(message) {
    if (this.stale) return;
    try {
      this.#model.send(message);
    } catch {
      this.#setStale(true);
    }
  }

  /**
   * The kernel's reply, however long it takes; an error of our own when the kernel is gone.
   * @param {object} message @param {(id: string) => void} [started] @returns {Promise<any>}
   */
  request(message, started) {
    return new Promise((resolve) => this.#ask(message, resolve, started));
  }

  /** What is known of a tab's tools. @param {Tab} tab @returns {{tools: Tool[] | null, error: string | null}} */
  toolsOf(tab) {
    return this.#tools.get(tab.id) ?? { tools: null, error: null };
  }

  /** Ask for a tab's tools, once for each set of them. @param {Tab} tab */
  learn(tab) {
    const known = this.#tools.get(tab.id);
    if (known?.apps === tab.apps) return;
    const entry = { apps: tab.apps, tools: known?.tools ?? null, error: null };
    this.#tools.set(tab.id, entry);
    this.#ask({ kind: 'tools', tab: tab.id }, (reply) => {
      entry.tools = reply.tools ?? entry.tools;
      entry.error = reply.error ?? null;
      this.#tell();
    });
  }

  /** Let the next `learn` ask again. @param {Tab} tab */
  forget(tab) {
    this.#tools.delete(tab.id);
  }

  /** `settle` runs before the next message is heard, as a delta may follow on what it brings. */
  #ask(message, settle, started = (id) => {}) {
    const re = Math.random().toString(36).slice(2) + Math.random().toString(36).slice(2);
    const request = { settle, started, slow: false, heard: () => {} };
    request.heard = after(this.#signal, SLOW_MS, () => {
      request.slow = true;
      this.#tell();
    });
    this.#requests.set(re, request);
    this.send({ ...message, re });
    if (this.stale) this.#giveUp();
  }

  #hear(message) {
    if (this.stale) this.#setStale(false);
    if (message.kind === 'delta') this.#advance(message);
    else if (message.kind === 'reply') this.#settle(message);
  }

  #advance(delta) {
    if (delta.seq <= this.state.seq) return;
    if (delta.seq > this.state.seq + 1) {
      this.#askForAll();
      return;
    }
    this.#become(applyDelta(this.state, delta));
  }

  #askForAll() {
    if (this.#asksForAll) return;
    this.#asksForAll = true;
    this.#ask({ kind: 'snapshot' }, ({ state }) => {
      this.#asksForAll = false;
      if (state) this.#become({ ...NOTHING, ...state });
    });
  }

  /** @param {State} state */
  #become(state) {
    this.state = state;
    const ids = new Set(state.tabs.map((tab) => tab.id));
    for (const id of this.#tools.keys()) if (!ids.has(id)) this.#tools.delete(id);
    this.#tell();
  }

  #settle(reply) {
    const request = this.#requests.get(reply.re);
    if (!request) return;
    request.heard();
    if (reply.started === undefined) {
      this.#requests.delete(reply.re);
      request.settle(reply);
    } else {
      request.started(reply.started);
    }
    if (request.slow) {
      request.slow = false;
      this.#tell();
    }
  }

  #setStale(stale) {
    if (this.stale === stale) return;
    this.stale = stale;
    if (stale) this.#giveUp();
    this.#tell();
  }

  #giveUp() {
    const given = [...this.#requests.values()];
    this.#requests.clear();
    for (const { settle, heard } of given) {
      heard();
      settle({ ok: false, error: RESTARTED });
    }
  }

  #tell() {
    for (const listener of this.#listeners) listener();
  }
}

// ---- Elements --------------------------------------------------------------------------------------------

/**
 * An element; names with a hyphen, `role` and `for` are attributes, everything else is a property.
 * @param {string} tag @param {Record<string, any>} [props] @param {...(Node | string | null)} children
 * @returns {any}
 */
function h(tag, props = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (name.includes('-') || name === 'role' || name === 'for') node.setAttribute(name, value);
    else node[name] = value;
  }
  node.append(...children.filter((child) => child !== null));
  // Notebooks read keys as commands, Enter and "dd" among them. Notebook 7 looks at a key before anything in
  // the page does, and at the focused element before its ancestors: so every one of them says no.
  if (node.tabIndex >= 0) node.setAttribute('data-lm-suppress-shortcuts', 'true');
  return node;
}

/** Text that a page wrote: its direction stays its own affair. */
const bdi = (className, text = '') => h('bdi', { className, dir: 'auto', textContent: text });

function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

function setProp(node, name, value) {
  if (node[name] !== value) node[name] = value;
}

function setAttribute(node, name, value) {
  if (node.getAttribute(name) !== value) node.setAttribute(name, value);
}

const ICONS = {
  chevron: 'M6 3.5 10.5 8 6 12.5',
  copy: 'M5.5 5.5h7v8h-7zM10.5 5.5v-3h-7v8h2',
  check: 'M3 8.5 6.5 12 13 4.5',
  cross: 'M4 4l8 8M12 4l-8 8',
  clock: 'M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12zM8 4.8V8l2.2 1.6',
  stop: 'M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12zM3.8 3.8l8.4 8.4',
  gone: 'M8 2v5M4.7 4A5.5 5.5 0 1 0 11.3 4',
  dots: 'M8 14A6 6 0 1 0 8 2',
  pin: 'M5.5 2.5h5M6.3 2.5v4L4.2 9.3h7.6L9.7 6.5v-4M8 9.3v4.5',
  search: 'M7 11.5a4.5 4.5 0 1 0 0-9 4.5 4.5 0 0 0 0 9zM10.3 10.3 13.5 13.5',
  plug: 'M8 10.5V14M4.5 6h7v1.5a3.5 3.5 0 0 1-7 0zM6 6V2.5M10 6V2.5',
};

/** @param {string} name */
function icon(name) {
  const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
  const path = document.createElementNS('http://www.w3.org/2000/svg', 'path');
  svg.setAttribute('viewBox', '0 0 16 16');
  svg.setAttribute('aria-hidden', 'true');
  svg.setAttribute('class', `pt-icon pt-icon-${name}`);
  path.setAttribute('d', ICONS[name]);
  svg.append(path);
  return svg;
}

let ids = 0;
const newId = () => `pagetools-${++ids}`;

function button(label, onclick, props = {}) {
  return h('button', { type: 'button', className: 'pt-button', onclick, ...props }, label);
}

/** Bring `nodes` into order around the one that has the focus: to move that one would take it away. */
function arrange(parent, nodes, focused) {
  const move = (node, before) =>
    parent.moveBefore && node.parentNode === parent
      ? parent.moveBefore(node, before)
      : parent.insertBefore(node, before);
  const at = Math.max(
    0,
    nodes.findIndex((node) => node.contains(focused)),
  );
  if (nodes.length && nodes[at].parentNode !== parent) move(nodes[at], parent.firstChild);
  for (let i = at - 1; i >= 0; i--) if (nodes[i].nextSibling !== nodes[i + 1]) move(nodes[i], nodes[i + 1]);
  for (let i = at + 1; i < nodes.length; i++) {
    if (nodes[i].previousSibling !== nodes[i - 1]) move(nodes[i], nodes[i - 1].nextSibling);
  }
}

// ---- Small parts -----------------------------------------------------------------------------------------

async function copyText(ui, text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // Notebooks served over plain HTTP have no clipboard API.
  }
  const held = ui.focused();
  const area = h('textarea', { className: 'pt-unseen', value: text, readOnly: true, 'aria-hidden': 'true' });
  ui.root.append(area);
  area.select();
  const done = document.execCommand('copy');
  area.remove();
  held?.focus({ preventScroll: true });
  return done;
}

/** @param {() => string | null | Promise<string | null>} text null when there is nothing to copy */
function copyButton(ui, text, what, label = 'Copy') {
  const words = h('span', {}, label);
  const onclick = async () => {
    const wanted = await text();
    if (wanted === null) return;
    const done = await copyText(ui, wanted);
    words.textContent = done ? 'Copied' : 'Not allowed to copy';
    ui.say(done ? `Copied ${what}` : 'The browser does not allow copying');
    after(ui.signal, COPIED_MS, () => setText(words, label));
  };
  return h(
    'button',
    { type: 'button', className: 'pt-button pt-copy', onclick, 'aria-label': `${label} ${what}` },
    icon('copy'),
    words,
  );
}

/** Text to take away. */
function codeBlock(ui, text, what) {
  const code = h('pre', {
    className: 'pt-code',
    textContent: text,
    tabIndex: 0,
    role: 'group',
    'aria-label': what,
  });
  return h(
    'div',
    { className: 'pt-code-row' },
    code,
    copyButton(ui, () => text, what),
  );
}

function routePill() {
  const mark = h('span', { className: 'pt-icon-slot' });
  const words = h('bdi', { className: 'pt-route-words' });
  const node = h('span', { className: 'pt-route', hidden: true }, mark, words);
  const update = (route) => {
    setProp(node, 'hidden', !route);
    if (!route || node.dataset.mark + words.textContent === route.mark + route.words) return;
    node.dataset.mark = route.mark;
    mark.replaceChildren(icon(route.mark === 'answers' ? 'check' : 'stop'));
    words.textContent = route.words;
  };
  return { node, update };
}

/** How far a call is. @returns {Part} */
function progressPart() {
  const fill = h('span', { className: 'pt-fill' });
  const bar = h('span', { className: 'pt-bar', role: 'progressbar', 'aria-label': 'Progress' }, fill);
  const words = bdi('pt-progress-words');
  const node = h('span', { className: 'pt-progress' }, bar, words);
  /** @param {Call['progress']} progress */
  const update = (progress) => {
    const { done = 0, total = null, message = null } = progress ?? {};
    const share = total ? Math.min(1, Math.max(0, done / total)) : null;
    bar.classList.toggle('pt-endless', share === null);
    fill.style.transform = share === null ? '' : `scaleX(${share})`;
    if (share === null) bar.removeAttribute('aria-valuenow');
    else setAttribute(bar, 'aria-valuenow', String(Math.round(share * 100)));
    const count = !progress ? '' : total ? `${done} of ${total}` : done ? String(done) : '';
    setText(words, [count, message].filter(Boolean).join(' · '));
  };
  return { node, update };
}

// ---- Connecting a page -----------------------------------------------------------------------------------

/** @type {[RegExp, string][]} */
const HINTS = [
  [/any page/i, 'Run this in a cell; “demo” in place of the address opens a page to play with.'],
  [/tabs/i, 'Run this in a cell: pages need no change, and are listed as they are.'],
  [/book/i, 'Make a bookmark with this as its address, and click it when the page is open.'],
  [/console/i, "Paste it into the console of the browser's developer tools."],
  [/page/i, 'Put this into the HTML of a page served from this machine.'],
];

function way(ui, title, text) {
  const hint = HINTS.find(([pattern]) => pattern.test(title))?.[1] ?? '';
  return h(
    'li',
    { className: 'pt-way' },
    h('div', { className: 'pt-way-title' }, title),
    h('div', { className: 'pt-muted' }, hint),
    codeBlock(ui, text, title),
  );
}

/** The ways to connect a page. @returns {Part} */
function waysPart(ui) {
  const cells = [
    way(ui, 'Any page, in a browser of its own', '%pagetools open https://…'),
    way(ui, 'The tabs of a browser that runs with a debugging port', '%pagetools attach'),
  ];
  const node = h('ul', { className: 'pt-ways', role: 'list' }, ...cells);
  let askedFor = '';
  const update = async () => {
    const { url } = ui.store.state.bridge;
    if (askedFor === url) return;
    askedFor = url;
    const reply = await ui.store.request({ kind: 'snippet' });
    if (!reply.snippets) askedFor = '';
    else if (askedFor === url) {
      node.replaceChildren(...cells, ...reply.snippets.map(({ title, text }) => way(ui, title, text)));
    }
  };
  return { node, update };
}

/** What to do when nothing is connected. @returns {Part} */
function emptyPart(ui, ways) {
  const title = h('div', { className: 'pt-empty-title' });
  const words = h('div', { className: 'pt-muted' });
  const start = codeBlock(ui, '%pagetools start', 'the command');
  const place = h('div', {});
  const node = h('div', { className: 'pt-empty' }, title, words, start, place);
  /** @param {State} state */
  const update = ({ bridge, tabs }) => {
    const running = bridge.state === 'running';
    setProp(node, 'hidden', running && tabs.length > 0);
    if (node.hidden) return;
    setText(title, running ? 'No page is connected yet' : 'The bridge is not running');
    setText(
      words,
      running
        ? 'Connect one in any of these ways; it shows up here at once.'
        : 'Start it in a cell. Pages that were connected come back by themselves.',
    );
    setProp(start, 'hidden', running);
    setProp(place, 'hidden', !running);
    if (!running) return;
    if (ways.node.parentNode !== place) place.append(ways.node);
    ways.update();
  };
  return { node, update };
}

/** The bridge, the counts, and how to connect a page. @returns {Part} */
function headPart(ui, ways) {
  const bridge = h('span', { className: 'pt-bridge' });
  const counts = h('span', {});
  const strict = h(
    'span',
    { className: 'pt-badge', title: 'A call that several tabs could answer is refused' },
    'strict',
  );
  const waiting = h('span', { className: 'pt-waiting' }, 'waiting for the kernel…');
  const panel = h('div', { className: 'pt-connect', id: newId(), hidden: true });
  const toggle = () => {
    panel.hidden = !panel.hidden;
    toggler.setAttribute('aria-expanded', String(!panel.hidden));
    if (panel.hidden) return;
    panel.append(ways.node);
    ways.update();
  };
  const toggler = button('', toggle, { 'aria-expanded': 'false', 'aria-controls': panel.id });
  toggler.append(icon('plug'), 'Connect a page');
  const name = h('span', { className: 'pt-name' }, 'Page tools');
  const facts = h('span', { className: 'pt-facts' }, bridge, counts, strict, waiting);
  const node = h('div', {}, h('div', { className: 'pt-head' }, name, facts, toggler), panel);

  /** @param {State} state */
  const update = (state) => {
    const running = state.bridge.state === 'running';
    const tabs = liveTabs(state);
    setAttribute(bridge, 'data-state', state.bridge.state);
    setText(
      bridge,
      running ? `listening on ${state.bridge.url.replace(/^\w+:\/\//, '')}` : state.bridge.state,
    );
    setProp(
      bridge,
      'title',
      running
        ? `In the kernel${state.bridge.host === 'thread' ? ', on a thread of its own' : "'s event loop"}`
        : '',
    );
    setProp(counts, 'hidden', tabs.length === 0);
    setText(counts, `${counted(tabs.length, 'tab')}, ${counted(toolCount(tabs), 'tool')}`);
    setProp(strict, 'hidden', !state.bridge.strict);
    setProp(waiting, 'hidden', !ui.store.slow);
    setProp(toggler, 'hidden', !running || state.tabs.length === 0);
    if (toggler.hidden && !panel.hidden) toggle();
    if (!panel.hidden) ways.update();
  };
  return { node, update };
}

// ---- Forms -----------------------------------------------------------------------------------------------

function controlOf(field, id) {
  const common = { id, className: 'pt-input', value: field.initial };
  if (field.kind === 'fixed') {
    return h('output', { ...common, className: 'pt-fixed', value: JSON.stringify(field.choices[0]) });
  }
  if (field.kind === 'choice') {
    const words = (choice) => (typeof choice === 'string' ? choice : JSON.stringify(choice));
    const options = field.choices.map((choice, at) => h('option', { value: String(at) }, words(choice)));
    if (!field.required || field.initial === '') {
      options.unshift(h('option', { value: '' }, field.required ? 'choose…' : 'not given'));
    }
    const select = h('select', { id, className: 'pt-input' }, ...options);
    select.value = field.initial;
    return select;
  }
  const placeholder = field.nullable && field.required ? 'null when empty' : '';
  if (field.kind === 'long' || field.kind === 'json') {
    const rows = Math.min(8, Math.max(field.rest ? 4 : 2, field.initial.split('\n').length));
    const area = h('textarea', { ...common, placeholder, rows, spellcheck: field.kind === 'long' });
    area.classList.toggle('pt-json', field.kind === 'json');
    return area;
  }
  const type = field.kind === 'date' ? 'date' : 'text';
  const inputMode = { number: 'decimal', integer: 'numeric' }[field.kind] ?? 'text';
  return h('input', { ...common, placeholder, type, inputMode, autocomplete: 'off', spellcheck: false });
}

/** One argument. @param {Field} field */
function fieldPart(field) {
  const id = newId();
  const control = controlOf(field, id);
  const help = bdi('pt-help', field.help);
  const error = h('span', { className: 'pt-field-error', hidden: true });
  help.id = `${id}-help`;
  error.id = `${id}-error`;
  control.setAttribute('aria-describedby', `${help.id} ${error.id}`);
  if (field.required) control.setAttribute('aria-required', 'true');
  const label = h(
    'label',
    { className: 'pt-label', for: id },
    bdi('pt-arg', field.name),
    h('span', { className: 'pt-type' }, field.type),
    field.required ? h('span', { className: 'pt-required' }, 'required') : null,
  );
  const fail = (message) => {
    setProp(error, 'hidden', !message);
    setText(error, message ?? '');
    setAttribute(control, 'aria-invalid', String(Boolean(message)));
  };
  const node = h('div', { className: 'pt-field' }, label, control, field.help ? help : null, error);
  node.addEventListener('input', () => fail(undefined));
  return { field, node, control, fail, raw: () => (field.kind === 'fixed' ? '0' : control.value) };
}

/** The fields of a form, as the schema has them or as one JSON text. */
function fieldSet(schema) {
  const node = h('div', { className: 'pt-fields' });
  let parts = [];
  const show = (fields, raws = new Map()) => {
    parts = fields.map((field) => fieldPart({ ...field, initial: raws.get(field.name) ?? field.initial }));
    const nothing = h('div', { className: 'pt-muted' }, 'This tool takes no arguments.');
    node.replaceChildren(...(parts.length ? parts.map((part) => part.node) : [nothing]));
  };
  show(fieldsOf(schema));
  return {
    node,
    show,
    get asJson() {
      return parts.length === 1 && parts[0].field.rest && parts[0].field.name === wholeField().name;
    },
    raws: () => new Map(parts.map((part) => [part.field.name, part.raw()])),
    peek: () =>
      argsFrom(
        parts.map((part) => part.field),
        parts.map((part) => part.raw()),
      ).args,
    /** @returns {Record<string, unknown> | null} null when a field is wrong: it says so, and has the focus */
    collect() {
      const { args, errors } = argsFrom(
        parts.map((part) => part.field),
        parts.map((part) => part.raw()),
      );
      parts.forEach((part, at) => part.fail(errors[at]));
      const wrong = errors.findIndex(Boolean);
      if (wrong >= 0) parts[wrong].control.focus();
      return wrong < 0 ? args : null;
    },
  };
}

const IMAGE = /^data:image\/(png|jpeg|gif|webp);base64,[A-Za-z0-9+/]+={0,2}$/;

/** What came of a call. */
function resultPart(ui) {
  const node = h('div', { className: 'pt-result', hidden: true });
  const cellOf = (cell) =>
    cell
      ? [h('div', { className: 'pt-caption' }, 'The same from a cell'), codeBlock(ui, cell, 'the cell')]
      : [];
  const show = (reply) => {
    const took = typeof reply.ms === 'number' ? ` in ${duration(reply.ms)}` : '';
    const words = h('span', {}, reply.ok ? `Answered${took}` : `Failed${took}`);
    const line = h('div', { className: 'pt-outcome' }, icon(reply.ok ? 'check' : 'cross'), words);
    line.dataset.state = reply.ok ? 'answered' : 'failed';
    const images = listOf(reply.images).filter((image) => IMAGE.test(image));
    const shown = images.map((src) => h('img', { src, alt: 'Image that the tool returned' }));
    const text = reply.ok ? reply.value : reply.error;
    const value = text
      ? h('pre', {
          className: 'pt-value',
          dir: 'auto',
          textContent: text,
          tabIndex: 0,
          role: 'group',
          'aria-label': 'Result',
        })
      : null;
    node.replaceChildren(line, ...(value ? [value] : []), ...shown, ...cellOf(reply.cell));
    node.hidden = false;
  };
  const showCell = (cell) => {
    node.replaceChildren(...cellOf(cell));
    node.hidden = false;
  };
  return { node, show, showCell, hide: () => setProp(node, 'hidden', true) };
}

const SURE = 'This tool says it is destructive: call anyway';

/** Calls a tool by hand. @param {string} tab @param {Tool} tool */
function formPart(ui, tab, tool) {
  const target = { tab, ns: tool.ns, name: tool.name };
  const fields = fieldSet(tool.schema);
  const result = resultPart(ui);
  const progress = progressPart();
  const elapsed = h('span', { className: 'pt-time' });
  /** @type {{since: number, id: string | null, cancelled: boolean} | null} */
  let running = null;
  let sure = false;

  const call = h('button', { type: 'submit', className: 'pt-button pt-primary' }, 'Call');
  const cancel = button('Cancel', () => stop());
  const json = button('As JSON', () => swap(), { 'aria-pressed': 'false' });
  const copy = copyButton(ui, () => cell(), 'as cell', 'Copy as cell');
  const state = h(
    'div',
    { className: 'pt-running', hidden: true, role: 'group', 'aria-label': 'Running' },
    progress.node,
    elapsed,
    cancel,
  );
  copy.setAttribute('aria-label', 'Copy as cell');
  json.hidden = fields.asJson;

  const arm = (now) => {
    sure = now;
    setText(call, now ? SURE : 'Call');
    call.classList.toggle('pt-danger', now);
  };
  const swap = () => {
    const whole = fields.asJson;
    if (whole) fields.show(fieldsOf(tool.schema));
    else fields.show([wholeField()], new Map([[wholeField().name, JSON.stringify(fields.peek(), null, 2)]]));
    json.setAttribute('aria-pressed', String(!whole));
  };
  const cell = async () => {
    const args = fields.collect();
    if (!args) return null;
    const reply = await ui.store.request({ kind: 'cell', ...target, args });
    if (!reply.cell) return null;
    result.showCell(reply.cell);
    return reply.cell;
  };
  const stop = () => {
    if (!running || running.cancelled) return;
    running.cancelled = true;
    cancel.textContent = 'Cancelling…';
    if (running.id) ui.store.send({ kind: 'cancel', id: running.id });
  };
  const start = async (args) => {
    const mine = { since: Date.now(), id: /** @type {string | null} */ (null), cancelled: false };
    running = mine;
    result.hide();
    cancel.textContent = 'Cancel';
    follow(ui.store.state, mine.since);
    setAttribute(call, 'aria-disabled', 'true');
    state.hidden = false;
    ui.running.add(follow);
    ui.changed();
    const reply = await ui.store.request({ kind: 'call', ...target, args }, (id) => {
      mine.id = id;
      if (mine.cancelled) ui.store.send({ kind: 'cancel', id });
    });
    running = null;
    ui.running.delete(follow);
    finish(reply);
  };
  const finish = (reply) => {
    if (ui.focused() === cancel) call.focus();
    call.removeAttribute('aria-disabled');
    state.hidden = true;
    result.show(reply);
    ui.say(`${tool.name} ${reply.ok ? 'answered' : `failed: ${reply.error}`}`);
  };
  const follow = (known, now) => {
    const call = known.calls.find((one) => one.id === running?.id);
    progress.update(call?.progress ?? null);
    setText(elapsed, running ? duration(now - running.since) : '');
  };
  const onsubmit = (event) => {
    event.preventDefault();
    const args = running ? null : fields.collect();
    if (!args) return;
    if (tool.destructive && !sure) {
      arm(true);
      return;
    }
    arm(false);
    start(args);
  };
  const buttons = h('div', { className: 'pt-buttons' }, call, copy, json);
  const node = h(
    'form',
    { className: 'pt-form', noValidate: true, onsubmit, 'aria-label': `Call ${tool.name}` },
    fields.node,
    buttons,
    state,
    result.node,
  );
  node.addEventListener('input', () => sure && arm(false));
  node.addEventListener('keydown', (event) => {
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) node.requestSubmit();
    if (event.key === 'Escape' && sure) arm(false);
  });
  /** Take over what was typed into the form that this one replaces. */
  const carry = (older) => {
    if (older.fields.asJson && !fields.asJson) swap();
    const known = older.fields.raws();
    fields.show(fields.asJson ? [wholeField()] : fieldsOf(tool.schema), known);
  };
  return { node, fields, carry };
}

// ---- Tools and cards -------------------------------------------------------------------------------------

const badge = (words, title, kind = '') => h('span', { className: `pt-badge ${kind}`, title }, words);

function paramChip({ name, type, required, description }) {
  return h(
    'span',
    { className: 'pt-param', title: description ?? '' },
    bdi('pt-arg', name),
    h('span', { className: 'pt-type' }, `: ${type}`),
    required ? h('span', { className: 'pt-required' }, ' required') : null,
  );
}

/** One tool of an open card. @param {string} tab */
function toolPart(ui, tab) {
  const name = bdi('pt-tool-name');
  const title = bdi('pt-tool-title');
  const badges = h('span', { className: 'pt-badges' });
  const words = bdi('pt-desc');
  const params = h('div', { className: 'pt-params' });
  const place = h('div', { id: newId(), hidden: true });
  /** @type {Tool} */ let tool;
  let known = '';
  /** @type {ReturnType<typeof formPart> | null} */ let form = null;

  const toggle = () => {
    place.hidden = !place.hidden;
    opener.setAttribute('aria-expanded', String(!place.hidden));
    if (place.hidden) return;
    form ??= build();
    form.node.querySelector('input, textarea, select')?.focus();
  };
  const build = () => {
    const made = formPart(ui, tab, tool);
    place.replaceChildren(made.node);
    return made;
  };
  const opener = button('Call…', toggle, { 'aria-expanded': 'false', 'aria-controls': place.id });
  const more = button('more', () => fold(!words.classList.contains('pt-whole')), {
    className: 'pt-link',
    'aria-expanded': 'false',
  });
  const fold = (whole) => {
    words.classList.toggle('pt-whole', whole);
    more.textContent = whole ? 'less' : 'more';
    more.setAttribute('aria-expanded', String(whole));
  };
  const head = h('div', { className: 'pt-tool-head' }, name, title, badges, opener);
  const node = h('li', { className: 'pt-tool' }, head, words, more, params, place);

  /** @param {Tool} now */
  const update = (now) => {
    const text = JSON.stringify(now);
    if (text === known) return;
    const sameForm =
      tool &&
      JSON.stringify([tool.schema, tool.destructive]) === JSON.stringify([now.schema, now.destructive]);
    known = text;
    tool = now;
    setText(name, now.name);
    setText(title, now.title && now.title !== now.name ? now.title : '');
    setText(words, now.description);
    opener.setAttribute('aria-label', `Call ${now.name}…`);
    badges.replaceChildren(
      ...(now.readOnly ? [badge('read-only', 'The tool says that it changes nothing')] : []),
      ...(now.destructive
        ? [badge('destructive', 'The tool says that it may destroy something', 'pt-bad')]
        : []),
    );
    params.replaceChildren(...now.params.map(paramChip));
    if (!form || sameForm) return;
    const older = form;
    form = build();
    form.carry(older);
  };
  const measure = () => {
    if (!words.classList.contains('pt-whole'))
      setProp(more, 'hidden', words.scrollHeight <= words.clientHeight + 1);
  };
  return { node, update, measure };
}

/** Why an open card shows no tools. @param {Tab} tab @param {Tool[] | null} tools */
function missing(tab, tools) {
  if (tools) return tools.length ? '' : 'This page declares no tools.';
  return tab.number === null ? (STATE_WORDS[tab.state] ?? tab.state) : 'Asking for the tools…';
}

/** The tools of an open card, one group a namespace. @param {string} id */
function toolsPart(ui, id) {
  const note = h('div', { className: 'pt-note pt-muted' });
  const retry = button('Ask again', () => ui.forget(id));
  const node = h('div', { className: 'pt-groups' });
  const groups = new Map();
  const items = new Map();

  const groupOf = (ns) => {
    if (!groups.has(ns)) {
      const pill = routePill();
      const head = h('div', { className: 'pt-group-head' }, bdi('pt-ns', ns), pill.node);
      const list = h('ul', { className: 'pt-list', role: 'list', 'aria-label': `Tools of ${ns}` });
      groups.set(ns, { node: h('div', { className: 'pt-group' }, head, list), list, pill });
    }
    return groups.get(ns);
  };
  const itemOf = (key) => {
    if (!items.has(key)) items.set(key, toolPart(ui, id));
    return items.get(key);
  };
  const forget = (map, keep) => {
    for (const [key, part] of map) {
      if (keep.has(key)) continue;
      part.node.remove();
      map.delete(key);
    }
  };
  const say = (words, again) => {
    setProp(note, 'hidden', !words);
    if (note.firstChild?.textContent !== words)
      note.replaceChildren(bdi('', words), ...(again ? [retry] : []));
  };
  /** @param {Tab} tab @param {any} view @param {Set<string> | null} hits null: all */
  const update = (tab, view, hits) => {
    const { tools, error } = ui.store.toolsOf(tab);
    say(error ?? missing(tab, tools), Boolean(error));
    const all = tools ?? [];
    const spaces = [...new Set(all.map((tool) => tool.ns))];
    forget(groups, new Set(spaces));
    forget(items, new Set(all.map((tool) => keyOf(tool.ns, tool.name))));
    for (const ns of spaces) {
      const group = groupOf(ns);
      const here = all.filter((tool) => tool.ns === ns);
      const parts = here.map((tool) => itemOf(keyOf(ns, tool.name)));
      here.forEach((tool, at) => {
        parts[at].update(tool);
        setProp(parts[at].node, 'hidden', hits !== null && !hits.has(keyOf(ns, tool.name)));
      });
      setProp(
        group.node,
        'hidden',
        parts.every((part) => part.node.hidden),
      );
      group.pill.update(routeOf(tab, ns, view.shared, view.strict));
      arrange(
        group.list,
        parts.map((part) => part.node),
        ui.focused(),
      );
    }
    arrange(node, [note, ...spaces.map((ns) => groups.get(ns).node)], ui.focused());
  };
  const measure = () => items.forEach((item) => item.measure());
  return { node, update, measure };
}

/** A namespace of a closed card, in one line. */
function appPart(ns) {
  const names = bdi('pt-names');
  const pill = routePill();
  const node = h('div', { className: 'pt-app' }, bdi('pt-ns', ns), names, pill.node);
  const update = (tools, route) => {
    setText(names, tools.join(', '));
    pill.update(route);
  };
  return { node, update };
}

/** One tab. @param {string} id */
function cardPart(ui, id) {
  const number = h('code', { className: 'pt-number' });
  const letter = h('span', { className: 'pt-letter', 'aria-hidden': 'true' });
  const title = bdi('pt-title');
  const host = bdi('pt-host');
  const frames = h('span', {});
  const state = h('span', { className: 'pt-state' });
  const focus = h('span', { className: 'pt-focus' });
  const why = bdi('pt-why');
  const apps = h('div', { className: 'pt-apps' });
  const tools = toolsPart(ui, id);
  const body = h('div', { className: 'pt-body', id: newId(), hidden: true }, tools.node);
  const lines = new Map();
  /** @type {Tab} */ let tab = BLANK_TAB;
  let last = { tab: BLANK_TAB, view: null, known: null };
  let hits = null;

  const toggle = () => {
    body.hidden = !body.hidden;
    opener.setAttribute('aria-expanded', String(!body.hidden));
    node.classList.toggle('pt-opened', !body.hidden);
    last.view = null;
    ui.changed();
  };
  const opener = h(
    'button',
    {
      type: 'button',
      className: 'pt-opener',
      onclick: toggle,
      'aria-expanded': 'false',
      'aria-controls': body.id,
    },
    icon('chevron'),
    letter,
    h(
      'span',
      { className: 'pt-what' },
      h('span', { className: 'pt-line' }, title, state),
      h('span', { className: 'pt-meta' }, number, host, frames, focus),
      why,
    ),
  );
  const pinWords = h('span', {}, 'pinned');
  const pin = button(icon('pin'), () => ui.pin(id), { className: 'pt-button pt-pin' });
  pin.append(pinWords);
  const node = h(
    'li',
    { className: 'pt-card' },
    h('div', { className: 'pt-card-head' }, opener, pin),
    apps,
    body,
  );
  apps.onclick = toggle;

  const draw = (view) => {
    const pinned = view.pinned === id;
    setText(number, tab.number === null ? '' : nameOf(tab));
    setText(letter, tab.letter);
    letter.style.setProperty('--pt-hue', String(hueOf(tab.host)));
    setText(title, tab.title || tab.url || 'untitled page');
    setProp(title, 'title', `${tab.title}\n${tab.url}`.trim());
    setText(host, tab.host);
    setProp(host, 'title', tab.url);
    setText(frames, tab.frames > 1 ? counted(tab.frames, 'frame') : '');
    setText(state, tab.state === 'connected' ? '' : tab.state);
    setProp(state, 'title', tab.blocked || (STATE_WORDS[tab.state] ?? ''));
    setText(why, tab.blocked ?? '');
    setAttribute(node, 'data-state', tab.state);
    setAttribute(pin, 'aria-pressed', String(pinned));
    setProp(pinWords, 'hidden', !pinned);
    setAttribute(pin, 'aria-label', `Pin ${nameOf(tab)}`);
    setProp(
      pin,
      'title',
      pinned
        ? 'Pinned: answers whatever it can, wherever you look. Click to unpin'
        : 'Let this tab answer whatever it can, wherever you look',
    );
    setProp(pin, 'hidden', tab.number === null && !pinned);
    drawApps(view);
    tick(Date.now());
  };
  const drawApps = (view) => {
    setProp(apps, 'hidden', !body.hidden);
    if (!body.hidden) {
      tools.update(tab, view, view.query && hits?.size ? hits : null);
      return;
    }
    const narrowed = view.query && hits?.size;
    const shown = tab.apps.flatMap(({ ns, tools: names }) => {
      const matching = narrowed ? names.filter((name) => hits.has(keyOf(ns, name))) : names;
      if (narrowed && !matching.length) return [];
      if (!lines.has(ns)) lines.set(ns, appPart(ns));
      lines.get(ns).update(matching, routeOf(tab, ns, view.shared, view.strict));
      return lines.get(ns).node;
    });
    for (const [ns, line] of lines) if (!shown.includes(line.node)) (line.node.remove(), lines.delete(ns));
    arrange(apps, shown, null);
  };
  const tick = (now) => {
    const { mark, words } = focusOf(tab, now);
    const connected = !['gone', 'asleep', 'waiting for approval'].includes(tab.state);
    setText(focus, connected ? words : tab.lookedAt ? `looked at ${ago(tab.lookedAt, now)}` : '');
    setAttribute(focus, 'data-mark', connected ? mark : 'none');
  };
  /** @param {Tab} now @param {any} view @returns {number} tools that a search finds here, -1 for nothing at all */
  const update = (now, view) => {
    tab = now;
    if (!body.hidden && tab.number !== null) ui.store.learn(tab);
    const known = ui.store.toolsOf(tab);
    if (last.tab !== tab || last.view !== view || last.known !== known.tools) {
      hits = found(tab, view.query, known.tools ?? []);
      setProp(node, 'hidden', hits === null);
      draw(view);
    } else if (!body.hidden) {
      drawApps(view);
    }
    last = { tab, view, known: known.tools };
    return hits ? hits.size : -1;
  };
  return { node, update, tick, measure: () => body.hidden || tools.measure() };
}

// ---- Calls -----------------------------------------------------------------------------------------------

/** One call. @param {string} id */
function callPart(ui, id) {
  const mark = h('span', { className: 'pt-icon-slot' });
  const tool = bdi('pt-call-tool');
  const tab = bdi('pt-call-tab');
  const words = h('span', { className: 'pt-call-state' });
  const note = bdi('pt-call-note');
  const progress = progressPart();
  const time = h('span', { className: 'pt-time' });
  const cancel = button('Cancel', () => {
    cancel.textContent = 'Cancelling…';
    ui.store.send({ kind: 'cancel', id });
  });
  const node = h(
    'li',
    { className: 'pt-call' },
    h('span', { className: 'pt-call-head' }, mark, tool, tab),
    h('span', { className: 'pt-call-what' }, words, note, progress.node),
    time,
    cancel,
  );
  let shown = '';
  /** @type {Call | null} */ let call = null;

  const tick = (now) => {
    if (call) setText(time, duration(call.ms ?? now - call.startedAt));
  };
  /** @param {Call} one */
  const update = (one) => {
    if (one === call) return;
    call = one;
    const pending = one.state === 'pending';
    const outcome = outcomeOf(one.state);
    setAttribute(node, 'data-state', one.state);
    setText(tool, one.tool);
    setText(tab, one.tab);
    setProp(tab, 'title', one.tab);
    setText(words, outcome.words);
    setText(note, one.note);
    setProp(note, 'title', one.note);
    setProp(note, 'hidden', pending || !one.note);
    setProp(progress.node, 'hidden', !pending);
    setProp(words, 'hidden', pending);
    setProp(cancel, 'hidden', !pending);
    setAttribute(cancel, 'aria-label', `Cancel ${one.tool}`);
    if (pending) progress.update(one.progress);
    if (shown !== outcome.icon) mark.replaceChildren(icon(outcome.icon));
    shown = outcome.icon;
    tick(Date.now());
  };
  return { node, update, tick };
}

/** Calls on their way, and the last ones that are over. */
function callsPart(ui) {
  const list = h('ul', { className: 'pt-list', role: 'list', 'aria-label': 'Calls', id: newId() });
  const more = button('', () => ((all = !all), ui.changed()), {
    className: 'pt-link',
    'aria-controls': list.id,
  });
  const count = h('span', { className: 'pt-muted' });
  const node = h(
    'div',
    { className: 'pt-calls' },
    h('div', { className: 'pt-section' }, h('span', {}, 'Calls'), count, more),
    list,
  );
  const rows = new Map();
  let all = false;

  /** @param {State} state */
  const update = ({ calls }) => {
    const pending = calls.filter((call) => call.state === 'pending');
    const finished = calls.filter((call) => call.state !== 'pending');
    const shown = [...pending, ...(all ? finished : finished.slice(0, FINISHED_SHOWN))];
    const kept = new Set(shown.map((call) => call.id));
    for (const [id, row] of rows) if (!kept.has(id)) (row.node.remove(), rows.delete(id));
    for (const call of shown) {
      if (!rows.has(call.id)) rows.set(call.id, callPart(ui, call.id));
      rows.get(call.id).update(call);
    }
    arrange(
      list,
      shown.map((call) => rows.get(call.id).node),
      ui.focused(),
    );
    setProp(node, 'hidden', calls.length === 0);
    setText(count, pending.length ? `${pending.length} running` : '');
    setProp(more, 'hidden', finished.length <= FINISHED_SHOWN);
    setText(more, all ? 'show fewer' : `show all ${finished.length}`);
    setAttribute(more, 'aria-expanded', String(all));
  };
  return { node, update, tick: (now) => rows.forEach((row) => row.tick(now)) };
}

// ---- The view --------------------------------------------------------------------------------------------

/** The search box, once there is enough to search. */
function searchPart(ui) {
  const input = h('input', {
    type: 'search',
    className: 'pt-input',
    placeholder: 'Search tabs and tools',
    'aria-label': 'Search tabs and tools',
    autocomplete: 'off',
    spellcheck: false,
  });
  const count = h('span', { className: 'pt-muted', role: 'status' });
  const clear = button('Clear', () => {
    input.value = '';
    input.focus();
    ui.changed();
  });
  input.addEventListener('input', () => ui.changed());
  input.addEventListener('keydown', (event) => event.key === 'Escape' && clear.click());
  const node = h(
    'div',
    { className: 'pt-search' },
    h('span', { className: 'pt-search-box' }, icon('search'), input),
    count,
    clear,
  );
  const update = (total, tools, tabs) => {
    setProp(node, 'hidden', total < SEARCH_FROM && !input.value);
    setProp(clear, 'hidden', !input.value);
    setText(
      count,
      !input.value ? '' : tabs ? `${counted(tools, 'tool')} in ${counted(tabs, 'tab')}` : 'nothing found',
    );
  };
  return { node, update, query: () => input.value.trim() };
}

/** Sentences for a screen reader about what became different. @param {State} before @param {State} now */
export function news(before, now) {
  const live = (state) => new Map(liveTabs(state).map((tab) => [tab.id, tab]));
  const [was, is] = [live(before), live(now)];
  const came = [...is.values()].filter((tab) => !was.has(tab.id));
  const left = [...was.values()].filter((tab) => !is.has(tab.id));
  const running = new Set(before.calls.filter((call) => call.state === 'pending').map((call) => call.id));
  const over = now.calls.filter(
    (call) => running.has(call.id) && call.state !== 'pending' && (call.ms ?? 0) >= WORTH_SAYING_MS,
  );
  const say = (list, words, each) =>
    list.length > 1 ? [`${counted(list.length, words[0])} ${words[1]}`] : list.map(each);
  return [
    ...say(came, ['tab', 'connected'], (tab) => `${tab.title} connected`),
    ...say(left, ['tab', 'gone'], (tab) => `${tab.title} is gone`),
    ...say(over, ['call', 'finished'], (call) => `${call.tool} ${outcomeOf(call.state).words}`),
  ].join('. ');
}

/** @param {Store} store @param {HTMLElement} el @param {AbortSignal} signal */
function show(store, el, signal) {
  const cards = new Map();
  let before = store.state;
  let view = { shared: new Map(), strict: false, pinned: null, query: '' };
  let viewed = /** @type {any[]} */ ([]);
  let frame = 0;
  let seen = true;
  let stopPulse = () => {};

  const status = h('div', { className: 'pt-unseen', role: 'status', 'aria-live': 'polite' });
  const banner = h('div', { className: 'pt-banner', role: 'alert', hidden: true });
  const root = h('section', { className: 'pagetools', tabIndex: -1, 'aria-label': 'Page tools' });
  root.setAttribute('data-lm-suppress-shortcuts', 'true');
  root.addEventListener('keydown', (event) => event.stopPropagation());

  const ui = {
    store,
    signal,
    root,
    running: new Set(),
    focused: () => /** @type {any} */ (root.getRootNode()).activeElement ?? null,
    say: (words) => status.replaceChildren(words),
    changed: () => {
      if (!signal.aborted) frame ||= requestAnimationFrame(draw);
    },
    pin: (id) => store.send({ kind: 'pin', tab: store.state.pinned === id ? null : id }),
    forget: (id) => {
      store.forget({ ...BLANK_TAB, id });
      ui.changed();
    },
  };

  const ways = waysPart(ui);
  const head = headPart(ui, ways);
  const empty = emptyPart(ui, ways);
  const search = searchPart(ui);
  const list = h('ul', { className: 'pt-cards', role: 'list', 'aria-label': 'Tabs' });
  const calls = callsPart(ui);
  const content = h('div', { className: 'pt-content' }, head.node, search.node, empty.node, list, calls.node);
  banner.append('The kernel was restarted: run ', codeBlock(ui, '%pagetools start', 'the command'));
  root.append(banner, content, status);
  el.append(root);

  const viewOf = (state) => {
    const parts = [state.tabs, state.answers, state.pinned, state.bridge, search.query()];
    if (parts.some((part, at) => part !== viewed[at])) {
      view = {
        shared: sharedApps(state),
        strict: state.bridge.strict,
        pinned: state.pinned,
        query: search.query(),
      };
    }
    viewed = parts;
    return view;
  };
  const drawCards = (state) => {
    const now = viewOf(state);
    const kept = new Set(state.tabs.map((tab) => tab.id));
    for (const [id, card] of cards) if (!kept.has(id)) (card.node.remove(), cards.delete(id));
    const hits = state.tabs.map((tab) => {
      if (!cards.has(tab.id)) cards.set(tab.id, cardPart(ui, tab.id));
      return cards.get(tab.id).update(tab, now);
    });
    arrange(
      list,
      state.tabs.map((tab) => cards.get(tab.id).node),
      ui.focused(),
    );
    list.classList.toggle('pt-long', state.tabs.length > LONG_LIST);
    setProp(list, 'hidden', state.tabs.length === 0 || state.bridge.state !== 'running');
    const found = hits.filter((n) => n >= 0);
    search.update(
      toolCount(state.tabs),
      found.reduce((sum, n) => sum + n, 0),
      found.length,
    );
  };
  const draw = () => {
    frame = 0;
    const { state } = store;
    const held = root.contains(ui.focused()) ? ui.focused() : null;
    setProp(banner, 'hidden', !store.stale);
    setProp(content, 'inert', store.stale);
    root.classList.toggle('pt-stale', store.stale);
    head.update(state);
    empty.update(state);
    drawCards(state);
    calls.update(state);
    tick();
    cards.forEach((card) => card.measure());
    // Keys must not fall through to the notebook because what had the focus went away.
    if (held && !(held.isConnected && held.checkVisibility())) root.focus({ preventScroll: true });
    const words = news(before, state);
    if (words) ui.say(words);
    before = state;
    pulse();
  };
  const tick = () => {
    const now = Date.now();
    calls.tick(now);
    ui.running.forEach((follow) => follow(store.state, now));
  };
  const pulse = () => {
    stopPulse();
    if (!seen || document.hidden || store.stale || signal.aborted) return;
    const busy = ui.running.size > 0 || store.state.calls.some((call) => call.state === 'pending');
    stopPulse = after(signal, busy ? TICK_MS : LAZY_TICK_MS, () => {
      tick();
      if (!busy) cards.forEach((card) => card.tick(Date.now()));
      pulse();
    });
  };
  const sight = new IntersectionObserver((entries) => {
    seen = entries[entries.length - 1].isIntersecting;
    if (seen) cards.forEach((card) => card.tick(Date.now()));
    pulse();
  });
  const size = new ResizeObserver(() => cards.forEach((card) => card.measure()));

  sight.observe(root);
  size.observe(root);
  document.addEventListener('visibilitychange', pulse, { signal });
  store.subscribe(ui.changed, signal);
  signal.addEventListener('abort', () => {
    cancelAnimationFrame(frame);
    sight.disconnect();
    size.disconnect();
    root.remove();
  });
  draw();
}

/** A signal that ends with `outer`, if there is one, and with what is called to end it. */
function ending(outer) {
  const controller = new AbortController();
  const end = () => {
    outer?.removeEventListener('abort', end);
    controller.abort();
  };
  if (outer?.aborted) end();
  outer?.addEventListener('abort', end);
  return { signal: controller.signal, end };
}

/** anywidget calls this once for each model, and hands each hook a model object of its own. */
export default function widget() {
  /** @type {Store} */ let store;
  return {
    /** @param {{model: Model, signal?: AbortSignal}} context */
    initialize({ model, signal: outer }) {
      const { signal, end } = ending(outer);
      store = new Store(model, signal);
      return end;
    },
    /** @param {{el: HTMLElement, signal?: AbortSignal}} context */
    render({ el, signal: outer }) {
      const { signal, end } = ending(outer);
      show(store, el, signal);
      return end;
    },
  };
}
