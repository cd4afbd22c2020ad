// @ts-check
/**
 * Forms that are tools (`<form toolname tooldescription>`), for browsers that do not know them.
 *
 * Knows what such a form declares, how it is filled in and sent, and when a call of it has ended. Does not
 * know where its tool is kept.
 */
import {
  AbortController,
  Array,
  DOMException,
  Error,
  Event,
  JSON,
  Map,
  MessageChannel,
  Number,
  Object,
  Promise,
  String,
  TypeError,
} from './globals.js';

/** @typedef {import('./values.js').BrowserWindow} BrowserWindow */

const WATCHED = ['toolname', 'tooldescription', 'tooltitle', 'toolautosubmit', 'toolparamdescription'];
const OMITTED = ['hidden', 'file', 'submit', 'button', 'reset', 'image'];
const FORMATS = new Map([
  ['date', { format: 'date' }],
  ['color', { pattern: '^#[0-9a-fA-F]{6}$' }],
  ['month', { pattern: '^[0-9]{4}-(0[1-9]|1[0-2])$' }],
  ['week', { pattern: '^[0-9]{4}-W[0-5][0-9]$' }],
  ['time', { pattern: '^([01][0-9]|2[0-3]):[0-5][0-9]' }],
  ['datetime-local', { pattern: '^[0-9]{4}-[0-9]{2}-[0-9]{2}T([01][0-9]|2[0-3]):[0-5][0-9]' }],
]);

// ---- What a form declares --------------------------------------------------------------------------------

/** Its fields by name; those of a name belong together. @returns {Map<string, any[]>} */
function fieldsOf(form) {
  const fields = new Map();
  // A field may be called `elements`.
  const controls = Object.getOwnPropertyDescriptor(HTMLFormElement.prototype, 'elements')?.get?.call(form);
  for (const field of controls) {
    if (!field.name || field.disabled || OMITTED.includes(field.type) || !('value' in field)) continue;
    fields.set(field.name, [...(fields.get(field.name) ?? []), field]);
  }
  return fields;
}

const labelOf = ({ labels }) => labels?.[0]?.textContent.trim() ?? '';

function choices(options) {
  const anyOf = options.map(({ value, title }) => ({ type: 'string', const: value, title }));
  return { type: 'string', enum: options.map(({ value }) => value), anyOf };
}

function numberSchema({ type, min, max, step }) {
  const bounds = type === 'range' ? { minimum: 0, maximum: 100 } : {};
  if (min) bounds.minimum = Number(min);
  if (max) bounds.maximum = Number(max);
  // Steps count from the minimum, multiples from zero.
  const size = Number(step || 1);
  const isMultiple = size > 0 && (bounds.minimum ?? 0) % size === 0;
  return { type: 'number', ...bounds, ...(isMultiple && { multipleOf: size }) };
}

function valueSchema([field, ...others]) {
  const { type, pattern } = field;
  const options = [field, ...others].map((option) => ({ value: option.value, title: labelOf(option) }));
  if (type === 'radio') return choices(options);
  if (type === 'checkbox') {
    if (others.length === 0) return { type: 'boolean' };
    return { type: 'array', uniqueItems: true, items: choices(options) };
  }
  if (field.options && type?.startsWith('select')) {
    const titled = ({ value, textContent }) => ({ value, title: textContent.trim() });
    const items = choices([...field.options].map(titled));
    return field.multiple ? { type: 'array', uniqueItems: true, items } : items;
  }
  if (type === 'number' || type === 'range') return numberSchema(field);
  return { type: 'string', ...(FORMATS.get(type) ?? (pattern ? { pattern: `^(?:${pattern})$` } : {})) };
}

function schemaOfForm(form) {
  const properties = {};
  const required = [];
  for (const [name, fields] of fieldsOf(form)) {
    const [field] = fields;
    const group = fields.length > 1 ? field.closest('fieldset') : null;
    const said = (group ?? field).getAttribute('toolparamdescription') ?? (group ? '' : labelOf(field));
    properties[name] = { ...valueSchema(fields), ...(said && { description: said }) };
    if (fields.some((each) => each.required)) required.push(name);
  }
  return { type: 'object', properties, required };
}

function toolOf(form) {
  const said = (key) => form.getAttribute(`tool${key}`) ?? '';
  const [name, description, title] = ['name', 'description', 'title'].map(said);
  return { name, description, ...(title && { title }), inputSchema: schemaOfForm(form) };
}

// ---- A call of it ----------------------------------------------------------------------------------------

/** As if a person had typed it: frameworks replace the setter of the element, and wait for the events. */
function enter(field, key, value) {
  Object.getOwnPropertyDescriptor(Object.getPrototypeOf(field), key)?.set?.call(field, value);
  field.dispatchEvent(new Event('input', { bubbles: true, composed: true }));
  field.dispatchEvent(new Event('change', { bubbles: true }));
}

