import assert from 'node:assert/strict';
import { test } from 'node:test';

import { connectedPage, FakeLocks, fakePage, FakeStorage, settle, tool } from './fake-page.mjs';

/** A started page that meets a bridge in this condition. */
async function startedPage(bridge, options = {}) {
  const page = fakePage(options);
  page.bridge = bridge;
  page.client.start();
  await settle();
  return page;
}
const state = (page) => page.client.status().state;

test('hello is the first message, and says which tab, document and frame it comes from', async () => {
  const page = await connectedPage();
  const { tab, ...hello } = page.socket.sent[0];
  const { id, docId, ...about } = tab;
  assert.deepEqual(hello, {
    v: 1,
    type: 'hello',
    frame: { top: true },
    client: { name: 'pagetools.js', version: '0.1.0', webmcp: 'own' },
  });
  const seen = { visible: true, focused: true, lastFocusedAgo: 0 };
  assert.deepEqual(about, { url: 'http://127.0.0.1:8000/app', title: 'Todos', ...seen });
  assert.match(id, /^[0-9a-f]{32}$/);
  assert.match(docId, /^[0-9a-f]{32}$/);
  assert.notEqual(id, docId);
});

test('the bridge is where the script comes from', async () => {
  const urlFor = async (script) => {
    const page = fakePage({ script });
    page.client.start();
    await settle();
    return page.socket.url;
  };
  assert.equal(await urlFor('http://127.0.0.1:9333/pagetools.js?v=2'), 'ws://127.0.0.1:9333/tools');
  assert.equal(await urlFor('http://localhost:9333/pagetools.js'), 'ws://localhost:9333/tools');
  assert.equal(
    await urlFor('https://hub.example/user/ann/proxy/9333/pagetools.js'),
    'wss://hub.example/user/ann/proxy/9333/tools',
  );
});

test('a script without a web address waits for connect to name the port', async () => {
  const page = fakePage({ script: 'blob:http://127.0.0.1:8000/6a' });
  page.client.start();
  await settle();
  assert.deepEqual([state(page), page.client.status().url], ['closed', null]);
  assert.match(page.warnings()[0], /pagetools\.connect\(\{port\}\)/);
  page.client.connect({ port: 9340 });
  await settle();
  assert.equal(page.socket.url, 'ws://127.0.0.1:9340/tools');
});

test('the state is open once the bridge has welcomed the page', async () => {
  const page = await startedPage('up');
  assert.equal(state(page), 'connecting');
  page.welcome({ clientId: 'c7', reason: 'duplicate', tabId: 'f'.repeat(32) });
  assert.deepEqual(page.client.status(), {
    state: 'open',
    url: 'ws://127.0.0.1:9333/tools',
    clientId: 'c7',
    tabId: 'f'.repeat(32),
    reason: 'duplicate',
    namespaces: [],
  });
});

test('the token travels as a subprotocol and never in the address', async () => {
  const page = await connectedPage();
  assert.deepEqual(page.socket.protocols, ['pagetools.v1']);
  page.client.connect({ token: 'abc_-123' });
  await settle();
  assert.deepEqual(page.socket.protocols, ['pagetools.v1', 'pagetools.token.abc_-123']);
  assert.ok(!page.socket.url.includes('abc'));
  page.socket.drop();
  await page.advance(200);
  assert.deepEqual(page.socket.protocols, ['pagetools.v1', 'pagetools.token.abc_-123']);
});

test('a token is not shown to another port', async () => {
  const page = await connectedPage();
  page.client.connect({ token: 'abc' });
  await settle();
  page.client.connect({ port: 9400 });
  await settle();
  assert.deepEqual(page.socket.protocols, ['pagetools.v1']);
});

test('connect with nothing new leaves an open connection alone', async () => {
  const page = await connectedPage();
  page.client.connect();
  page.client.connect({ port: 9333 });
  await settle();
  assert.equal(page.sockets.length, 1);
  assert.equal(state(page), 'open');
});

