/**
 * The page behind `%pagetools demo`: a to-do list and a chart that a person uses by hand and a notebook
 * drives through page tools.
 *
 * Written to be read: a tool is an ordinary function with a name, a description and a JSON Schema. Nothing
 * here knows how the call travels; that is the job of pagetools.js. Texts from a call only ever become text
 * nodes, since a caller is not trusted more than a visitor.
 */
import { register, status } from './pagetools.js';

/** @typedef {'low' | 'normal' | 'high'} Priority */
/** @typedef {{id: number, title: string, priority: Priority, tags: string[], done: boolean}} Todo */
/** @typedef {{label: string, value: number}} Point */
/** @typedef {{title: string, kind: 'bar' | 'line', points: Point[]}} Chart */
/** @typedef {(done: number, total?: number, message?: string, value?: unknown) => void} Progress */
/** @typedef {{signal: AbortSignal, progress: Progress}} Context */

const $ = (/** @type {string} */ id) => document.getElementById(id);

/** An element with a class and, as text only, a content. */
function element(tag, className = '', text = '') {
  const node = document.createElement(tag);
  node.className = className;
  node.textContent = text;
  return node;
}

/** Draws the eye to what the notebook has just changed. */
function touch(node) {
  node.classList.remove('touched');
  // Reading a size makes the browser notice the removal, so that the animation starts again.
  void node.offsetWidth;
  node.classList.add('touched');
}

// ---- the to-do list --------------------------------------------------------------------------------------

/** @type {Map<number, {todo: Todo, row: HTMLElement}>} */
const todos = new Map();
let lastId = 0;
let filter = 'all';

/** @returns {Todo} */
function addTodo({ title, priority = 'normal', tags = [] }) {
  const text = title.trim();
  if (!text) throw new Error('A todo needs a title that is not blank.');
  lastId += 1;
  const todo = { id: lastId, title: text, priority, tags, done: false };
  const row = rowOf(todo);
  todos.set(todo.id, { todo, row });
  $('todos').append(row);
  showTodos();
  if (!row.hidden) row.scrollIntoView({ block: 'nearest' });
  return todo;
}

/** @returns {Todo} */
function setDone(id, done) {
  const found = todos.get(id);
  if (!found) {
    const known = [...todos.keys()].slice(-20);
    const hint = known.length ? `the newest are ${known.join(', ')}` : 'the list is empty';
    throw Object.assign(new Error(`There is no todo ${id}: ${hint}.`), { data: { id, known } });
  }
  found.todo.done = done;
  showTodos();
  return found.todo;
}

function rowOf(/** @type {Todo} */ todo) {
  const row = element('li', 'todo');
  const label = element('label');
  const box = element('input');
  box.type = 'checkbox';
  box.addEventListener('change', () => setDone(todo.id, box.checked));

  const words = element('span', 'words');
  words.append(element('span', 'title', todo.title));
  // An embedded right-to-left title must not reorder the badges beside it.
  words.firstChild.dir = 'auto';
  if (todo.priority !== 'normal') words.append(element('span', `badge ${todo.priority}`, todo.priority));
  for (const tag of todo.tags) words.append(element('span', 'tag', tag));
  label.append(box, words);

  const remove = element('button', 'remove', '×');
  remove.type = 'button';
  remove.setAttribute('aria-label', `Delete ${todo.title}`);
  remove.addEventListener('click', () => {
    todos.delete(todo.id);
    row.remove();
    showTodos();
    // The focused button is gone: without a new place a keyboard user would start from the top of the page.
    $('new-title').focus();
  });
  row.append(label, remove);
  return row;
}