/** @throws {TypeError} If a field does not take its value. */
function fill(fields, name, value) {
  const [field, ...others] = fields;
  const refused = () => new TypeError(`Invalid value ${JSON.stringify(value)} for parameter ${name}`);
  const values = (Array.isArray(value) ? value : [value]).map(String);
  if (field.type === 'checkbox' && others.length === 0) return enter(field, 'checked', value === true);
  if (field.type === 'checkbox' || field.type === 'radio') {
    if (!values.every((one) => fields.some((each) => each.value === one))) throw refused();
    for (const each of fields) {
      const isChosen = values.includes(each.value);
      const isToChange = each.checked !== isChosen && (isChosen || each.type === 'checkbox');
      if (isToChange) enter(each, 'checked', isChosen);
    }
    return undefined;
  }
  if (field.multiple && field.options) {
    for (const option of field.options) option.selected = values.includes(option.value);
    return enter(field, 'value', field.value);
  }
  enter(field, 'value', String(value));
  // A field that cannot hold a value drops it.
  if (field.value === '' && String(value) !== '') throw refused();
  return undefined;
}

/** @throws {Error} If the browser would not send it. */
function check(form) {
  if (form.checkValidity()) return;
  const wrong = [...fieldsOf(form).values()].flat().filter((field) => !field.validity.valid);
  const told = wrong.map(({ name, validationMessage }) => `${name}: ${validationMessage}`);
  throw new Error(`Form validation failed: ${told.join('; ')}`);
}

/** The next task; unlike a timer, it comes at once in a hidden tab, too. */
const nextTask = () =>
  new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      port1.close();
      resolve(undefined);
    };
    port2.postMessage(null);
  });

/**
 * Fills a form in and waits until it is sent: by itself, or by the person.
 * @param {BrowserWindow} window @param {any} form @param {any} args @param {AbortSignal} signal of the call
 * @returns {Promise<unknown>} what the page responds with, or null
 */
async function submit(window, form, args, signal) {
  const fields = fieldsOf(form);
  for (const [name, value] of Object.entries(args)) if (fields.has(name)) fill(fields.get(name), name, value);
  const isAutomatic = form.hasAttribute('toolautosubmit');
  if (isAutomatic) check(form);
  const call = new AbortController();
  const answer = new Promise((resolve, reject) => {
    const lasting = { capture: true, signal: call.signal };
    const on = (target, type, run) => target.addEventListener(type, run, lasting);
    on(window.document, 'submit', async (event) => {
      if (event.target !== form) return;
      const respondWith = (response) => resolve(response);
      Object.defineProperties(event, { agentInvoked: { value: true }, respondWith: { value: respondWith } });
      await nextTask();
      // As browsers do: null where the form goes its way. A page that only prevents that has dealt with it.
      resolve(event.defaultPrevented ? undefined : null);
    });
    const isReset = new DOMException('Tool execution cancelled by a form reset', 'UnknownError');
    on(form, 'reset', () => reject(isReset));
    on(signal, 'abort', () => reject(signal.reason));
  });
  if (isAutomatic) HTMLFormElement.prototype.requestSubmit.call(form);
  return answer.finally(() => call.abort());
}

/**
 * Keeps a tool for each form of a document that is one.
 * @param {BrowserWindow} window
 * @param {{signal: AbortSignal, add: (tool: any, run: Function, signal: AbortSignal) => void,
 *   has: (name: string) => boolean, guarded: (what: string, run: () => void) => void}} options
 *   `signal`: ends it; `add`: takes a tool until its signal ends; `guarded`: what is wrong with one form
 *   costs only that form
 */
export function declareForms(window, { signal, add, has, guarded }) {
  const { document } = window;
  /** @type {Map<any, {text: string, life: AbortController}>} */
  const known = new Map();

  function declare(form) {
    const tool = toolOf(form);
    const text = JSON.stringify(tool);
    if (text === known.get(form)?.text) return;
    known.get(form)?.life.abort();
    known.delete(form);
    if (!tool.name || !tool.description || has(tool.name)) return;
    const life = new AbortController();
    known.set(form, { text, life });
    add(tool, (args, context) => submit(window, form, args, context.signal), life.signal);
  }

  function update() {
    const forms = [...document.querySelectorAll('form[toolname][tooldescription]')];
    for (const [form, { life }] of known) {
      if (forms.includes(form)) continue;
      life.abort();
      known.delete(form);
    }
    for (const form of forms) guarded('a form with a toolname', () => declare(form));
  }

  const observer = new window.MutationObserver(update);
  observer.observe(document, { subtree: true, childList: true, attributes: true, attributeFilter: WATCHED });
  signal.addEventListener('abort', () => observer.disconnect());
  update();
}
