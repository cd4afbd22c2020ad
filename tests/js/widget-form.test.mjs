import assert from 'node:assert/strict';
import { test } from 'node:test';

import { argsFrom, fieldsOf, wholeField } from '../../pagetools_ipy/static/widget.js';

const object = (properties, required = [], more = {}) => ({ type: 'object', properties, required, ...more });
const only = (schema, required = [], more = {}) => fieldsOf(object({ x: schema }, required, more))[0];
const kind = (schema, required) => only(schema, required).kind;

/** The arguments of a form with one field in which `raw` stands. */
function typed(schema, raw, required = []) {
  const { args, errors } = argsFrom([only(schema, required)], [raw]);
  return errors[0] ?? args;
}

test('a schema without properties asks for nothing', () => {
  for (const schema of [null, undefined, true, {}, { type: 'object' }, [], 'x', object({})]) {
    assert.deepEqual(fieldsOf(schema), []);
  }
});

test('each type has its control', () => {
  assert.equal(kind({ type: 'string' }), 'text');
  assert.equal(kind({ type: 'string', maxLength: 200 }), 'text');
  assert.equal(kind({ type: 'string', maxLength: 2000 }), 'long');
  assert.equal(kind({ type: 'string', format: 'markdown' }), 'long');
  assert.equal(kind({ type: 'string', default: 'a\nb' }), 'long');
  assert.equal(kind({ type: 'string', format: 'date' }), 'date');
  assert.equal(kind({ type: 'number' }), 'number');
  assert.equal(kind({ type: 'integer' }), 'integer');
  assert.equal(kind({ type: 'boolean' }), 'choice');
  assert.equal(kind({ enum: [1, 'a'] }), 'choice');
  assert.equal(kind({ const: 4 }, ['x']), 'fixed');
  assert.equal(kind({ const: 4 }), 'choice');
  for (const odd of [
    { type: 'array' },
    { type: 'object' },
    {},
    true,
    { type: ['string', 'number'] },
    { not: {} },
  ]) {
    assert.equal(kind(odd), 'json', JSON.stringify(odd));
  }
});

test('null beside one type leaves the control of that type', () => {
  for (const schema of [
    { type: ['integer', 'null'] },
    { anyOf: [{ type: 'integer' }, { type: 'null' }] },
    { oneOf: [{ type: 'null' }, { $ref: '#/$defs/n' }] },
  ]) {
    const field = only(schema, [], { $defs: { n: { type: 'integer' } } });
    assert.deepEqual([field.kind, field.nullable, field.type], ['integer', true, 'integer or null']);
  }
});

test('a union of constants is a choice, any other union is JSON', () => {
  assert.deepEqual(only({ oneOf: [{ const: 'a', title: 'A' }, { const: 'b' }] }).choices, ['a', 'b']);
  assert.equal(kind({ anyOf: [{ type: 'string' }, { type: 'array' }] }), 'json');
});

test('local references and allOf are followed, remote ones are not', () => {
  const $defs = { 'a/b': { type: 'integer', description: 'from there' } };
  const field = only({ $ref: '#/$defs/a~1b', description: 'own words' }, [], { $defs });
  assert.deepEqual([field.kind, field.help], ['integer', 'own words']);
  assert.equal(
    only({ allOf: [{ $ref: '#/$defs/a~1b' }, { minimum: 2 }] }, [], { $defs }).help,
    'from there At least 2.',
  );
  assert.equal(kind({ $ref: 'https://example.org/x.json' }), 'json');
  assert.equal(kind({ $ref: '#/$defs/missing' }), 'json');
});

test('a schema that refers to itself without end costs little', () => {
  const $defs = { a: { allOf: Array(50).fill({ $ref: '#/$defs/a' }) }, b: { $ref: '#/$defs/b' } };
  const started = performance.now();
  assert.equal(only({ $ref: '#/$defs/a' }, [], { $defs }).kind, 'json');
  assert.equal(only({ $ref: '#/$defs/b' }, [], { $defs }).kind, 'json');
  assert.ok(performance.now() - started < 200);
});

test('a tool whose forms of arguments differ takes them as one JSON object', () => {
  const [field, ...others] = fieldsOf({ oneOf: [object({ a: {} }), object({ b: {} })] });
  assert.deepEqual([field.name, field.kind, others.length], ['arguments', 'json', 0]);
  assert.deepEqual(argsFrom([field], ['{"a": 1}']).args, { a: 1 });
  assert.match(argsFrom([field], ['[1]']).errors[0], /JSON object/);
  const either = { ...object({ a: {}, b: {} }), anyOf: [{ required: ['a'] }, { required: ['b'] }] };
  assert.deepEqual(
    fieldsOf(either).map(({ name }) => name),
    ['a', 'b'],
  );
});