test('connect to another port closes the old socket and dials at once', async () => {
  const page = await connectedPage();
  page.client.register('todo', [tool('add')]);
  page.client.connect({ port: 9340 });
  await settle();
  assert.equal(page.sockets[0].closedWith.code, 1000);
  assert.equal(page.socket.url, 'ws://127.0.0.1:9340/tools');
  assert.deepEqual(
    page.socket.sent.map(({ type }) => type),
    ['hello', 'register'],
  );
  assert.equal(page.probes.length, 0);
});

test('connect refuses what is neither port nor token', () => {
  const { client } = fakePage();
  for (const port of [0, -1, 70000, 'x', NaN]) assert.throws(() => client.connect({ port }), TypeError);
  assert.throws(() => client.connect({ token: 'two words' }), TypeError);
});

test('disconnect closes and stays closed until connect', async () => {
  const page = await connectedPage();
  page.client.disconnect();
  assert.equal(page.socket.closedWith.code, 1000);
  page.window.emit('focus');
  await page.advance(60_000);
  assert.deepEqual([state(page), page.sockets.length, page.probes.length], ['closed', 1, 0]);
  page.client.connect();
  await settle();
  assert.equal(page.sockets.length, 2);
});

test('after a loss the bridge is probed before a socket is opened', async () => {
  const page = await connectedPage();
  page.bridge = 'down';
  page.socket.drop();
  await page.advance(5000);
  assert.equal(page.sockets.length, 1);
  assert.ok(page.probes.length > 5);
  const { url, init } = page.probes[0];
  assert.equal(url, 'http://127.0.0.1:9333/health');
  assert.deepEqual(init, { mode: 'no-cors', cache: 'no-store' });
});

test('a bridge that comes back within minutes is met in under a second', async () => {
  for (const away of [2000, 20_000, 14 * 60_000]) {
    const page = await connectedPage();
    await page.advance(10_000);
    page.bridge = 'down';
    page.socket.drop();
    await page.advance(away);
    page.bridge = 'up';
    const { length } = page.sockets;
    await page.advance(800);
    assert.equal(page.sockets.length, length + 1, `away ${away} ms`);
    assert.equal(page.socket.sent[0].type, 'hello');
  }
});

test('a restart that takes no time is met in a tenth of a second', async () => {
  const page = await connectedPage();
  page.socket.drop(1001);
  await page.advance(150);
  assert.equal(page.sockets.length, 2);
});

test('after a quarter of an hour, and where there never was a bridge, the pauses grow to three seconds', async () => {
  const pausesOf = async (page) => {
    const { length } = page.probes;
    await page.advance(30_000);
    return page.probes.length - length;
  };
  const lost = await connectedPage();
  lost.bridge = 'down';
  lost.socket.drop();
  await lost.advance(16 * 60_000);
  assert.ok((await pausesOf(lost)) <= 11);
  const never = await startedPage('down');
  await never.advance(10_000);
  assert.ok((await pausesOf(never)) <= 11);
});

test('now and then a socket is opened without a probe, in case the page holds probes back', async () => {
  const page = await connectedPage();
  page.probesFail = true;
  page.socket.drop();
  await page.advance(20_000);
  assert.equal(page.socket.ofType('hello').length, 1);
  assert.equal(page.sockets.length, 2);
});

test('where probes are known to work, no socket is opened without one', async () => {
  const page = await connectedPage();
  page.socket.drop();
  await page.advance(200);
  const { length } = page.sockets;
  page.bridge = 'down';
  page.socket.drop();
  await page.advance(60_000);
  assert.equal(page.sockets.length, length);
});

test('sockets that fail stay few while the bridge is away', async () => {
  const page = await connectedPage();
  page.bridge = 'down';
  page.socket.drop();
  await page.advance(60_000);
  assert.ok(page.sockets.length <= 6);
});

