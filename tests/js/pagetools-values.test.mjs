import assert from 'node:assert/strict';
import { test } from 'node:test';

import { shortlyAfter } from '../../pagetools_ipy/static/pagetools/values.js';
import { answerOf, fakePage, settle } from './fake-page.mjs';

const valueOf = async (value) => {
  const answer = await answerOf(() => value);
  assert.equal(answer.ok, true, JSON.stringify(answer));
  return answer.value;
};
const refusalOf = async (value) => {
  const answer = await answerOf(() => value);
  assert.equal(answer.ok, false);
  return answer.error.message;
};
/** What browsers have and node has not: an object whose class gives it a tag. */
const tagged = (tag, fields) => Object.assign(Object.create({ [Symbol.toStringTag]: tag }), fields);
const thrownBy = async (thrown) =>
  (
    await answerOf(() => {
      throw thrown;
    })
  ).error;

test('JSON values arrive as they are', async () => {
  const value = { text: 'buy milk', n: 1.5, yes: true, none: null, list: [1, [2]], '': {} };
  assert.deepEqual(await valueOf(value), value);
});

test('undefined becomes a null that is present', async () => {
  const answer = await answerOf(() => undefined);
  assert.equal('value' in answer, true);
  assert.equal(answer.value, null);
});

test('NaN, Infinity and undefined parts follow the rules of JSON', async () => {
  assert.deepEqual(await valueOf([NaN, Infinity, undefined]), [null, null, null]);
  assert.deepEqual(await valueOf({ gone: undefined, kept: 1 }), { kept: 1 });
});

test('dates and objects with toJSON speak for themselves', async () => {
  assert.equal(await valueOf(new Date(0)), '1970-01-01T00:00:00.000Z');
  assert.deepEqual(await valueOf({ toJSON: () => ({ inside: new Set([1]) }) }), { inside: [1] });
});

test('a Map becomes pairs and a Set a list, however deep', async () => {
  assert.deepEqual(await valueOf({ deep: [new Map([['a', new Set([1, 2])]])] }), { deep: [[['a', [1, 2]]]] });
});

test('typed arrays and buffers become lists of numbers', async () => {
  const bytes = new Uint8Array([1, 2, 255]);
  assert.deepEqual(await valueOf([bytes, bytes.buffer, new Float64Array([0.5])]), [
    [1, 2, 255],
    [1, 2, 255],
    [0.5],
  ]);
});

test('an Error inside a result keeps name and message', async () => {
  assert.deepEqual(await valueOf([new TypeError('bad')]), [{ name: 'TypeError', message: 'bad' }]);
  assert.deepEqual(await valueOf(new DOMException('gone', 'NotFoundError')), {
    name: 'NotFoundError',
    message: 'gone',
  });
});

test('the fields of a class instance arrive', async () => {
  class Todo {
    title = 'milk';
    tags = new Set(['shop']);
  }
  assert.deepEqual(await valueOf(new Todo()), { title: 'milk', tags: ['shop'] });
});

test('a DOM element becomes its HTML, cut at 2,000 characters', async () => {
  const element = (outerHTML) => tagged('HTMLLIElement', { nodeType: 1, outerHTML });
  assert.deepEqual(await valueOf([element('<li>milk</li>')]), ['<li>milk</li>']);
  const long = await valueOf(element(`<p>${'x'.repeat(5000)}</p>`));
  assert.equal(long.length, 2000);
  assert.equal(long.at(-1), '…');
});

test("a DOM element may carry a framework's cycles", async () => {
  const element = tagged('HTMLLIElement', { nodeType: 1, outerHTML: '<li></li>' });
  element.__fiber = { element };
  assert.equal(await valueOf(element), '<li></li>');
});

test('a list of nodes becomes a list', async () => {
  const nodes = tagged('NodeList', { [Symbol.iterator]: () => ['a', 'b'].values() });
  assert.deepEqual(await valueOf(nodes), ['a', 'b']);
});

test('an object tagged like a built-in property is an ordinary object', async () => {
  assert.deepEqual(await valueOf(tagged('constructor', { a: 1 })), { a: 1 });
  assert.deepEqual(await valueOf({ nodeType: 3 }), { nodeType: 3 });
});

test('lone surrogates survive', async () => {
  assert.equal(await valueOf('\ud800'), '\ud800');
});

test('an image Blob becomes MCP image content', async () => {
  const blob = new Blob([new Uint8Array([137, 80, 78, 71])], { type: 'image/png' });
  assert.deepEqual(await valueOf(blob), {
    content: [{ type: 'image', data: 'iVBORw==', mimeType: 'image/png' }],
  });
});

test('a canvas becomes MCP image content', async () => {
  const canvas = tagged('HTMLCanvasElement', { nodeType: 1, toDataURL: () => 'data:image/png;base64,AAAA' });
  assert.deepEqual(await valueOf(canvas), {
    content: [{ type: 'image', data: 'AAAA', mimeType: 'image/png' }],
  });
});

test('an offscreen canvas becomes MCP image content', async () => {
  const blob = new Blob([new Uint8Array(3)], { type: 'image/png' });
  const canvas = tagged('OffscreenCanvas', { convertToBlob: async () => blob });
  assert.deepEqual(await valueOf(canvas), {
    content: [{ type: 'image', data: 'AAAA', mimeType: 'image/png' }],
  });
});

