import assert from 'node:assert/strict';
import { test } from 'node:test';

import { fakeBroadcast, FakeLocks, fakePage, FakeStorage, settle } from './fake-page.mjs';

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
  await page.advance(60);
  assert.deepEqual([...locks.held], [name]);
});

test('a page that comes back leaves the page before it a moment to let go of the id', async () => {
  const browser = { storage: new FakeStorage(), locks: new FakeLocks() };
  const first = await started(browser);
  const id = idOf(first);
  first.window.emit('pagehide', { persisted: true });
  await settle();
  const second = await started(browser);
  first.window.emit('pageshow', { persisted: true });
  await first.advance(30);
  second.window.emit('pagehide', { persisted: true });
  await first.advance(60);
  assert.deepEqual([idOf(first), idOf(second)], [id, id]);
  assert.equal(first.sockets.length, 2);
});

test('a cached page whose id was taken meanwhile comes back as another tab', async () => {
  const locks = new FakeLocks();
  const page = await started({ storage: new FakeStorage(), locks });
  page.window.emit('pagehide', { persisted: true });
  await settle();
  const other = await started({ storage: page.storage.copy(), locks });
  page.window.emit('pageshow', { persisted: true });
  await page.advance(60);
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

test('an id that the bridge gives later counts as well', async () => {
  const page = await started({ storage: new FakeStorage() });
  page.welcome({ tabId: 'first' });
  page.welcome({ clientId: 'c1', tabId: 'second' });
  await settle();
  assert.equal(idOf(page), 'second');
  assert.equal(page.storage.getItem('pagetools.tab'), 'second');
  assert.equal(page.sockets.length, 1);
});

test('an id given up while its lock is asked for is not held', async () => {
  const locks = new FakeLocks();
  const page = fakePage({ locks });
  page.client.start();
  page.window.emit('pagehide', { persisted: true });
  await settle();
  assert.equal(locks.held.size, 0);
  const storage = new FakeStorage();
  storage.setItem('pagetools.tab', 'taken');
  locks.held.add('pagetools.tab:taken');
  const duplicate = fakePage({ locks, storage });
  duplicate.client.start();
  duplicate.window.emit('pagehide', { persisted: true });
  await settle();
  assert.deepEqual([...locks.held], ['pagetools.tab:taken']);
});

test('a page that empties its storage keeps its id over a reload', async () => {
  const browser = { storage: new FakeStorage(), locks: new FakeLocks() };
  const page = await started(browser);
  browser.storage.items.clear();
  page.window.emit('pagehide', { persisted: false });
  await settle();
  assert.equal(idOf(await started(browser)), idOf(page));
});