function showTodos() {
  let open = 0;
  let visible = 0;
  for (const { todo, row } of todos.values()) {
    row.hidden = filter !== 'all' && todo.done !== (filter === 'done');
    row.classList.toggle('done', todo.done);
    row.querySelector('input').checked = todo.done;
    open += todo.done ? 0 : 1;
    visible += row.hidden ? 0 : 1;
  }
  $('todo-count').textContent = todos.size ? `${open} of ${todos.size} open` : '';
  $('todos').hidden = visible === 0;
  $('todo-empty').hidden = visible > 0;
  $('todo-empty').textContent = todos.size ? `Nothing ${filter} in this list.` : 'Nothing to do.';
}

/** Lets everything that waits, such as a cancel message, be handled first; unlike a timer, never throttled. */
function turn() {
  return new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      port1.close();
      resolve();
    };
    port2.postMessage(null);
  });
}

/**
 * Waits until `due` (on the `performance.now()` clock); rejects at once when `signal` aborts.
 *
 * A hidden tab fires timers once a second, and the page usually is hidden while a cell runs. That is fine
 * here: due times are absolute, so a late timer is made up for by the items that follow it without a wait.
 */
async function until(due, /** @type {AbortSignal} */ signal) {
  await turn();
  signal.throwIfAborted();
  const wait = due - performance.now();
  if (wait <= 0) return;
  await new Promise((resolve, reject) => {
    const stop = () => {
      clearTimeout(timer);
      reject(signal.reason);
    };
    const timer = setTimeout(() => {
      signal.removeEventListener('abort', stop);
      resolve();
    }, wait);
    signal.addEventListener('abort', stop, { once: true });
  });
}

async function importTodos({ titles, delay_ms = 150 }, /** @type {Context} */ { signal, progress }) {
  const added = [];
  const start = performance.now();
  for (const [index, title] of titles.entries()) {
    await until(start + index * delay_ms, signal);
    added.push(addTodo({ title }));
    // The partial value has the shape of the answer: whoever stops half-way holds what was added so far.
    progress(added.length, titles.length, `added ${title}`, { added: added.length, todos: [...added] });
  }
  return { added: added.length, todos: added };
}

// ---- the chart -------------------------------------------------------------------------------------------

/** @type {Chart} */
let chart = {
  title: 'Done per day',
  kind: 'bar',
  points: [['Mon', 3], ['Tue', 5], ['Wed', 2], ['Thu', 6], ['Fri', 4]].map(([label, value]) => ({ label, value })),
};
let growth = 0;

function setChart(/** @type {Chart} */ next) {
  chart = next;
  $('chart-heading').textContent = chart.title;
  for (const radio of $('chart-kind').querySelectorAll('input')) radio.checked = radio.value === chart.kind;
  const words = chart.points.map(({ label, value }) => `${label} ${value}`).join(', ');
  $('canvas').setAttribute('aria-label', `${chart.kind === 'bar' ? 'Bar' : 'Line'} chart, ${chart.title}: ${words}`);

  cancelAnimationFrame(growth);
  // Hidden tabs get no animation frames, so there the final picture has to be drawn at once.
  if (document.hidden || matchMedia('(prefers-reduced-motion: reduce)').matches) paint(1);
  else grow(performance.now());
}

function grow(start) {
  growth = requestAnimationFrame((now) => {
    const part = Math.min(1, Math.max(0, now - start) / 320);
    paint(1 - (1 - part) ** 3);
    if (part < 1) grow(start);
  });
}

function paint(grown = 1) {
  const { clientWidth: width, clientHeight: height } = $('plot');
  // A frame that is not displayed has no size; the observer paints once it gets one.
  if (!width || !height) return;
  const canvas = $('canvas');
  canvas.width = Math.round(width * devicePixelRatio);
  canvas.height = Math.round(height * devicePixelRatio);
  const ctx = canvas.getContext('2d');
  ctx.scale(canvas.width / width, canvas.height / height);
  drawChart(ctx, { x: 0, y: 0, width, height }, grown);
}