test('a connection that keeps ending early is dialled with growing pauses', async () => {
  const page = await connectedPage();
  for (let time = 0; time < 6; time += 1) {
    page.socket.drop(1011);
    await page.advance(700);
    page.welcome();
  }
  const { length } = page.sockets;
  page.socket.drop(1011);
  await page.advance(600);
  assert.equal(page.sockets.length, length);
});

test('whoever looks at a waiting page gets an attempt at once', async () => {
  const page = await startedPage('down');
  await page.advance(60_000);
  page.bridge = 'up';
  page.document.visibilityState = 'hidden';
  page.document.emit('visibilitychange');
  await settle();
  assert.equal(state(page), 'waiting');
  page.document.visibilityState = 'visible';
  page.document.emit('visibilitychange');
  await settle();
  assert.equal(state(page), 'connecting');
});

test('being offline does not keep the page from a bridge on the same machine', async () => {
  const page = fakePage();
  page.window.navigator.onLine = false;
  page.client.start();
  await settle();
  assert.equal(page.sockets.length, 1);
});

test('a wrong token and a refused origin are final', async () => {
  for (const code of [4401, 4403]) {
    const page = await connectedPage();
    page.socket.drop(code, 'the very reason');
    page.window.emit('focus');
    await page.advance(60_000);
    assert.deepEqual([state(page), page.sockets.length, page.probes.length], ['closed', 1, 0]);
    assert.match(page.client.status().reason, /the very reason/);
    assert.deepEqual(page.warnings(), [
      `pagetools: the bridge closed the connection: the very reason (${code})`,
    ]);
    page.client.connect();
    await settle();
    assert.equal(page.sockets.length, 2);
  }
});

/** Another document has taken the place of this one. */
async function supersede(page) {
  page.socket.drop(4409, 'superseded');
  await settle();
  page.welcome();
}

test('a page that another document took the place of comes back under an id of its own', async () => {
  const page = await connectedPage({ locks: new FakeLocks(), storage: new FakeStorage() });
  const { tabId } = page.client.status();
  await supersede(page);
  const { tab } = page.socket.sent[0];
  assert.notEqual(tab.id, tabId);
  assert.equal(page.sockets.length, 2);
  assert.equal(page.storage.getItem('pagetools.tab'), tab.id);
  assert.deepEqual([...page.window.navigator.locks.held], [`pagetools.tab:${tab.id}`]);
  assert.deepEqual([state(page), page.warnings().length], ['open', 0]);
});

test('a page that is superseded again and again rests until it is told to connect', async () => {
  const page = await connectedPage();
  await supersede(page);
  await supersede(page);
  page.socket.drop(4409, 'superseded');
  await page.advance(60_000);
  assert.deepEqual([state(page), page.sockets.length], ['closed', 3]);
  assert.match(page.warnings()[0], /superseded \(4409\)/);
  page.client.connect();
  await settle();
  await supersede(page);
  assert.deepEqual([state(page), page.sockets.length], ['open', 5]);
});

test('being superseded now and then is not again and again', async () => {
  const page = await connectedPage();
  for (let time = 0; time < 5; time += 1) {
    await page.advance(6000);
    await supersede(page);
  }
  assert.deepEqual([state(page), page.sockets.length], ['open', 6]);
});

test('after no approval, a message too big or a flood the page takes its time', async () => {
  for (const code of [4408, 4413, 4429]) {
    const page = await connectedPage();
    page.socket.drop(code, '');
    await page.advance(2900);
    assert.deepEqual([state(page), page.sockets.length], ['waiting', 1]);
    assert.match(page.warnings()[0], new RegExp(`no reason given \\(${code}\\)`));
    await page.advance(200);
    assert.equal(page.sockets.length, 2);
  }
});

