// @ts-check
/**
 * Tools: what a page declares of them, checked and as the JSON text that is sent.
 *
 * Knows what may be said of a tool. Does not know where tools come from, nor who asks for them.
 */
import { Array, JSON, Map, Object, String } from './globals.js';
import { describeError, refuse, tagOf, toJson } from './values.js';

/** @typedef {{progress: number, total?: number, message?: string, value?: unknown}} Progress */
/** @typedef {(now: number | Progress, total?: number, message?: string, value?: unknown) => void} Report */
/** @typedef {(args: any, context: {signal: AbortSignal, progress: Report}) => unknown} Execute */
/**
 * @typedef {{name: string, description?: string, title?: string, inputSchema?: object, outputSchema?: object,
 *   annotations?: object, native?: boolean, execute: Execute}} Tool
 * `native`: only the browser has its function; whoever debugs the page may call it there, and learns more
 */
/** @typedef {{tools: Map<string, Tool>, manifest: string}} ToolSet `manifest`: what is sent, as JSON text */

const MANIFEST_KEYS = ['name', 'title', 'description', 'inputSchema', 'outputSchema', 'annotations'];

/** The JSON text of what is declared of a tool. @throws {TypeError} If it could not be offered or called. */
export function manifestOf(tool, where) {
  if (typeof tool?.name !== 'string' || !tool.name) refuse(`${where} needs a name (a non-empty string)`);
  const which = `${where} ("${tool.name}")`;
  if (typeof (tool.description ?? '') !== 'string') refuse(`${which}: description must be a string`);
  if (typeof tool.execute !== 'function') refuse(`${which} needs execute (a function of (args, context))`);
  for (const key of ['inputSchema', 'outputSchema', 'annotations']) {
    if (tool[key] != null && tagOf(tool[key]) !== 'Object') refuse(`${which}: ${key} must be an object`);
  }
  const declared = MANIFEST_KEYS.filter((key) => tool[key] != null).map((key) => [key, tool[key]]);
  try {
    return toJson(Object.fromEntries(declared));
  } catch (error) {
    return refuse(`${which} has no JSON form: ${describeError(error).message}`);
  }
}

/** @param {string} ns @param {Tool[]} tools @returns {ToolSet} @throws {TypeError} */
export function toolSet(ns, tools) {
  if (typeof ns !== 'string' || !ns) refuse('register(ns, tools): ns must be a non-empty string');
  if (!Array.isArray(tools)) refuse(`register("${ns}", tools): tools must be an array, not ${tagOf(tools)}`);
  const manifests = tools.map((tool, index) => manifestOf(tool, `tools[${index}] of "${ns}"`));
  const byName = new Map(tools.map((tool) => [tool.name, tool]));
  const twice = tools.find((tool) => byName.get(tool.name) !== tool);
  if (twice) refuse(`"${ns}" has two tools named "${twice.name}"`);
  return { tools: byName, manifest: `[${manifests.join()}]` };
}

// ---- What other people's pages declare -------------------------------------------------------------------

const isText = (value) => typeof value === 'string';
const areTexts = (value) => Array.isArray(value) && value.every(isText);
const areSchemas = (value) => Array.isArray(value) && value.every(isSchema);
const mapsToSchemas = (value) => tagOf(value) === 'Object' && Object.values(value).every(isSchema);
/** An object of a validator library, also after a browser took it through JSON. */
const isValidator = (value) =>
  value !== null && typeof value === 'object' && ['~standard', '_def', '_zod'].some((key) => key in value);

/** The keywords that hold more than a plain value. @type {Map<string, (value: any) => boolean>} */
const KEYWORDS = new Map([
  ...['$schema', '$id', '$ref', '$comment', 'title', 'description', 'format', 'pattern'].map(
    (key) => /** @type {const} */ ([key, isText]),
  ),
  ...['properties', 'patternProperties', '$defs', 'definitions', 'dependentSchemas'].map(
    (key) => /** @type {const} */ ([key, mapsToSchemas]),
  ),
  ...['additionalProperties', 'propertyNames', 'not', 'if', 'then', 'else', 'contains'].map(
    (key) => /** @type {const} */ ([key, (value) => isSchema(value)]),
  ),
  ...['anyOf', 'allOf', 'oneOf', 'prefixItems'].map((key) => /** @type {const} */ ([key, areSchemas])),
  ['items', (value) => isSchema(value) || areSchemas(value)],
  ['type', (value) => isText(value) || areTexts(value)],
  ['required', (value) => areTexts(value) || typeof value === 'boolean'],
  ['enum', Array.isArray],
]);

/** Whether a value, which has no cycles, says what JSON Schema says. */
function isSchema(value) {
  if (typeof value === 'boolean') return true;
  if (tagOf(value) !== 'Object' || isValidator(value)) return false;
  const isSound = ([key, part]) =>
    KEYWORDS.get(key)?.(part) ?? (typeof part !== 'function' && !isValidator(part));
  return Object.entries(value).every(isSound);
}

/** The JSON Schema that an object of a validator library gives by itself, if it does. */
function standardSchema(value) {
  const give = value?.['~standard']?.jsonSchema?.input;
  return typeof give === 'function' ? give({ target: 'draft-2020-12' }) : value;
}

/** A copy of an object as JSON shows it, or undefined where it shows none. @returns {object | undefined} */
function plain(value) {
  try {
    const copy = JSON.parse(toJson(value));
    return tagOf(copy) === 'Object' ? copy : undefined;
  } catch {
    return undefined;
  }
}

/**
 * A tool's schema, or undefined where it is none: better a tool that takes anything than no tool.
 * @param {any} given an object, or its JSON text
 */
function schemaOf(given) {
  try {
    const schema = isText(given) ? JSON.parse(given) : standardSchema(given);
    // A copy first: it fails where the schema has a cycle.
    const copy = plain(schema);
    return copy && isSchema(schema) ? copy : undefined;
  } catch {
    return undefined;
  }
}

/**
 * What can be declared of a tool that a page described in its own way.
 * @param {any} tool @returns {Omit<Tool, 'execute'>}
 */
export function declarationOf(tool) {
  const { name, title, description, annotations } = tool;
  const about = { name: String(name), description: isText(description) ? description : '' };
  const found = {
    title: (isText(title) && title) || undefined,
    inputSchema: schemaOf(tool.inputSchema ?? tool.parameters),
    outputSchema: schemaOf(tool.outputSchema),
    annotations: plain(annotations),
  };
  const there = Object.entries(found).filter(([, value]) => value !== undefined);
  return { ...about, ...Object.fromEntries(there) };
}
