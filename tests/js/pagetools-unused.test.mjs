import assert from 'node:assert/strict';
import { test } from 'node:test';

import { isUnused, onUse } from '../../pagetools_ipy/static/pagetools/unused.js';
import { fakePage, settle } from './fake-page.mjs';

/** An empty window as a browser makes it, whose documents have a context each, or none. */
function emptyWindow({ hasContext = true } = {}) {
  class Document {}
  class Navigator {}
  if (hasContext) {
    const get = function () {
      return (this.context ??= {});
    };
    Object.defineProperty(Document.prototype, 'modelContext', { get, configurable: true });
  }
  const { window, mutate } = fakePage({ href: 'about:blank', navigation: null });
  const documentOf = () => Object.assign(Object.create(Document.prototype), fakePage().document);
  Object.assign(window, { Document, Navigator, document: documentOf(), navigator: new Navigator() });
  const told = [];
  const next = (href = 'http://127.0.0.1:8000/next') => {
    window.document = documentOf();
    window.location = new URL(href);
  };
  return { window, mutate, next, told, tell: (name) => () => told.push(name) };
}
const names = ({ window }) =>
  [window.Document, window.Navigator].map(({ prototype }) =>
    Object.getOwnPropertyDescriptor(prototype, 'modelContext'),
  );

test('a window is unused while it has the empty document of whoever made it', () => {
  const { window } = fakePage({ href: 'about:blank', navigation: null });
  assert.equal(isUnused(window), true);
  assert.equal(isUnused({ ...window, origin: 'null' }), false, 'a person opened it');
  assert.equal(isUnused({ ...window, navigation: { currentEntry: {} } }), false, 'it is a page');
  assert.equal(isUnused({ ...window, location: new URL('http://a.example/') }), false);
});

test('whoever waits is told when the empty document is left', async () => {
  const empty = emptyWindow();
  onUse(empty.window, empty.tell('first'));
  onUse(empty.window, empty.tell('second'));
  empty.window.emit('pagehide', {});
  empty.next();
  await settle();
  empty.window.emit('load');
  assert.deepEqual(empty.told, ['first', 'second']);
});

test('where nobody tells of that, it is when a script looks for a model context, before it gets it', () => {
  for (const hasContext of [true, false]) {
    for (const place of ['document', 'navigator']) {
      const empty = emptyWindow({ hasContext });
      const { window } = empty;
      const before = names(empty);
      onUse(window, () => {
        assert.deepEqual(names(empty), before, 'all is as the browser made it');
        Object.defineProperty(window[place], 'modelContext', { value: 'made' });
      });
      empty.next();
      assert.equal(window[place].modelContext, 'made');
    }
  }
});

test('a page that asks for no model context is told of once it is loaded', () => {
  const empty = emptyWindow();
  onUse(empty.window, empty.tell('loaded'));
  empty.window.emit('load');
  assert.deepEqual(empty.told, []);
  empty.next();
  empty.window.emit('load');
  assert.deepEqual(empty.told, ['loaded']);
});

test('in the empty document itself nothing is different', () => {
  const empty = emptyWindow();
  const { document, navigator } = empty.window;
  onUse(empty.window, empty.tell('never'));
  assert.equal(navigator.modelContext, undefined);
  assert.equal(document.context, undefined, 'nobody has asked for it');
  assert.equal(document.modelContext, document.context);
  navigator.modelContext = 'mine';
  assert.equal(navigator.modelContext, 'mine');
  assert.deepEqual(empty.told, []);
});

test('what a page puts in the place of its model context stays', () => {
  const empty = emptyWindow();
  onUse(empty.window, empty.tell('told'));
  empty.next();
  empty.window.navigator.modelContext = 'mine';
  assert.deepEqual([empty.window.navigator.modelContext, empty.told], ['mine', ['told']]);
});
