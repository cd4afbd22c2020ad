import assert from 'node:assert/strict';
import { test } from 'node:test';

import { connectedPage, fakeBroadcast, FakeLocks, fakePage, FakeStorage, settle } from './fake-page.mjs';

const idOf = (page) => page.client.status().tabId;
const sentIds = (page) => page.sockets.map((socket) => socket.sent[0].tab.id);

async function started(options) {
  const page = fakePage(options);
  page.client.start();
  await settle();
  return page;
}

test("a reload keeps the tab's id and changes the document's", async () => {
  const browser = { storage: new FakeStorage(), locks: new FakeLocks() };
  const before = await started(browser);
  before.window.emit('pagehide', { persisted: false });
  await settle();
  const after = await started(browser);
  assert.equal(idOf(after), idOf(before));
  assert.notEqual(after.socket.sent[0].tab.docId, before.socket.sent[0].tab.docId);
});

test('a duplicated tab gets an id of its own, and keeps it over a reload', async () => {
  const locks = new FakeLocks();
  const original = await started({ storage: new FakeStorage(), locks });
  const storage = original.storage.copy();
  const duplicate = await started({ storage, locks });
  assert.notEqual(idOf(duplicate), idOf(original));
  duplicate.window.emit('pagehide', { persisted: false });
  await settle();
  assert.equal(idOf(await started({ storage, locks })), idOf(duplicate));
});

test('the id is settled before the first hello', async () => {
  const locks = new FakeLocks();
  const original = await started({ storage: new FakeStorage(), locks });
  const duplicate = await started({ storage: original.storage.copy(), locks });
  assert.deepEqual(sentIds(duplicate), [idOf(duplicate)]);
});

test("the lock is held for the document's life, and let go in the back/forward cache", async () => {
  const locks = new FakeLocks();
  const page = await started({ locks });
  const name = `pagetools.tab:${idOf(page)}`;
  await page.advance(100_000);
  assert.deepEqual([...locks.held], [name]);
  page.window.emit('pagehide', { persisted: true });
  await settle();
  assert.equal(locks.held.size, 0);
  page.window.emit('pageshow', { persisted: true });
  await settle();
  assert.deepEqual([...locks.held], [name]);
});

test('a cached page whose id was taken meanwhile comes back as another tab', async () => {
  const locks = new FakeLocks();
  const page = await started({ storage: new FakeStorage(), locks });
  page.window.emit('pagehide', { persisted: true });
  await settle();
  const other = await started({ storage: page.storage.copy(), locks });
  page.window.emit('pageshow', { persisted: true });
  await settle();
  assert.notEqual(idOf(page), idOf(other));
  assert.equal(page.socket.sent[0].tab.id, idOf(page));
});

test('without locks, a duplicate hears from the original that the id is taken', async () => {
  const broadcast = fakeBroadcast();
  const original = fakePage({ locks: null, broadcast, storage: new FakeStorage() });
  original.client.start();
  await original.advance(100);
  assert.equal(original.sockets.length, 0, 'it is still listening for another owner');
  await original.advance(60);
  assert.equal(original.sockets.length, 1);
  const duplicate = fakePage({ locks: null, broadcast, storage: original.storage.copy() });
  duplicate.client.start();
  await duplicate.advance(200);
  assert.notEqual(idOf(duplicate), idOf(original));
  assert.deepEqual(sentIds(duplicate), [idOf(duplicate)]);
});

test('without locks, two that ask at the same moment leave the decision to the bridge', async () => {
  const broadcast = fakeBroadcast();
  const storage = new FakeStorage();
  storage.setItem('pagetools.tab', 'restored');
  const pages = [storage, storage.copy()].map((each) => fakePage({ locks: null, broadcast, storage: each }));
  for (const page of pages) page.client.start();
  for (const page of pages) await page.advance(200);
  assert.deepEqual(pages.map(idOf), ['restored', 'restored']);
});