test('a missing bridge is said once, with the way out, and so is the connection after it', async () => {
  const page = await startedPage('down');
  await page.advance(60_000);
  assert.deepEqual(page.said, [
    { level: 'warn', text: 'pagetools: no bridge on 127.0.0.1:9333; run %pagetools start in the notebook' },
  ]);
  page.bridge = 'up';
  page.window.emit('focus');
  await settle();
  page.welcome();
  const { length } = page.sockets;
  page.socket.drop();
  await page.advance(1000);
  assert.equal(page.sockets.length, length + 1);
  page.welcome();
  assert.deepEqual(page.said.slice(1), [
    { level: 'info', text: 'pagetools: connected to the bridge on 127.0.0.1:9333' },
  ]);
});

test('connect says again what is wrong', async () => {
  const page = await startedPage('down');
  await page.advance(5000);
  page.client.connect();
  await page.advance(5000);
  assert.equal(page.warnings().length, 2);
});

test('what went wrong is not said once it no longer matters', async () => {
  const page = fakePage({ href: 'https://app.example/' });
  let answer;
  page.window.navigator.permissions = { query: () => new Promise((resolve) => (answer = resolve)) };
  page.bridge = 'down';
  page.client.start();
  await page.advance(150);
  page.client.disconnect();
  answer({ state: 'denied' });
  await settle();
  assert.deepEqual(page.warnings(), []);
});

test('disconnect gives up a probe under way', async () => {
  const page = await connectedPage();
  page.bridge = 'silent';
  page.socket.drop();
  await page.advance(150);
  page.client.disconnect();
  assert.equal(page.probes[0].signal.aborted, true);
  await page.advance(5000);
  assert.deepEqual([state(page), page.sockets.length], ['closed', 1]);
});

test('a page that is connected has nothing to complain about', async () => {
  const page = await connectedPage({ href: 'https://app.example/', permission: 'prompt' });
  await page.advance(60_000);
  assert.deepEqual(page.warnings(), []);
});

test('a server that is no bridge is told from a missing one', async () => {
  const page = await startedPage('refusing');
  await page.advance(1000);
  assert.deepEqual(page.warnings(), [
    'pagetools: what answers on 127.0.0.1:9333 is no bridge, or refuses this page',
  ]);
});

test('a constructor that throws means policy or mixed content, and is final', async () => {
  const page = fakePage({ href: 'https://app.example/' });
  page.constructorError = new DOMException('insecure WebSocket from a secure page', 'SecurityError');
  page.client.start();
  await page.advance(60_000);
  assert.equal(state(page), 'closed');
  const [warning, ...more] = page.warnings();
  assert.match(warning, /ws:\/\/127\.0\.0\.1:9333.*connect-src.*https.*insecure WebSocket/);
  assert.equal(more.length, 0);
});

test('an error that no close follows means a policy, and is final', async () => {
  const page = await startedPage('blocked');
  await page.advance(60_000);
  assert.deepEqual([state(page), page.sockets.length], ['closed', 1]);
  assert.match(page.warnings()[0], /may not open ws:\/\/127\.0\.0\.1:9333: add it to connect-src/);
});

test('an ordinary failure, error and then close, is not taken for a policy', async () => {
  const page = await startedPage('down');
  await page.advance(5000);
  assert.ok(page.warnings().every((text) => !text.includes('connect-src')));
});

test('a policy violation is said at once, once', async () => {
  const page = await startedPage('blocked');
  const violation = { disposition: 'enforce', blockedURI: 'ws://127.0.0.1:9333/tools' };
  page.document.emit('securitypolicyviolation', { ...violation, disposition: 'report' });
  assert.equal(state(page), 'connecting');
  page.document.emit('securitypolicyviolation', violation);
  await page.advance(5000);
  assert.equal(state(page), 'closed');
  assert.equal(page.warnings().length, 1);
});

test('violations of other addresses are not ours', async () => {
  const page = await connectedPage();
  page.document.emit('securitypolicyviolation', {
    disposition: 'enforce',
    blockedURI: 'https://ads.example/x.js',
  });
  page.document.emit('securitypolicyviolation', { disposition: 'enforce', blockedURI: 'inline' });
  assert.equal(state(page), 'open');
});