/** A PNG of the chart with its title, drawn apart from the page so that its size is the caller's choice. */
function chartImage({ width = 640, height = 360 }) {
  const canvas = document.createElement('canvas');
  canvas.width = width;
  canvas.height = height;
  const ctx = canvas.getContext('2d');
  const color = colors();
  ctx.fillStyle = color.card;
  ctx.fillRect(0, 0, width, height);
  ctx.fillStyle = color.text;
  ctx.font = `600 15px ${color.font}`;
  ctx.textBaseline = 'top';
  ctx.fillText(fit(ctx, chart.title, width - 32), 16, 14);
  drawChart(ctx, { x: 16, y: 44, width: width - 32, height: height - 58 });
  // toDataURL and not toBlob: the latter waits for idle time, which a hidden tab may not get for seconds.
  return canvas.toDataURL('image/png').split(',')[1];
}

function colors() {
  const style = getComputedStyle(document.documentElement);
  const names = ['card', 'grid', 'text', 'muted', 'accent', 'soft', 'field', 'font'];
  return Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
}

/** Round values that cover `low` to `high` in about `count` steps. */
function ticksFor(low, high, count) {
  const rough = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 2.5, 5, 10].find((factor) => factor * power >= rough * 0.999);
  const first = Math.floor(low / step + 1e-9);
  const last = Math.ceil(high / step - 1e-9);
  return Array.from({ length: last - first + 1 }, (_, index) => (first + index) * step);
}

function fit(ctx, text, room) {
  if (ctx.measureText(text).width <= room) return text;
  let letters = [...text];
  while (letters.length && ctx.measureText(`${letters.join('')}…`).width > room) letters = letters.slice(0, -1);
  return letters.length ? `${letters.join('').trimEnd()}…` : '';
}

/** Draws axes and `grown` (0 to 1) of the data into `box`, in CSS pixels. */
function drawChart(ctx, box, grown = 1) {
  const color = colors();
  const values = chart.points.map((point) => point.value);
  const low = Math.min(0, ...values);
  const high = Math.max(0, ...values);
  const top = box.y + 18;
  const bottom = box.y + box.height - 24;
  const ticks = ticksFor(low, high === low ? low + 1 : high, Math.min(6, Math.ceil((bottom - top) / 48)));
  const largest = Math.max(...ticks.map(Math.abs));
  const notation = largest >= 1e5 ? 'compact' : largest < 1e-3 ? 'scientific' : 'standard';
  const format = new Intl.NumberFormat('en', { notation, maximumSignificantDigits: 5 });
  const written = (/** @type {number} */ value) => (value === 0 ? '0' : format.format(value));

  ctx.font = `12px ${color.font}`;
  ctx.textBaseline = 'middle';
  const left = box.x + Math.max(...ticks.map((tick) => ctx.measureText(written(tick)).width)) + 10;
  const right = box.x + box.width;
  const span = ticks.at(-1) - ticks[0];
  const yOf = (/** @type {number} */ value) => bottom - ((value - ticks[0]) / span) * (bottom - top);

  ctx.textAlign = 'right';
  ctx.lineWidth = 1;
  for (const tick of ticks) {
    // Half a pixel, since a line on a whole coordinate is smeared over two rows.
    const y = Math.round(yOf(tick)) + 0.5;
    ctx.strokeStyle = tick === 0 ? color.field : color.grid;
    ctx.beginPath();
    ctx.moveTo(left, y);
    ctx.lineTo(right, y);
    ctx.stroke();
    ctx.fillStyle = color.muted;
    ctx.fillText(written(tick), left - 8, y);
  }

  const slot = (right - left) / values.length;
  const marks = values.map((value, index) => ({ x: left + slot * (index + 0.5), y: yOf(value * grown), value }));
  if (chart.kind === 'bar') drawBars(ctx, marks, yOf(0), slot, color);
  else drawLine(ctx, marks, yOf(0), color);

  ctx.textAlign = 'center';
  const labels = chart.points.map((point) => point.label);
  const widest = Math.max(...labels.map((label) => ctx.measureText(label).width));
  const every = Math.ceil((Math.min(widest, 76) + 8) / slot);
  ctx.fillStyle = color.muted;
  labels.forEach((label, index) => {
    if (index % every === 0) ctx.fillText(fit(ctx, label, slot * every - 6), marks[index].x, bottom + 15);
  });

  const texts = values.map(written);
  const roomy = texts.every((text) => ctx.measureText(text).width < slot - 4);
  if (grown === 1 && roomy) drawValues(ctx, marks, texts, bottom, color);
}

