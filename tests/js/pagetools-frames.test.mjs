import assert from 'node:assert/strict';
import { test } from 'node:test';

import { fakeBroadcast, FakeLocks, fakePage, FakeStorage, settle } from './fake-page.mjs';

const idOf = (page) => page.client.status().tabId;
/** The id of each hello, whether on a new connection or on the present one. */
const sentIds = (page) =>
  page.sockets.flatMap(({ sent }) => sent.filter(({ type }) => type === 'hello').map(({ tab }) => tab.id));
/** What the documents of one origin share; storage and locks of another origin are others. */
const origin = () => ({ storage: new FakeStorage(), locks: new FakeLocks() });
/** The same origin in a duplicated tab. */
const duplicated = ({ storage, locks }) => ({ storage: storage.copy(), locks });
/** A sandbox: no storage, and locks that throw. */
const sandbox = () => {
  const request = async () => {
    throw new DOMException('opaque origin', 'SecurityError');
  };
  return { storage: null, locks: { request } };
};

async function started(options) {
  const page = fakePage(options);
  page.client.start();
  await settle();
  return page;
}

for (const [where, frameOrigin] of [
  ['its own origin', (own) => own],
  ['another origin', origin],
  ['a sandbox', sandbox],
]) {
  test(`a frame of ${where} goes by the id of its top document`, async () => {
    const own = origin();
    const top = await started(own);
    const frame = await started({ ...frameOrigin(own), parent: top });
    assert.deepEqual(sentIds(frame), [idOf(top)]);
    assert.deepEqual(frame.socket.sent[0].frame, { top: false });
    assert.equal(own.storage.getItem('pagetools.tab'), idOf(top));
    frame.window.emit('pagehide', { persisted: false });
    await settle();
    assert.deepEqual([...own.locks.held], [`pagetools.tab:${idOf(top)}`]);
  });

  test(`a frame of ${where} follows a top document that starts later`, async () => {
    const own = origin();
    const top = fakePage(own);
    const frame = await started({ ...frameOrigin(own), parent: top });
    await frame.advance(550);
    const alone = idOf(frame);
    top.client.start();
    await settle();
    assert.notEqual(alone, idOf(top));
    assert.deepEqual(sentIds(frame), [alone, idOf(top)]);
    assert.equal(frame.sockets.length, 1);
    assert.equal(own.locks.held.has(`pagetools.frame:${alone}`), false);
  });
}

test('a frame within a frame belongs to the tab as well', async () => {
  const top = await started(origin());
  const middle = fakePage({ ...origin(), parent: top });
  const inner = await started({ ...origin(), parent: middle });
  assert.deepEqual(sentIds(inner), [idOf(top)]);
});

test('a frame that starts together with its top document has its id, whoever is first', async () => {
  for (const names of [
    ['top', 'frame'],
    ['frame', 'top'],
  ]) {
    const own = origin();
    const top = fakePage(own);
    const pages = { top, frame: fakePage({ ...own, parent: top }) };
    for (const name of names) pages[name].client.start();
    await settle();
    assert.deepEqual(sentIds(pages.frame), [idOf(top)]);
  }
});

test('a frame waits for a top document that has no locks to settle its id', async () => {
  const shared = { locks: null, broadcast: fakeBroadcast() };
  const top = fakePage({ ...shared, storage: new FakeStorage() });
  const frame = fakePage({ ...shared, storage: new FakeStorage(), parent: top });
  frame.client.start();
  top.client.start();
  await top.advance(300);
  assert.deepEqual(sentIds(frame), [idOf(top)]);
  frame.welcome({ tabId: 'given' });
  await settle();
  assert.equal(sentIds(top).length, 1);
  assert.equal(frame.storage.getItem('pagetools.frame'), idOf(top), 'the frame does not own the id');
});

test('a top document never follows a frame, nor while it has no id yet', async () => {
  const shared = { locks: null, broadcast: fakeBroadcast() };
  const top = fakePage({ ...shared, storage: new FakeStorage() });
  const frame = fakePage({ ...shared, parent: top });
  top.client.start();
  await top.advance(50);
  frame.window.top.postMessage({ 'pagetools.tab': { id: 'rogue' } });
  await top.advance(300);
  assert.deepEqual(sentIds(top), [idOf(top)]);
  assert.notEqual(idOf(top), 'rogue');
});

test('frames move along when the bridge gives their top document another id', async () => {
  const top = await started(origin());
  const before = idOf(top);
  const frames = [await started({ ...origin(), parent: top }), await started({ ...sandbox(), parent: top })];
  top.welcome({ tabId: 'given' });
  await settle();
  for (const frame of frames) assert.deepEqual(sentIds(frame), [before, 'given']);
});