test('a policy that forbids only the probe does not keep the page from its bridge', async () => {
  const page = await connectedPage();
  page.bridge = 'down';
  page.socket.drop();
  await page.advance(150);
  page.document.emit('securitypolicyviolation', {
    disposition: 'enforce',
    blockedURI: 'http://127.0.0.1:9333/health',
  });
  page.bridge = 'up';
  page.probesFail = true;
  const { length } = page.probes;
  await page.advance(800);
  assert.deepEqual([page.sockets.length, page.probes.length], [2, length]);
});

test('a browser that asks is pointed out, and a refusal is final', async () => {
  const page = await startedPage('silent', { href: 'https://app.example/', permission: 'prompt' });
  await page.advance(60_000);
  assert.match(page.warnings()[0], /click Allow/);
  assert.deepEqual([state(page), page.sockets.length], ['connecting', 1]);
  page.socket.drop();
  await page.advance(60_000);
  assert.deepEqual([state(page), page.sockets.length], ['closed', 1]);
  assert.match(page.client.status().reason, /reload/);
});

test('a question that a probe made the browser ask is not asked again by a click into the page', async () => {
  const page = await startedPage('down', { href: 'https://app.example/', permission: 'prompt' });
  page.bridge = 'silent';
  await page.advance(3000);
  const asked = page.probes.length;
  assert.match(page.client.status().reason, /click Allow/);
  page.window.emit('focus');
  await page.advance(60_000);
  assert.equal(page.probes.length, asked);
});

test('a question that was answered with Allow does not stand in the way of a later loss', async () => {
  const page = await startedPage('silent', { href: 'https://app.example/', permission: 'prompt' });
  await page.advance(2000);
  page.socket.readyState = 1;
  page.socket.emit('open');
  page.welcome();
  page.bridge = 'up';
  page.socket.drop();
  await page.advance(200);
  assert.equal(page.sockets.length, 2);
});

test('a permission that is denied points to the site settings, and is final', async () => {
  const page = await startedPage('down', { href: 'https://app.example/', permission: 'denied' });
  await page.advance(60_000);
  assert.deepEqual([state(page), page.sockets.length], ['closed', 1]);
  assert.equal(page.warnings().length, 1);
  assert.match(page.warnings()[0], /site settings/);
});

test('what the browser says of permissions does not count on a page that was connected', async () => {
  const page = await connectedPage({ href: 'http://192.168.1.5/', permission: 'denied' });
  page.bridge = 'down';
  page.socket.drop();
  await page.advance(5000);
  assert.equal(state(page), 'waiting');
  assert.match(page.warnings()[0], /no bridge/);
});

test('a page from this machine needs no permission', async () => {
  for (const href of [
    'http://localhost:3000/',
    'http://app.localhost/',
    'http://[::1]:80/',
    'file:///tmp/page.html',
  ]) {
    const page = await startedPage('down', { href, permission: 'denied' });
    await page.advance(5000);
    assert.match(page.warnings()[0], /no bridge/);
  }
});

test('a bridge that is busy is waited for, and said to be', async () => {
  const page = await startedPage('silent');
  await page.advance(60_000);
  assert.deepEqual(page.warnings(), [
    'pagetools: 127.0.0.1:9333 takes long to answer; is a cell running in the notebook?',
  ]);
  assert.deepEqual([state(page), page.sockets.length], ['connecting', 1]);
});

test('a probe that gets no answer gives way to a socket', async () => {
  const page = await connectedPage();
  page.bridge = 'silent';
  page.socket.drop();
  await page.advance(2000);
  assert.equal(page.sockets.length, 2);
});

test('a page that is not let in yet says where to allow it', async () => {
  const page = await startedPage('up');
  await page.advance(2000);
  assert.deepEqual(page.warnings(), ['pagetools: waiting to be allowed in the notebook']);
  page.welcome();
  assert.equal(state(page), 'open');
});