test('without locks, a reload keeps the id', async () => {
  const browser = { locks: null, broadcast: fakeBroadcast(), storage: new FakeStorage() };
  const before = fakePage(browser);
  before.client.start();
  await before.advance(200);
  before.window.emit('pagehide', { persisted: false });
  const after = fakePage(browser);
  after.client.start();
  await after.advance(200);
  assert.equal(idOf(after), idOf(before));
});

test('without storage, locks and channels the id lives in memory', async () => {
  const page = await started({ storage: null, locks: null });
  assert.equal(page.socket.sent[0].tab.id, idOf(page));
  page.socket.drop();
  await page.advance(200);
  assert.deepEqual(new Set(sentIds(page)), new Set([idOf(page)]));
});

test('locks that refuse to work are no reason to stay away', async () => {
  const request = async () => {
    throw new DOMException('opaque origin', 'SecurityError');
  };
  const page = await started({ locks: { request } });
  assert.equal(page.sockets.length, 1);
});

test("a frame shares its top document's id without claiming it", async () => {
  const browser = { storage: new FakeStorage(), locks: new FakeLocks() };
  const top = await started(browser);
  const frame = await started({ ...browser, frame: true });
  assert.equal(idOf(frame), idOf(top));
  assert.deepEqual(frame.socket.sent[0].frame, { top: false });
  assert.equal(browser.locks.held.size, 1);
  frame.window.emit('pagehide', { persisted: false });
  await settle();
  assert.equal(browser.locks.held.size, 1);
});

test('a frame that runs before its top document leaves it an id', async () => {
  const browser = { storage: new FakeStorage(), locks: new FakeLocks() };
  const frame = await started({ ...browser, frame: true });
  const top = await started(browser);
  assert.equal(idOf(top), idOf(frame));
});

test('a frame that starts together with its top document has the same fresh id', async () => {
  for (const order of [
    [true, false],
    [false, true],
  ]) {
    const browser = { storage: new FakeStorage(), locks: new FakeLocks() };
    const pages = order.map((frame) => fakePage({ ...browser, frame }));
    for (const page of pages) page.client.start();
    await settle();
    assert.equal(idOf(pages[0]), idOf(pages[1]));
  }
});

test('a frame of a duplicated tab moves along when its top document takes a new id', async () => {
  const locks = new FakeLocks();
  const original = await started({ storage: new FakeStorage(), locks });
  const storage = original.storage.copy();
  const frame = await started({ storage, locks, frame: true });
  assert.equal(idOf(frame), idOf(original));
  const duplicate = await started({ storage, locks });
  frame.window.emit('storage', { key: 'other', newValue: 'x' });
  frame.window.emit('storage', { key: 'pagetools.tab', newValue: storage.getItem('pagetools.tab') });
  await settle();
  assert.deepEqual(sentIds(frame), [idOf(original), idOf(duplicate)]);
  assert.equal(frame.sockets[0].closedWith.code, 1000);
});

test('a prerendered page takes its id and connects when it is shown', async () => {
  const page = await started({ prerendering: true });
  await page.advance(5000);
  assert.equal(page.sockets.length, 0);
  assert.equal(page.storage.items.size, 0);
  page.document.prerendering = false;
  page.document.emit('prerenderingchange');
  await settle();
  assert.equal(page.sockets.length, 1);
});

test("the id the bridge gives is the tab's from then on", async () => {
  const browser = { storage: new FakeStorage(), locks: new FakeLocks() };
  const page = await started(browser);
  page.welcome({ tabId: 'given' });
  await settle();
  assert.equal(idOf(page), 'given');
  assert.deepEqual([...browser.locks.held], ['pagetools.tab:given']);
  page.window.emit('pagehide', { persisted: false });
  await settle();
  const reloaded = await started(browser);
  assert.equal(reloaded.socket.sent[0].tab.id, 'given');
});

test("a frame does not write the id it is given over its top document's", async () => {
  const browser = { storage: new FakeStorage(), locks: new FakeLocks() };
  const top = await started(browser);
  const frame = await started({ ...browser, frame: true });
  frame.welcome({ tabId: 'given' });
  await settle();
  assert.equal(idOf(frame), 'given');
  assert.equal(browser.storage.getItem('pagetools.tab'), idOf(top));
});

