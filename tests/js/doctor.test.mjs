import assert from 'node:assert/strict';
import { test } from 'node:test';

import { examine, examineBrowser, judge, look } from '../../pagetools_ipy/static/examination.js';

const BRIDGE = 'http://127.0.0.1:9319';
const SOCKET = 'ws://127.0.0.1:9319/tools';

/** What is known of a page of this machine that is let in, or of another one. */
const facts = ({ page = {}, reach = {}, ...others } = {}) => ({
  page: { origin: 'http://localhost:3000', isHere: true, isSecure: true, isTop: true, ...page },
  browser: 'Chrome 156',
  reach: reach && {
    ...{ bridge: BRIDGE, permission: '', isHealthy: true, isForbidden: false },
    ...reach,
    dial: { end: 'let in', code: 1000, reason: '', ...reach.dial },
  },
  client: { state: 'open', url: SOCKET, namespaces: ['shop'], reason: null },
  webmcp: 'native',
  places: ['document.modelContext'],
  tools: { names: ['shop'], problem: '' },
  hasStorage: true,
  ...others,
});

const PUBLIC = { origin: 'https://app.example', isHere: false };
const DOWN = { isHealthy: false, dial: { end: 'closed', code: 1006 } };

const standings = (findings) => findings.map(({ standing }) => standing).join(' ');
const problems = (findings) => findings.filter(({ standing }) => standing === 'problem');

test('a page that is connected and has tools is fine', () => {
  const findings = judge(facts());
  assert.equal(standings(findings), 'ok ok ok');
  assert.match(findings[0].what, /connected to the bridge on 127\.0\.0\.1:9319/);
  assert.match(findings[2].what, /tools of shop/);
});

const KEPT_AWAY = [
  ['no bridge', { reach: DOWN }, /No bridge answers/, /%pagetools start/],
  [
    'a policy',
    { reach: { isForbidden: true, dial: { end: 'blocked' } } },
    /Content-Security-Policy/,
    /Add ws:\/\/127\.0\.0\.1:9319 and http:/,
  ],
  [
    'a wrong token',
    { reach: { dial: { end: 'closed', code: 4401, reason: 'the token is not ours' } } },
    /the token is not ours \(4401\)/,
    /connect\(\{port, token\}\)/,
  ],
  [
    'an origin from elsewhere',
    { page: PUBLIC, reach: { dial: { end: 'closed', code: 4403, reason: 'no token' } } },
    /does not let this page in: no token \(4403\)/,
    /%pagetools open URL/,
  ],
  [
    'an insecure page',
    { page: { ...PUBLIC, origin: 'http://app.example', isSecure: false }, reach: DOWN },
    /http:\/\/app\.example is not a secure context/,
    /https: or from localhost/,
  ],
  [
    'leave that was declined',
    { page: PUBLIC, reach: { ...DOWN, permission: 'denied' } },
    /may not reach apps on this device/,
    /site settings/,
  ],
  [
    'a frame without leave',
    { page: { ...PUBLIC, isTop: false }, reach: { ...DOWN, permission: 'denied' } },
    /may not reach/,
    /allow="loopback-network"/,
  ],
  [
    'leave that is waited for',
    { page: PUBLIC, reach: { isHealthy: false, permission: 'prompt', dial: { end: 'waiting' } } },
    /waits for leave/,
    /click Allow/,
  ],
  [
    'mixed content',
    { page: PUBLIC, reach: { ...DOWN, permission: 'granted', dial: { end: 'thrown', reason: 'insecure' } } },
    /opens no connection from https:\/\/app\.example .*: insecure/,
    /Safari/,
  ],
  ['a busy kernel', { reach: { isHealthy: false, dial: { end: 'waiting' } } }, /takes long/, /--thread/],
  ['another program', { reach: { dial: { end: 'closed', code: 1006 } } }, /takes no connection/, /another/],
];
for (const [name, given, what, next] of KEPT_AWAY) {
  test(`what keeps the page away is named with the way out: ${name}`, () => {
    const [first] = judge(facts({ client: null, ...given }));
    assert.equal(first.standing, 'problem');
    assert.match(first.what, what);
    assert.match(first.next, next);
  });
}

test('a page of this machine needs no leave, whatever the browser says of it', () => {
  const [first] = judge(facts({ client: null, reach: { ...DOWN, permission: 'denied' } }));
  assert.match(first.what, /No bridge answers/);
});

test('a page without the client is told how to load it', () => {
  const [, missing] = judge(facts({ client: null }));
  assert.match(missing.next, /import\('http:\/\/127\.0\.0\.1:9319\/pagetools\.js'\)/);
});