test('a page whose welcome comes late works meanwhile', async () => {
  const page = await startedPage('up', { href: 'https://app.example/', permission: 'prompt' });
  page.client.register('todo', [tool('add', () => 'added')]);
  page.socket.receive({ type: 'ping', n: 1 });
  page.socket.receive({ type: 'call', callId: 'k1', ns: 'todo', name: 'add' });
  await page.advance(2500);
  assert.deepEqual(
    page.socket.sent.map(({ type }) => type),
    ['hello', 'pong', 'register', 'result'],
  );
  assert.deepEqual(page.warnings(), ['pagetools: waiting to be allowed in the notebook']);
  page.welcome({ tabId: page.client.status().tabId });
  await page.advance(60_000);
  assert.deepEqual([state(page), page.sockets.length, page.warnings().length], ['open', 1, 1]);
});

const aside = [
  ['goes into the back/forward cache', (page) => page.window.emit('pagehide', { persisted: true })],
  ['is frozen', (page) => page.document.emit('freeze')],
];
const back = [
  ['from the cache', (page) => page.window.emit('pageshow', { persisted: true })],
  ['resumed', (page) => page.document.emit('resume')],
];

for (const [what, leave] of aside) {
  test(`a page that ${what} says that it is asleep, and closes`, async () => {
    const page = await connectedPage();
    page.retitle('left');
    leave(page);
    assert.deepEqual(page.socket.sent.at(-1), {
      v: 1,
      type: 'state',
      seq: 1,
      url: 'http://127.0.0.1:8000/app',
      title: 'left',
      visible: true,
      focused: true,
      asleep: true,
    });
    assert.equal(page.socket.closedWith.code, 4001);
    assert.equal(page.socket.lost.length, 0);
  });
}

test('a page that is put aside and comes back in several events does so once', async () => {
  for (const ways of [back, back.toReversed()]) {
    const locks = new FakeLocks();
    const page = await connectedPage({ locks });
    const { tabId } = page.client.status();
    for (const [, leave] of aside) leave(page);
    await settle();
    assert.deepEqual([page.socket.ofType('state').length, locks.held.size], [1, 0]);
    for (const [, come] of ways) come(page);
    await page.advance(200);
    assert.equal(page.sockets.length, 2);
    assert.equal(page.socket.sent[0].tab.id, tabId);
    assert.equal(locks.held.size, 1);
  }
});

test('a page that is put aside again before it is back is back after the second time', async () => {
  const locks = new FakeLocks();
  const page = await connectedPage({ locks });
  const { tabId } = page.client.status();
  for (const pause of [10, 10_000]) {
    page.window.emit('pagehide', { persisted: true });
    await page.advance(pause);
    page.window.emit('pageshow', { persisted: true });
    await page.advance(10);
  }
  await page.advance(200);
  assert.deepEqual(
    page.sockets.map((socket) => socket.sent[0].tab.id),
    [tabId, tabId],
  );
  assert.deepEqual([...locks.held], [`pagetools.tab:${tabId}`]);
});

test('a frozen page whose id was taken meanwhile comes back as another tab', async () => {
  const locks = new FakeLocks();
  const page = await connectedPage({ locks, storage: new FakeStorage() });
  page.document.emit('freeze');
  await settle();
  const other = await connectedPage({ locks, storage: page.storage.copy() });
  page.document.emit('resume');
  await settle();
  assert.notEqual(page.socket.sent[0].tab.id, other.socket.sent[0].tab.id);
});

test('the time a page was asleep is not time it was looked at', async () => {
  const page = await connectedPage();
  page.document.emit('freeze');
  page.focused = false;
  await page.advance(10_000);
  page.document.emit('resume');
  await settle();
  assert.equal(page.socket.sent[0].tab.lastFocusedAgo, 10_000);
});

test('a page that is closed, reloaded or left for good does not say that it is asleep', async () => {
  const page = await connectedPage();
  page.window.emit('pagehide', { persisted: false });
  assert.deepEqual([page.socket.ofType('state').length, page.socket.closedWith.code], [0, 4001]);
});