test('a page that empties its storage keeps its id over a reload', async () => {
  const browser = { storage: new FakeStorage(), locks: new FakeLocks() };
  const page = await started(browser);
  browser.storage.items.clear();
  page.window.emit('pagehide', { persisted: false });
  await settle();
  assert.equal(idOf(await started(browser)), idOf(page));
});

test('a new title is told once, after the burst', async () => {
  const page = await connectedPage();
  for (const title of ['1', '2', '3']) page.retitle(title);
  assert.equal(page.socket.ofType('state').length, 0);
  await page.advance(60);
  assert.deepEqual(page.socket.ofType('state'), [
    {
      v: 1,
      type: 'state',
      seq: 1,
      url: 'http://127.0.0.1:8000/app',
      title: '3',
      visible: true,
      focused: true,
    },
  ]);
});

test('what changes back within the burst is not told', async () => {
  const page = await connectedPage();
  page.retitle('other');
  page.retitle('Todos');
  page.window.emit('blur');
  await page.advance(60);
  assert.equal(page.socket.ofType('state').length, 0);
});

test('focus is asked of the document, whatever the events say', async () => {
  const page = await connectedPage();
  page.window.emit('blur');
  await page.advance(60);
  assert.equal(page.socket.ofType('state').length, 0, 'a click into a frame blurs the page');
  page.focused = false;
  page.window.emit('blur');
  await page.advance(60);
  page.focused = true;
  page.window.emit('focus');
  await page.advance(60);
  assert.deepEqual(
    page.socket.ofType('state').map(({ seq, focused }) => [seq, focused]),
    [
      [1, false],
      [2, true],
    ],
  );
});

test('a tab that is hidden says so', async () => {
  const page = await connectedPage();
  page.document.visibilityState = 'hidden';
  page.document.emit('visibilitychange');
  await page.advance(60);
  assert.equal(page.socket.ofType('state')[0].visible, false);
});

test('a change of address is told through the Navigation API', async () => {
  const page = await connectedPage();
  page.window.history.pushState(null, '', 'http://127.0.0.1:8000/app/2');
  page.window.navigation.emit('currententrychange');
  await page.advance(60);
  assert.equal(page.socket.ofType('state')[0].url, 'http://127.0.0.1:8000/app/2');
});

test('without the Navigation API the history tells of changes, and still works', async () => {
  const page = await connectedPage({ navigation: null });
  for (const name of ['pushState', 'replaceState']) {
    page.window.history[name](null, '', `http://127.0.0.1:8000/${name}`);
    await page.advance(60);
    assert.equal(page.socket.ofType('state').at(-1).url, `http://127.0.0.1:8000/${name}`);
  }
  for (const type of ['popstate', 'hashchange']) {
    page.window.location.href = `http://127.0.0.1:8000/#${type}`;
    page.window.emit(type);
    await page.advance(60);
    assert.equal(page.socket.ofType('state').at(-1).url, `http://127.0.0.1:8000/#${type}`);
  }
});

test('on a new connection hello tells the state, and numbers go on', async () => {
  const page = await connectedPage();
  page.retitle('one');
  await page.advance(60);
  page.socket.drop();
  page.retitle('two');
  await page.advance(200);
  assert.equal(page.socket.sent[0].tab.title, 'two');
  assert.equal(page.socket.ofType('state').length, 0);
  page.retitle('three');
  await page.advance(60);
  assert.equal(page.socket.ofType('state')[0].seq, 2);
});

test('changes while there is no connection are not kept for later', async () => {
  const page = fakePage();
  page.bridge = 'down';
  page.client.start();
  await page.advance(100);
  page.retitle('unseen');
  await page.advance(5000);
  page.bridge = 'up';
  await page.advance(3100);
  assert.deepEqual(
    page.socket.sent.map(({ type }) => type),
    ['hello'],
  );
});