function drawValues(ctx, marks, texts, bottom, color) {
  ctx.fillStyle = color.text;
  ctx.strokeStyle = color.card;
  ctx.lineWidth = 3;
  marks.forEach(({ x, y, value }, index) => {
    // In a valley of a line the room is below the point, unless the labels of the axis are there already.
    const neighbours = [marks[index - 1], marks[index + 1]].filter(Boolean);
    const valley = y + 24 < bottom && neighbours.every((mark) => mark.y < y);
    const below = chart.kind === 'line' ? valley : value < 0;
    ctx.strokeText(texts[index], x, below ? y + 13 : y - 11);
    ctx.fillText(texts[index], x, below ? y + 13 : y - 11);
  });
}

function drawBars(ctx, marks, base, slot, color) {
  const width = Math.min(slot * 0.64, 64);
  const round = Math.min(4, width / 2);
  ctx.fillStyle = color.accent;
  for (const { x, y, value } of marks) {
    ctx.beginPath();
    const corners = value < 0 ? [0, 0, round, round] : [round, round, 0, 0];
    ctx.roundRect(x - width / 2, Math.min(y, base), width, Math.abs(y - base), corners);
    ctx.fill();
  }
}

function drawLine(ctx, marks, base, color) {
  ctx.lineJoin = 'round';
  ctx.beginPath();
  for (const { x, y } of marks) ctx.lineTo(x, y);
  ctx.strokeStyle = color.accent;
  ctx.lineWidth = 2.5;
  ctx.stroke();
  ctx.lineTo(marks.at(-1).x, base);
  ctx.lineTo(marks[0].x, base);
  ctx.globalAlpha = 0.13;
  ctx.fillStyle = color.accent;
  ctx.fill();
  ctx.globalAlpha = 1;
  // Dots closer than this run into one thick line.
  if (marks.length > 1 && marks[1].x - marks[0].x < 12) return;
  for (const { x, y } of marks) {
    ctx.beginPath();
    ctx.arc(x, y, 3.5, 0, 2 * Math.PI);
    ctx.fill();
  }
}

// ---- the strip of last calls -----------------------------------------------------------------------------

function beginCall(name, args) {
  const words = Object.entries(args).map(([key, value]) => `${key}=${JSON.stringify(value)}`).join(', ');
  const row = element('li', 'call running');
  const outcome = element('span', 'outcome');
  const bar = element('progress');
  bar.hidden = true;
  bar.setAttribute('aria-label', `Progress of ${name}`);
  row.append(element('span', 'name', name), element('span', 'args', words.slice(0, 200)), bar, outcome);
  $('calls-hint').hidden = true;
  $('calls').prepend(row);
  while ($('calls').childElementCount > 4) $('calls').lastElementChild.remove();
  return { row, outcome, bar };
}

/** Calls can only come while the page is connected, so this is where to say that it is not. */
function showLink() {
  const connected = status().state === 'open';
  $('strip-heading').textContent = connected ? 'Last calls' : 'Not connected';
  $('strip-heading').classList.toggle('off', !connected);
}