test('a client that is connected elsewhere, or not at all, says so', () => {
  const client = { state: 'open', url: 'ws://127.0.0.1:9320/tools', namespaces: [], reason: null };
  const [elsewhere] = problems(judge(facts({ client })));
  assert.match(elsewhere.what, /another bridge, ws:\/\/127\.0\.0\.1:9320/);
  assert.match(elsewhere.next, /connect\(\{port: 9319\}\)/);
  const [closed] = problems(judge(facts({ client: { ...client, state: 'closed', reason: 'refused' } })));
  assert.match(closed.what, /not connected: refused/);
  assert.match(closed.next, /pagetools\.connect\(\)/);
  const [waiting] = problems(judge(facts({ client: { ...client, state: 'waiting' } })));
  assert.match(waiting.next, /by itself/);
});

test('where the browser has no WebMCP of its own it is said how to get it', () => {
  const [off] = judge(facts({ webmcp: 'other' })).filter(({ what }) => what.includes('WebMCP'));
  assert.equal(off.standing, 'note');
  assert.match(off.next, /--enable-features=WebMCP/);
  const insecure = judge(facts({ webmcp: 'none', page: { isSecure: false } }));
  assert.ok(insecure.some(({ what }) => what.includes('not a secure context')));
});

test('tools that may not be listed are a problem', () => {
  const tools = { names: null, problem: 'NotAllowedError' };
  const [problem] = problems(judge(facts({ tools })));
  assert.match(problem.what, /NotAllowedError/);
  assert.match(problem.next, /tools=\(\)/);
});

test('a page without tools is told what it has', () => {
  const none = { names: [], problem: '' };
  const last = (given) => judge(facts(given)).at(-1);
  assert.match(last({ tools: none }).what, /It has document\.modelContext, and no tools are declared/);
  assert.match(last({ tools: none, places: [] }).what, /no place where pages declare tools/);
  assert.equal(last({ tools: { names: null, problem: '' }, places: ['window.agent'] }).next, '');
});

test('of a page that is not to reach the bridge only its tools are judged', () => {
  assert.equal(standings(judge(facts({ reach: null }))), 'ok');
  const bare = facts({ reach: null, client: null, places: [], tools: { names: null, problem: '' } });
  assert.match(judge(bare).at(-1).what, /no place/);
});

test('a page that cannot keep its identifier is told', () => {
  assert.match(judge(facts({ hasStorage: false })).at(-1).what, /sessionStorage/);
});

// -- looking

const brand = (name, version) => ({ brand: name, version });

/** A window in which everything works. Timers of up to `passes` ms run, at once. */
function fakeWindow({ passes = 0, ...others } = {}) {
  const document = Object.assign(new EventTarget(), { readyState: 'complete', querySelector: () => null });
  const navigator = {
    userAgentData: { brands: [brand('Not:A-Brand', '8'), brand('Chromium', '156')] },
    permissions: { query: async () => ({ state: 'prompt' }) },
    locks: {},
  };
  const window = {
    document,
    navigator,
    location: { origin: 'https://app.example', protocol: 'https:', hostname: 'app.example' },
    isSecureContext: true,
    sessionStorage: {},
    setTimeout: (run, ms) => ms <= passes && setImmediate(run),
    fetch: async () => ({}),
    ...others,
  };
  return Object.assign(window, { top: window });
}

/** A WebSocket that does `act` once somebody listens. */
const socketThat = (act) =>
  class extends EventTarget {
    constructor(url, protocols) {
      super();
      Object.assign(this, { url, protocols });
      setImmediate(() => act(this));
    }
    close() {}
  };
const closes = (code, reason = '') =>
  socketThat((socket) => socket.dispatchEvent(Object.assign(new Event('close'), { code, reason })));
const fails = socketThat((socket) => socket.dispatchEvent(new Event('error')));

const reached = async (given) => (await look(fakeWindow(given), BRIDGE)).reach;

test('a socket that the bridge closes at once is a page let in', async () => {
  const { dial, isHealthy, permission } = await reached({ WebSocket: closes(1000, 'let in') });
  assert.deepEqual(dial, { end: 'let in', code: 1000, reason: 'let in' });
  assert.equal(isHealthy, true);
  assert.equal(permission, 'prompt');
});

test('a socket that asks to be checked is no connection of a page', async () => {
  const asked = [];
  const WebSocket = class extends closes(1000) {
    constructor(...given) {
      super(...given);
      asked.push(given);
    }
  };
  await reached({ WebSocket });
  assert.deepEqual(asked, [[SOCKET, ['pagetools.check']]]);
});

test('a refusal keeps its code and reason', async () => {
  const { dial } = await reached({ WebSocket: closes(4403, 'no token') });
  assert.deepEqual(dial, { end: 'closed', code: 4403, reason: 'no token' });
});

test('an error without a close is a block', async () => {
  const { dial } = await reached({ WebSocket: fails, passes: 1000 });
  assert.equal(dial.end, 'blocked');
});

test('a constructor that throws is quoted', async () => {
  const WebSocket = class {
    constructor() {
      throw new Error('mixed content');
    }
  };
  const { dial } = await reached({ WebSocket });
  assert.deepEqual(dial, { end: 'thrown', code: 0, reason: 'mixed content' });
});