test('further arguments can be given where the schema invites them', () => {
  const fields = fieldsOf(object({ a: { type: 'integer' } }, [], { additionalProperties: true }));
  assert.deepEqual(argsFrom(fields, ['1', '{"b": 2}']).args, { a: 1, b: 2 });
});

test('what is left empty is left out, what is required is asked for', () => {
  for (const type of ['string', 'number', 'integer', 'boolean', 'array', 'object']) {
    assert.deepEqual(typed({ type }, ''), {}, type);
    assert.match(typed({ type }, '', ['x']), /required/, type);
  }
  assert.deepEqual(typed({ type: ['string', 'null'] }, '', ['x']), { x: null });
});

test('text is sent as it stands, numbers are read', () => {
  assert.deepEqual(typed({ type: 'string' }, '  12 '), { x: '  12 ' });
  assert.deepEqual(typed({ type: 'number' }, ' -1.5e3 '), { x: -1500 });
  assert.deepEqual(typed({ type: 'integer' }, '3.0'), { x: 3 });
  assert.match(typed({ type: 'number' }, 'Infinity'), /Not a number/);
  assert.match(typed({ type: 'number' }, '1,5'), /Not a number: 1,5/);
  assert.match(typed({ type: 'integer' }, '1.5'), /whole number/);
  assert.match(typed({ type: 'integer' }, '9007199254740993'), /Too large/);
});

test('choices keep the type of their values', () => {
  assert.deepEqual(typed({ enum: [1, '1', null] }, '1'), { x: '1' });
  assert.deepEqual(typed({ enum: [1, '1', null] }, '2'), { x: null });
  assert.deepEqual(typed({ type: 'boolean' }, '1'), { x: false });
  assert.deepEqual(only({ type: ['boolean', 'null'] }).choices, [true, false, null]);
  assert.deepEqual(typed({ const: { a: 1 } }, '0', ['x']), { x: { a: 1 } });
});

test('JSON is read, and where it is wrong the field says so', () => {
  assert.deepEqual(typed({ type: 'array' }, '["a", 1]'), { x: ['a', 1] });
  assert.match(typed({ type: 'array' }, '[a]'), /Not JSON/);
});

test('defaults stand in the form', () => {
  assert.equal(only({ type: 'string', default: 'a' }).initial, 'a');
  assert.equal(only({ type: 'integer', default: 0 }).initial, '0');
  assert.equal(only({ type: 'boolean', default: false }).initial, '1');
  assert.equal(only({ enum: ['a', 'b'], default: 'b' }).initial, '1');
  assert.equal(only({ enum: ['a', 'b'], default: 'z' }).initial, '');
  assert.equal(only({ type: 'array', default: [1] }).initial, '[\n  1\n]');
  assert.equal(only({ type: ['string', 'null'], default: null }).initial, '');
});

test('a default that was left as it stands is the page\'s to apply, unless it must be given', () => {
  const schema = { type: 'integer', default: 10 };
  assert.deepEqual(typed(schema, '10'), {});
  assert.deepEqual(typed(schema, '11'), { x: 11 });
  assert.deepEqual(typed(schema, '10', ['x']), { x: 10 });
  assert.deepEqual(typed({ type: 'string', default: 'a' }, ''), {});
});

test('an argument may be called anything', () => {
  const names = ['__proto__', 'constructor', '', 'arguments'];
  const schema = JSON.parse(
    `{"type": "object", "properties": {${names.map((name) => `"${name}": {"type": "string"}`)}}}`,
  );
  const fields = fieldsOf(schema);
  const { args } = argsFrom(fields, ['a', 'b', 'c', 'd']);
  assert.deepEqual(Object.keys(args), names);
  assert.equal(Object.getPrototypeOf(args), Object.prototype);
});

test('a schema that is wrong in every place asks for what it can', () => {
  const wrong = {
    type: 7,
    properties: { a: null, b: 3, c: { enum: 'x', type: {}, anyOf: 'y', description: 5 } },
    required: 'a',
  };
  assert.deepEqual(
    fieldsOf(wrong).map(({ name, kind: is, help }) => [name, is, help]),
    [
      ['a', 'json', ''],
      ['b', 'json', ''],
      ['c', 'json', ''],
    ],
  );
  assert.deepEqual(fieldsOf({ properties: [1] }), []);
  assert.deepEqual(fieldsOf({ properties: { a: { allOf: {}, oneOf: [] } } }).length, 1);
});

test('all arguments can be written as one JSON text', () => {
  assert.deepEqual(argsFrom([wholeField()], ['{"title": "x", "n": [1]}']).args, { title: 'x', n: [1] });
  assert.deepEqual(argsFrom([wholeField()], ['']).args, {});
});