test('what has no honest JSON form is refused by name', async () => {
  const cyclic = { name: 'x' };
  cyclic.self = cyclic;
  const throwing = {
    get bad() {
      throw new Error('getter says no');
    },
  };
  const refusals = [
    [cyclic, /circular/i],
    [new Map([['self', cyclic]]), /circular/i],
    [10n, /BigInt/],
    [[1, { deep: 10n }], /BigInt/],
    [new BigInt64Array(1), /BigInt/],
    [throwing, /getter says no/],
    [
      {
        toJSON() {
          throw new Error('toJSON says no');
        },
      },
      /toJSON says no/,
    ],
    [{ toJSON() {} }, /no JSON form/],
    [Symbol('s'), /a symbol has no JSON form/],
    [() => 1, /a function has no JSON form/],
    [{ items: Promise.resolve([]) }, /await it first/],
    [new Blob(['a,b'], { type: 'text/csv' }), /text\(\)/],
    [{ file: new Blob(['x'], { type: 'image/png' }) }, /holds a Blob/],
    [
      tagged('HTMLCanvasElement', {
        toDataURL() {
          throw new Error('tainted canvas');
        },
      }),
      /tainted canvas/,
    ],
  ];
  for (const [value, expected] of refusals) {
    const message = await refusalOf(value);
    assert.match(message, /^result of app\/run is not serialisable: /);
    assert.match(message, expected);
  }
});

test('a Map that holds itself is refused, not followed for ever', async () => {
  const map = new Map();
  map.set('self', map);
  assert.match(await refusalOf(map), /not serialisable/);
});

test('a result nested too deeply to be written is refused', async () => {
  let deep = [];
  for (let depth = 0; depth < 100_000; depth += 1) deep = [deep];
  assert.match(await refusalOf(deep), /not serialisable: Maximum call stack/);
});

test('an Error arrives with name, message and stack', async () => {
  const error = await thrownBy(new RangeError('too many'));
  assert.equal(error.name, 'RangeError');
  assert.equal(error.message, 'too many');
  assert.match(error.stack, /pagetools-values\.test/);
  assert.equal('data' in error, false);
});

test("an error's data arrives as it is, code and cause beside it", async () => {
  const failed = (fields) => Object.assign(new Error('x'), fields);
  assert.deepEqual((await thrownBy(failed({ data: { id: 7 } }))).data, { id: 7 });
  assert.deepEqual((await thrownBy(failed({ data: [7] }))).data, [7]);
  assert.deepEqual((await thrownBy(failed({ code: 'E1', data: { id: 7 } }))).data, { code: 'E1', id: 7 });
  assert.deepEqual((await thrownBy(failed({ code: 'E1', data: [7] }))).data, { code: 'E1', data: [7] });
  const caused = new Error('x', { cause: new TypeError('y') });
  assert.deepEqual((await thrownBy(caused)).data, { cause: { name: 'TypeError', message: 'y' } });
  assert.equal('data' in (await thrownBy(failed({ data: 1n }))), false);
  assert.equal(
    'data' in (await thrownBy(new DOMException('x', 'NotFoundError'))),
    false,
    'its code is inherited',
  );
});

test('anything thrown is described', async () => {
  assert.deepEqual(await thrownBy('just text'), { name: 'Error', message: 'just text' });
  assert.deepEqual(await thrownBy(undefined), { name: 'Error', message: 'undefined' });
  assert.deepEqual(await thrownBy(null), { name: 'Error', message: 'null' });
  assert.deepEqual(await thrownBy(Symbol('s')), { name: 'Error', message: 'Symbol(s)' });
  assert.equal((await thrownBy({ status: 404 })).message, '{"status":404}');
  assert.equal((await thrownBy(new DOMException('gone', 'NotFoundError'))).name, 'NotFoundError');
});

test('a thrown value that cannot be read is still an answer', async () => {
  const hostile = new Proxy(
    {},
    {
      get() {
        throw new Error('no');
      },
    },
  );
  assert.match((await thrownBy(hostile)).message, /cannot be read/);
});

test('a result bigger than the bridge takes is refused in its place, with both sizes', async () => {
  const answer = await answerOf(() => 'ä'.repeat(700_000), { maxBytes: 2 ** 20 });
  assert.equal(answer.ok, false);
  assert.equal(answer.error.message, 'result too large: 1.4 MiB > 1 MiB');
});

test('size is counted in bytes, not in characters', async () => {
  const fits = await answerOf(() => 'x'.repeat(700_000), { maxBytes: 2 ** 20 });
  assert.equal(fits.ok, true);
});

test('an error bigger than the bridge takes is cut down to its size', async () => {
  const answer = await answerOf(
    () => {
      throw new Error('x'.repeat(2 ** 21));
    },
    { maxBytes: 2 ** 20 },
  );
  assert.match(answer.error.message, /^result too large: /);
});

test('a short wait in a hidden tab goes by messages, and in one that is seen by a timer', async () => {
  const { window, clock } = fakePage();
  const life = new AbortController();
  const ran = [];
  window.document.visibilityState = 'hidden';
  window.performance.now = () => (clock.now += 1);
  shortlyAfter(window, 10, life.signal, () => ran.push('hidden'));
  await settle();
  assert.deepEqual([ran, clock.timers.size], [['hidden'], 0]);
  window.document.visibilityState = 'visible';
  shortlyAfter(window, 10, life.signal, () => ran.push('seen'));
  await clock.advance(10);
  assert.deepEqual(ran, ['hidden', 'seen']);
  window.document.visibilityState = 'hidden';
  shortlyAfter(window, 10, life.signal, () => ran.push('too late'));
  life.abort();
  await settle();
  assert.deepEqual(ran, ['hidden', 'seen']);
});