test('a page that goes into the back/forward cache closes its socket and reopens it on return', async () => {
  const page = await connectedPage();
  page.client.register('todo', [tool('add')]);
  await settle();
  const { tabId } = page.client.status();
  page.window.emit('pagehide', { persisted: true });
  assert.equal(page.socket.closedWith.code, 4001);
  await page.advance(60_000);
  assert.deepEqual([page.sockets.length, page.probes.length], [1, 0]);
  page.document.emit('visibilitychange');
  page.window.emit('pageshow', { persisted: true });
  await page.advance(60);
  assert.equal(page.sockets.length, 2);
  assert.equal(page.socket.sent[0].tab.id, tabId);
  assert.equal(page.socket.sent[1].ns, 'todo');
});

test('the first pageshow of a document changes nothing', async () => {
  const page = await connectedPage();
  page.window.emit('pageshow', { persisted: false });
  await settle();
  assert.equal(page.sockets.length, 1);
});

test('a page that was disconnected comes back from the cache disconnected', async () => {
  const page = await connectedPage();
  page.client.disconnect();
  page.window.emit('pagehide', { persisted: true });
  page.window.emit('pageshow', { persisted: true });
  await page.advance(10_000);
  assert.deepEqual([state(page), page.sockets.length], ['closed', 1]);
});

test('a page that waited for its bridge comes back from the cache and looks again', async () => {
  const page = await startedPage('down');
  await page.advance(5000);
  page.window.emit('pagehide', { persisted: true });
  assert.equal(page.clock.timers.size <= 1, true);
  page.bridge = 'up';
  page.window.emit('pageshow', { persisted: true });
  await page.advance(60);
  assert.equal(page.socket.sent[0].type, 'hello');
});

test('no unload listener is ever added', async () => {
  const page = await connectedPage();
  const types = new Set([...page.window.listeners].map(({ type }) => type));
  assert.equal(types.has('unload') || types.has('beforeunload'), false);
});

for (const [where, options] of [
  ['a browser with locks and the Navigation API', {}],
  ['a browser without either', { locks: null, navigation: null }],
]) {
  test(`dispose leaves no listener, timer, lock or wrapper behind, in ${where}`, async () => {
    const page = fakePage(options);
    const { pushState, replaceState } = page.window.history;
    const handlers = new Set();
    const tools = {
      list: () => [],
      call() {},
      onChange: (handler) => handlers.add(handler) && (() => handlers.delete(handler)),
    };
    page.window.__AIUI__ = { tools };
    page.client.start();
    await page.advance(200);
    page.client.register('todo', [tool('add')]);
    page.window.emit('focus');
    assert.equal(handlers.size, 1);
    page.client.dispose();
    await settle();
    assert.equal(page.window.listeners.size + page.document.listeners.size + page.socket.listeners.size, 0);
    assert.equal(page.window.navigation?.listeners.size ?? 0, 0);
    assert.equal(page.clock.timers.size + page.observers.size + handlers.size, 0);
    assert.equal(page.window.navigator.locks?.held.size ?? 0, 0);
    assert.deepEqual({ ...page.window.history }, { pushState, replaceState });
    assert.deepEqual([state(page), page.socket.closedWith.code], ['closed', 1000]);
  });
}

test('dispose before the page is connected leaves nothing behind either', async () => {
  for (const bridge of ['down', 'silent', 'blocked']) {
    const page = fakePage();
    page.bridge = bridge;
    page.client.start();
    if (bridge !== 'silent') await page.advance(150);
    page.client.dispose();
    await settle();
    assert.equal(page.window.listeners.size + page.document.listeners.size + page.clock.timers.size, 0);
    assert.equal(page.window.navigator.locks.held.size, 0);
    assert.equal(
      page.sockets.every((socket) => socket.listeners.size === 0),
      true,
    );
  }
});