test('frames move along when their top document comes back as another tab', async () => {
  const own = origin();
  const top = await started(own);
  const frame = await started({ ...origin(), parent: top });
  top.document.emit('freeze');
  await settle();
  await started(duplicated(own));
  top.document.emit('resume');
  await top.advance(60);
  assert.equal(sentIds(frame).at(-1), idOf(top));
  assert.equal(new Set(sentIds(frame)).size, 2);
});

test('a frame of a duplicated tab never speaks for the original', async () => {
  const own = origin();
  const original = await started(own);
  const copy = duplicated(own);
  const top = fakePage(copy);
  const frame = await started({ ...copy, parent: top });
  top.client.start();
  await settle();
  assert.notEqual(idOf(top), idOf(original));
  assert.deepEqual(sentIds(frame), [idOf(top)]);
});

test('windows of other tabs are neither asked, answered nor believed', async () => {
  const top = await started(origin());
  const frame = await started({ ...origin(), parent: top });
  const stranger = { top: {}, posted: [], postMessage: (data) => stranger.posted.push(data) };
  for (const said of [{ wanted: true }, { id: 'strange' }]) {
    for (const page of [top, frame]) {
      page.window.emit('message', { data: { 'pagetools.tab': said }, source: stranger });
      page.window.emit('message', { data: { 'pagetools.tab': said }, source: null });
    }
  }
  await settle();
  assert.deepEqual([stranger.posted, idOf(frame)], [[], idOf(top)]);
});

test("messages that are the page's own are ignored", async () => {
  const top = await started(origin());
  const frame = await started({ ...origin(), parent: top });
  const { top: source } = frame.window;
  const messages = [null, 'pagetools.tab', 5, [], {}, { id: 'x' }, { 'pagetools.tab': null }];
  for (const said of ['x', {}, { id: '' }, { id: 5 }, { id: { length: 1 } }]) {
    messages.push({ 'pagetools.tab': said });
  }
  for (const data of messages) frame.window.emit('message', { data, source });
  await settle();
  assert.deepEqual(sentIds(frame), [idOf(top)]);
});

test('a frame cannot give the windows of its tab another id', async () => {
  const top = await started(origin());
  const pages = [top, await started({ ...origin(), parent: top })];
  const rogue = fakePage({ parent: top });
  for (const target of [rogue.window.top, rogue.window.top[0]]) {
    target.postMessage({ 'pagetools.tab': { id: 'rogue' } });
  }
  await settle();
  assert.deepEqual(
    pages.map((page) => page.sockets.length),
    [1, 1],
  );
});

test('only the id is told, and only by who owns it', async () => {
  const top = await started(origin());
  const follower = await started({ ...origin(), parent: top });
  const asking = fakePage({ parent: top });
  const heard = [];
  asking.window.addEventListener('message', ({ data }) => heard.push(data));
  for (const target of [asking.window.top, asking.window.top[0]]) {
    target.postMessage({ 'pagetools.tab': { wanted: true } });
  }
  await settle();
  assert.deepEqual(heard, [{ 'pagetools.tab': { id: idOf(top) } }]);
  assert.equal(idOf(follower), idOf(top));
});

test('a frame whose top document has no client claims an id under a key of its own', async () => {
  const own = origin();
  const frame = await started({ ...own, parent: fakePage(own) });
  await frame.advance(90);
  assert.equal(frame.sockets.length, 0, 'it still waits for an answer');
  await frame.advance(20);
  assert.deepEqual(sentIds(frame), [idOf(frame)]);
  assert.deepEqual([...own.storage.items], [['pagetools.frame', idOf(frame)]]);
  assert.deepEqual([...own.locks.held], [`pagetools.frame:${idOf(frame)}`]);
});

/** The frames, started one after the other, of a tab whose top document has no client. */
async function framesOf(frameOrigins, { pause = 0, isReversed = false } = {}) {
  const top = fakePage(origin());
  const frames = frameOrigins.map((own) => fakePage({ ...own, parent: top }));
  for (const frame of isReversed ? frames.toReversed() : frames) {
    frame.client.start();
    if (pause) await top.advance(pause);
  }
  await top.advance(500);
  return frames;
}

test('frames whose top document has no client keep their id over reloads, whoever is first', async () => {
  const shared = origin();
  for (const origins of [
    [sandbox(), origin(), origin()],
    [shared, shared, shared],
  ]) {
    const ids = new Set();
    for (const order of [{}, { isReversed: true }, { pause: 50 }, { pause: 50, isReversed: true }]) {
      const frames = await framesOf(origins, order);
      for (const frame of frames) {
        ids.add(idOf(frame));
        frame.window.emit('pagehide', { persisted: false });
      }
      await settle();
    }
    assert.equal(ids.size, 1);
  }
});

