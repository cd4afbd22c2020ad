import assert from 'node:assert/strict';
import { test } from 'node:test';

import { connectedPage, fakePage, settle, tool } from './fake-page.mjs';

const states = (page) => page.socket.ofType('state');
const titles = (page) => states(page).map(({ title }) => title);

test('a new title is told once, without waiting for a timer', async () => {
  const page = await connectedPage();
  for (const title of ['1', '2', '3']) page.retitle(title);
  assert.equal(states(page).length, 0);
  await settle();
  assert.deepEqual(states(page), [
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

test('what changes back at once is not told', async () => {
  const page = await connectedPage();
  page.retitle('other');
  page.retitle('Todos');
  page.window.emit('blur');
  await page.advance(60);
  assert.equal(states(page).length, 0);
});

test('focus is asked of the document, whatever the events say', async () => {
  const page = await connectedPage();
  page.window.emit('blur');
  await page.advance(60);
  assert.equal(states(page).length, 0, 'a click into a frame blurs the page');
  page.focused = false;
  page.window.emit('blur');
  await page.advance(60);
  page.focused = true;
  page.window.emit('focus');
  await page.advance(60);
  assert.deepEqual(
    states(page).map(({ seq, focused }) => [seq, focused]),
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
  assert.equal(states(page)[0].visible, false);
});

test('a change of address is told through the Navigation API', async () => {
  const page = await connectedPage();
  page.window.history.pushState(null, '', 'http://127.0.0.1:8000/app/2');
  page.window.navigation.emit('currententrychange');
  await page.advance(60);
  assert.equal(states(page)[0].url, 'http://127.0.0.1:8000/app/2');
});

test('without the Navigation API the history tells of changes, and still works', async () => {
  const page = await connectedPage({ navigation: null });
  for (const name of ['pushState', 'replaceState']) {
    page.window.history[name](null, '', `http://127.0.0.1:8000/${name}`);
    await page.advance(60);
    assert.equal(states(page).at(-1).url, `http://127.0.0.1:8000/${name}`);
  }
  for (const type of ['popstate', 'hashchange']) {
    page.window.location.href = `http://127.0.0.1:8000/#${type}`;
    page.window.emit(type);
    await page.advance(60);
    assert.equal(states(page).at(-1).url, `http://127.0.0.1:8000/#${type}`);
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
  assert.equal(states(page).length, 0);
  page.retitle('three');
  await page.advance(60);
  assert.equal(states(page)[0].seq, 2);
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

test('focus that has changed only after the event is told as well', async () => {
  const page = await connectedPage();
  page.window.emit('blur');
  await settle();
  page.focused = false;
  await page.advance(60);
  assert.deepEqual(
    states(page).map(({ focused }) => focused),
    [false],
  );
});

test('a page that animates its title does not flood the bridge, and its last title arrives', async () => {
  const page = await connectedPage();
  for (let frame = 1; frame <= 400; frame += 1) {
    page.retitle(`frame ${frame}`);
    await page.advance(10);
  }
  await page.advance(1000);
  const count = states(page).length;
  assert.ok(count >= 20 && count <= 8 + 5 * 4, `${count} in five seconds`);
  assert.equal(titles(page).at(-1), 'frame 400');
});

test('after a pause the next change is told at once again', async () => {
  const page = await connectedPage();
  for (let time = 0; time < 20; time += 1) {
    page.retitle(`burst ${time}`);
    await settle();
  }
  assert.equal(titles(page).at(-1), 'burst 7');
  await page.advance(2000);
  assert.equal(titles(page).at(-1), 'burst 19');
  page.retitle('later');
  await settle();
  assert.equal(titles(page).at(-1), 'later');
});

test('what a tool changes in the page is told before its answer', async () => {
  const page = await connectedPage();
  const open = () => {
    page.window.location.href = 'http://127.0.0.1:8000/app/7';
    page.document.title = 'Seven';
  };
  page.client.register('app', [tool('open', open)]);
  await settle();
  page.socket.receive({ type: 'call', callId: 'k1', ns: 'app', name: 'open' });
  await settle();
  assert.deepEqual(
    page.socket.sent.slice(-2).map(({ type, url, title }) => [type, url, title]),
    [
      ['state', 'http://127.0.0.1:8000/app/7', 'Seven'],
      ['result', undefined, undefined],
    ],
  );
});

test('a ping is answered with what no event told of, if there is any', async () => {
  const page = await connectedPage();
  page.document.title = 'unseen';
  page.socket.receive({ type: 'ping', n: 1 });
  page.socket.receive({ type: 'ping', n: 2 });
  assert.deepEqual(
    page.socket.sent.slice(1).map(({ type, n, title }) => n ?? [type, title]),
    [['state', 'unseen'], 1, 2],
  );
});

test('answers tell of the page even when it has used up its rate', async () => {
  const page = await connectedPage();
  for (let n = 0; n < 20; n += 1) {
    page.document.title = `title ${n}`;
    page.socket.receive({ type: 'ping', n });
  }
  assert.equal(titles(page).at(-1), 'title 19');
});

test('a title is seen in a head that took the place of another', async () => {
  const page = await connectedPage();
  page.document.head = {};
  page.mutate(page.document.documentElement, 'childList');
  await settle();
  page.retitle('in the new head');
  await settle();
  assert.equal(titles(page).at(-1), 'in the new head');
});

test('a title is seen in a document that was written anew', async () => {
  const page = await connectedPage();
  page.document.documentElement = null;
  page.document.head = null;
  page.mutate(page.document, 'childList');
  page.document.documentElement = {};
  page.mutate(page.document, 'childList');
  page.document.head = {};
  page.mutate(page.document.documentElement, 'childList');
  await settle();
  page.retitle('rewritten');
  await settle();
  assert.equal(titles(page).at(-1), 'rewritten');
});

test('a title is seen in a document without a head', async () => {
  const page = fakePage();
  page.document.head = null;
  page.client.start();
  await settle();
  page.retitle('drawing');
  await settle();
  assert.deepEqual(titles(page), ['drawing']);
});

test('where the Navigation API has no entries the history tells of changes', async () => {
  const page = fakePage();
  page.window.navigation.currentEntry = null;
  page.client.start();
  await settle();
  page.window.history.pushState(null, '', 'http://127.0.0.1:8000/#in-a-sandbox');
  await settle();
  assert.equal(states(page)[0].url, 'http://127.0.0.1:8000/#in-a-sandbox');
});

test('hello tells how long ago somebody looked at the page', async () => {
  const page = await connectedPage();
  assert.equal(page.socket.sent[0].tab.lastFocusedAgo, 0);
  await page.advance(3000);
  page.focused = false;
  page.window.emit('blur');
  await page.advance(4000.4);
  page.socket.drop();
  await page.advance(100);
  assert.equal(page.socket.sent[0].tab.lastFocusedAgo, 4100);
});

test('nobody looked at a page that never had the focus', async () => {
  const page = fakePage();
  page.focused = false;
  page.client.start();
  await page.advance(5000);
  assert.equal('lastFocusedAgo' in page.socket.sent[0].tab, false);
});

test('the focus is followed without a connection, too', async () => {
  const page = fakePage();
  page.bridge = 'down';
  page.focused = false;
  page.client.start();
  await page.advance(1000);
  page.focused = true;
  page.window.emit('focus');
  await page.advance(1000);
  page.window.emit('blur');
  await page.advance(20);
  page.focused = false;
  await page.advance(60_030);
  page.bridge = 'up';
  await page.advance(2950);
  assert.equal(page.sockets.length > 0, true);
  const { lastFocusedAgo } = page.socket.sent[0].tab;
  assert.ok(lastFocusedAgo > 60_000 && lastFocusedAgo < 63_000, String(lastFocusedAgo));
});