/** The same tool, with its calls shown in the strip and the card it works on lit up. */
function shown(ns, card, tool) {
  const execute = async (args = {}, /** @type {Context} */ context) => {
    const { row, outcome, bar } = beginCall(`${ns}.${tool.name}`, args);
    const progress = (...report) => {
      [bar.value, bar.max] = report;
      bar.hidden = false;
      context.progress(...report);
    };
    const start = performance.now();
    try {
      const answer = await tool.execute(args, { ...context, progress });
      row.className = 'call answered';
      outcome.textContent = `${Math.round(performance.now() - start)} ms`;
      if (card && !tool.annotations?.readOnlyHint) touch(card);
      return answer;
    } catch (error) {
      const stopped = context.signal.aborted;
      row.className = stopped ? 'call stopped' : 'call failed';
      outcome.textContent = stopped ? 'stopped' : error.message;
      throw error;
    } finally {
      bar.hidden = true;
    }
  };
  return { ...tool, execute };
}

// ---- what a person does ----------------------------------------------------------------------------------

$('todo-form').addEventListener('submit', (event) => {
  event.preventDefault();
  const field = $('new-title');
  const tags = [...field.value.matchAll(/(?:^|\s)#(\S{1,30})/g)].map((match) => match[1]);
  const title = field.value.replace(/(^|\s)#\S{1,30}/g, '').trim();
  if (!title) return;
  addTodo({ title, priority: $('new-priority').value, tags });
  field.value = '';
  $('new-priority').value = 'normal';
});
$('todo-filter').addEventListener('change', (event) => {
  filter = event.target.value;
  showTodos();
});
$('chart-kind').addEventListener('change', (event) => setChart({ ...chart, kind: event.target.value }));
new ResizeObserver(() => paint()).observe($('plot'));
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => paint());

addTodo({ title: 'Water the plants', tags: ['home'] });
addTodo({ title: 'Send Ada the draft', priority: 'high', tags: ['work'] });
addTodo({ title: 'Open a notebook' });
setDone(3, true);
setChart(chart);

// ---- what a notebook does --------------------------------------------------------------------------------

/** The schema of an object that has these properties and no others. */
const object = (properties, ...required) => ({ type: 'object', properties, required, additionalProperties: false });
const todoTitle = { type: 'string', minLength: 1, maxLength: 200, description: 'What is to be done, in a few words.' };
const readOnly = { readOnlyHint: true };

const todoTools = [
  {
    name: 'list_todos',
    title: 'List todos',
    description: 'Lists the todos in the order they were added, each with id, title, priority, tags and done.',
    inputSchema: object({
      done: { type: 'boolean', description: 'Only finished (true) or only open ones (false). Default: all.' },
    }),
    annotations: readOnly,
    execute({ done }) {
      const all = [...todos.values()].map(({ todo }) => todo);
      return done === undefined ? all : all.filter((todo) => todo.done === done);
    },
  },
  {
    name: 'add_todo',
    title: 'Add a todo',
    description: 'Adds a todo at the end of the list and returns it with its new id.',
    inputSchema: object({
      title: todoTitle,
      priority: {
        type: 'string',
        enum: ['low', 'normal', 'high'],
        default: 'normal',
        description: 'How pressing it is.',
      },
      tags: {
        type: 'array',
        items: { type: 'string', minLength: 1, maxLength: 30 },
        maxItems: 10,
        uniqueItems: true,
        default: [],
        description: 'Words to group it by, without the # sign.',
      },
    }, 'title'),
    execute: addTodo,
  },
  {
    name: 'complete_todo',
    title: 'Complete a todo',
    description: 'Ticks a todo off, or opens it again with done=false, and returns it.',
    inputSchema: object({
      id: { type: 'integer', minimum: 1, description: 'The id that list_todos and add_todo give.' },
      done: { type: 'boolean', default: true, description: 'Whether it is finished.' },
    }, 'id'),
    annotations: { idempotentHint: true },
    execute: ({ id, done = true }) => setDone(id, done),
  },
  {
    name: 'clear_todos',
    title: 'Clear the list',
    description: 'Deletes every todo, finished or not, for good, and returns how many there were.',
    inputSchema: object({}),
    annotations: { destructiveHint: true, idempotentHint: true },
    execute() {
      const removed = todos.size;
      todos.clear();
      $('todos').replaceChildren();
      showTodos();
      return { removed };
    },
  },
  {
    name: 'import_todos',
    title: 'Import todos',
    description: 'Adds many todos one by one, with progress after each. When stopped, those added so far stay.',
    inputSchema: object({
      titles: { type: 'array', items: todoTitle, minItems: 1, maxItems: 100, description: 'One title for each todo.' },
      delay_ms: {
        type: 'integer',
        minimum: 0,
        maximum: 5000,
        default: 150,
        description: 'Pause between two todos, in milliseconds.',
      },
    }, 'titles'),
    execute: importTodos,
  },
];

const chartTools = [
  {
    name: 'set_chart',
    title: 'Draw a chart',
    description: 'Replaces the chart on the page and returns what it now shows.',
    inputSchema: object({
      title: { type: 'string', minLength: 1, maxLength: 80, description: 'The heading above the chart.' },
      points: {
        type: 'array',
        items: object({
          label: { type: 'string', minLength: 1, maxLength: 60, description: 'The text under the point.' },
          value: { type: 'number', minimum: -1e15, maximum: 1e15, description: 'Its height.' },
        }, 'label', 'value'),
        minItems: 1,
        maxItems: 200,
        description: 'The data, from left to right.',
      },
      kind: { type: 'string', enum: ['bar', 'line'], default: 'bar', description: 'How to draw it.' },
    }, 'title', 'points'),
    annotations: { idempotentHint: true },
    execute({ title: heading, points, kind = 'bar' }) {
      setChart({ title: heading, kind, points });
      return chart;
    },
  },
  {
    name: 'chart_data',
    title: 'Read the chart',
    description: 'Returns the title, kind and points of the chart on the page.',
    inputSchema: object({}),
    annotations: readOnly,
    execute: () => chart,
  },
  {
    name: 'chart_image',
    title: 'Picture of the chart',
    description: 'Returns the chart with its title as a PNG image, in the colors of the page.',
    inputSchema: object({
      width: { type: 'integer', minimum: 160, maximum: 2000, default: 640, description: 'Width in pixels.' },
      height: { type: 'integer', minimum: 120, maximum: 2000, default: 360, description: 'Height in pixels.' },
    }),
    annotations: readOnly,
    execute: (size) => ({ content: [{ type: 'image', data: chartImage(size), mimeType: 'image/png' }] }),
  },
];

const labTools = [
  {
    name: 'explode',
    title: 'Fail on purpose',
    description: 'Throws an Error with this message and some data: shows how a failure in the page looks in Python.',
    inputSchema: object({
      message: { type: 'string', minLength: 1, maxLength: 500, description: 'The message of the error.' },
    }, 'message'),
    annotations: readOnly,
    execute({ message }) {
      throw Object.assign(new Error(message), { data: { todos: todos.size, chart: chart.title } });
    },
  },
  {
    name: 'wait_forever',
    title: 'Never answer',
    description: 'Does not answer until it is cancelled: shows how time limits and the stop button work.',
    inputSchema: object({}),
    annotations: readOnly,
    execute: (_args, /** @type {Context} */ { signal }) => new Promise((_resolve, reject) => {
      signal.addEventListener('abort', () => reject(signal.reason), { once: true });
    }),
  },
  {
    name: 'echo',
    title: 'Echo',
    description: 'Returns its input unchanged: shows that a value survives the way to the page and back.',
    inputSchema: object({ value: { description: 'Any JSON value.' } }, 'value'),
    annotations: readOnly,
    execute: ({ value }) => value,
  },
];

setInterval(showLink, 1000);
register('todo', todoTools.map((tool) => shown('todo', $('todo-card'), tool)));
register('chart', chartTools.map((tool) => shown('chart', $('chart-card'), tool)));
register('lab', labTools.map((tool) => shown('lab', null, tool)));