test('a frame that finds its id taken asks once more, as another frame may just have got it', async () => {
  const own = origin();
  own.storage.setItem('pagetools.frame', 'kept');
  own.locks.held.add('pagetools.frame:kept');
  const top = fakePage(origin());
  const quicker = fakePage({ ...own, parent: top });
  let times = 0;
  quicker.window.addEventListener('message', ({ data, source }) => {
    if (data['pagetools.tab'].wanted) times += 1;
    if (times === 2) source.postMessage({ 'pagetools.tab': { id: 'kept' } });
  });
  const frame = await started({ ...own, parent: top });
  await frame.advance(300);
  assert.deepEqual(sentIds(frame), ['kept']);
});

test('frames of a duplicated tab keep off its id even where only a follower knows it', async () => {
  const origins = [origin(), origin()];
  const [owner] = await framesOf(origins);
  const [copy] = await framesOf([duplicated(origins[1])]);
  assert.notEqual(idOf(copy), idOf(owner));
});

test('a frame put aside while it asks begins anew when it is back', async () => {
  const own = origin();
  const frame = await started({ ...own, parent: fakePage(origin()) });
  frame.window.emit('pagehide', { persisted: true });
  await frame.advance(1000);
  assert.deepEqual([own.locks.held.size, own.storage.items.size], [0, 0]);
  frame.window.emit('pageshow', { persisted: true });
  await frame.advance(200);
  assert.deepEqual(sentIds(frame), [idOf(frame)]);
  assert.deepEqual([...own.locks.held], [`pagetools.frame:${idOf(frame)}`]);
});

for (const [whose, originOf] of [
  ['one origin', (shared) => shared],
  ['several origins', origin],
]) {
  test(`frames of ${whose} whose top document has no client are one tab`, async () => {
    const shared = origin();
    const top = fakePage(origin());
    const frames = [0, 1, 2].map(() => fakePage({ ...originOf(shared), parent: top }));
    for (const frame of frames.toReversed()) frame.client.start();
    await top.advance(500);
    assert.deepEqual(new Set(frames.map(idOf)), new Set([idOf(frames[0])]));
    for (const frame of frames) assert.equal(sentIds(frame).at(-1), idOf(frame));
    const late = await started({ ...originOf(shared), parent: top });
    assert.deepEqual(sentIds(late), [idOf(frames[0])]);
  });

  test(`frames of ${whose} in a duplicated tab take one id of their own`, async () => {
    const origins = originOf === origin ? [origin(), origin()] : Array(2).fill(origin());
    const [first, second] = (await framesOf(origins)).map(idOf);
    const copies = new Map(origins.map((own) => [own, duplicated(own)]));
    const [third, fourth] = (await framesOf(origins.map((own) => copies.get(own)))).map(idOf);
    assert.deepEqual([second, fourth], [first, third]);
    assert.notEqual(third, first);
  });
}

test('a frame follows the id that the bridge gave another frame', async () => {
  const top = fakePage(origin());
  const owner = await started({ ...origin(), parent: top });
  await owner.advance(150);
  const follower = await started({ ...origin(), parent: top });
  owner.welcome({ tabId: 'given' });
  await settle();
  assert.equal(sentIds(follower).at(-1), 'given');
  assert.equal(owner.storage.getItem('pagetools.frame'), 'given');
});

test("an id that the bridge gives a frame is not its top document's", async () => {
  const own = origin();
  const top = await started(own);
  const frame = await started({ ...own, parent: top });
  frame.welcome({ tabId: 'given' });
  await settle();
  assert.equal(idOf(frame), 'given');
  assert.equal(own.storage.getItem('pagetools.tab'), idOf(top));
});

test('a frame that is superseded stays in its tab', async () => {
  const top = await started(origin());
  const frame = await started({ ...origin(), parent: top });
  frame.welcome();
  frame.socket.drop(4409);
  await settle();
  assert.deepEqual(sentIds(frame), [idOf(top), idOf(top)]);
});

test('a frame that hears what it knows stays connected', async () => {
  const top = await started(origin());
  const frame = await started({ ...origin(), parent: top });
  top.document.emit('freeze');
  top.document.emit('resume');
  await settle();
  assert.deepEqual([top.sockets.length, frame.sockets.length], [2, 1]);
});

test('a frame comes back from the cache into the tab it was in', async () => {
  const top = await started(origin());
  const own = origin();
  const frame = await started({ ...own, parent: top });
  for (const page of [frame, top]) page.window.emit('pagehide', { persisted: true });
  await settle();
  for (const page of [frame, top]) page.window.emit('pageshow', { persisted: true });
  await top.advance(60);
  assert.deepEqual(sentIds(frame), [idOf(top), idOf(top)]);
  assert.deepEqual(sentIds(top), [idOf(top), idOf(top)]);
  assert.deepEqual([...own.locks.held], [`pagetools.frame:${idOf(top)}`]);
});

test('a variable of the page called length hides its frames and breaks nothing', async () => {
  const top = fakePage(origin());
  Object.defineProperty(top.window, 'length', { value: 3 });
  top.client.start();
  await settle();
  const frame = await started({ ...origin(), parent: top });
  assert.deepEqual(sentIds(frame), [idOf(top)]);
});