test('a bridge that says nothing is not waited for without end', async () => {
  const closed = [];
  const WebSocket = class extends socketThat(() => {}) {
    close() {
      closed.push(true);
    }
  };
  const pending = (_, { signal }) =>
    new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
  const { dial, isHealthy } = await reached({ WebSocket, fetch: pending, passes: 3000 });
  assert.equal(dial.end, 'waiting');
  assert.equal(isHealthy, false);
  assert.equal(closed.length, 1);
});

test('a violation of the policy counts where it concerns the socket and is enforced', async () => {
  const violate = (fields) => async () => {
    const window = fakeWindow({});
    const event = Object.assign(new Event('securitypolicyviolation'), { disposition: 'enforce', ...fields });
    window.WebSocket = socketThat((socket) => {
      window.document.dispatchEvent(event);
      socket.dispatchEvent(Object.assign(new Event('close'), { code: 1006, reason: '' }));
    });
    return (await look(window, BRIDGE)).reach.isForbidden;
  };
  assert.equal(await violate({ blockedURI: SOCKET })(), true);
  assert.equal(await violate({ blockedURI: `${BRIDGE}/health` })(), false);
  assert.equal(await violate({ blockedURI: SOCKET, disposition: 'report' })(), false);
});

test('a window that forbids everything is looked at all the same', async () => {
  const forbid = (target, names) => {
    for (const name of names) {
      const get = () => {
        throw new Error('SecurityError');
      };
      Object.defineProperty(target, name, { get, configurable: true });
    }
  };
  const window = fakeWindow({ WebSocket: closes(1006), fetch: () => Promise.reject(new Error('no')) });
  forbid(window, ['sessionStorage', 'pagetools', 'agent', '__AIUI__', 'top']);
  forbid(window.navigator, ['permissions', 'modelContext']);
  forbid(window.document, ['modelContext']);
  const seen = await look(window, BRIDGE);
  assert.equal(seen.hasStorage, false);
  assert.equal(seen.reach.permission, '');
  assert.deepEqual(seen.places, []);
  assert.ok(judge(seen).length > 0);
});

test('the browser is called by the name that a person knows', async () => {
  const nameOf = async (fields) => {
    const window = fakeWindow();
    Object.assign(window.navigator, fields);
    return (await look(window, null)).browser;
  };
  assert.equal(await nameOf({}), 'Chromium 156');
  const brands = [brand('Chromium', '1'), brand('Microsoft Edge', '150')];
  assert.equal(await nameOf({ userAgentData: { brands } }), 'Microsoft Edge 150');
  const agent = (userAgent) => nameOf({ userAgentData: undefined, userAgent });
  assert.equal(await agent('Mozilla/5.0 (X11) Gecko/20100101 Firefox/153.0'), 'Firefox 153');
  assert.equal(await agent('Mozilla/5.0 AppleWebKit/605 Version/26.0 Safari/605'), 'Safari 26');
  assert.equal(await agent('x'), 'this browser');
});

test('tools are asked of the client, or else of the page, and a refusal is kept', async () => {
  const toolsOf = async (fill) => {
    const window = fakeWindow();
    fill(window);
    return (await look(window, null)).tools;
  };
  const status = () => ({ state: 'open', namespaces: ['shop'] });
  assert.deepEqual((await toolsOf((w) => (w.pagetools = { status }))).names, ['shop']);
  const getTools = async () => [{ name: 'a' }];
  const given = await toolsOf((w) => (w.document.modelContext = { getTools }));
  assert.deepEqual(given.names, ['a']);
  const listTools = () => [{ name: 'b' }];
  assert.deepEqual((await toolsOf((w) => (w.navigator.modelContext = { listTools }))).names, ['b']);
  const refusing = { getTools: async () => Promise.reject(new Error('not allowed')) };
  assert.equal((await toolsOf((w) => (w.document.modelContext = refusing))).problem, 'not allowed');
  assert.equal((await toolsOf(() => {})).names, null);
  const early = await toolsOf(({ document }) =>
    Object.assign(document, { modelContext: { getTools }, readyState: 'loading' }),
  );
  assert.equal(early.names, null);
});

test('places where a page may declare tools are found', async () => {
  const window = fakeWindow({ agent: {}, __AIUI__: { tools: {} } });
  window.document.querySelector = (selector) => (selector.startsWith('form') ? {} : null);
  const { places, webmcp } = await look(window, null);
  assert.deepEqual(places, ['window.agent', 'window.__AIUI__.tools', 'forms with a toolname']);
  assert.equal(webmcp, 'none');
});

test('examining a page that is let in gives findings, and fewer where only the browser matters', async () => {
  const window = fakeWindow({ WebSocket: closes(1000) });
  const all = await examine(window, BRIDGE);
  const [first, ...others] = await examineBrowser(window, BRIDGE);
  assert.equal(first.standing, 'ok');
  assert.ok(others.length + 1 < all.length);
  assert.equal(problems(all).length, 0);
});
