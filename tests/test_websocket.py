"""`WebSocketTransport` over real sockets: the port, who may come in, HTTP, frames, floods."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import random
import socket
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from importlib import resources
from typing import Any, TypeVar

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.typing import Origin, Subprotocol

from pagetools_ipy import BridgeError
from pagetools_ipy.limits import MAX_MESSAGE_BYTES
from pagetools_ipy.transports import Link, websocket
from pagetools_ipy.transports.loopback import is_loopback_origin
from pagetools_ipy.transports.websocket import WebSocketTransport, bind

from .conftest import DEADLINE
from .helpers import Message

T = TypeVar("T")

TOKEN = "correct-horse-battery-staple-0123456789"
LOOPBACK = "http://localhost:3000"


def within(awaitable: Awaitable[T]) -> Awaitable[T]:
    return asyncio.wait_for(awaitable, DEADLINE)


# A server and its clients


@dataclass
class Served:
    """A running transport whose links answer each message with itself."""

    transport: WebSocketTransport
    links: asyncio.Queue[Link] = field(default_factory=asyncio.Queue)

    @property
    def port(self) -> int:
        return self.transport.port

    async def serve(self, link: Link) -> None:
        self.links.put_nowait(link)
        async for message in link:
            if message == "fail":
                raise RuntimeError("a handler that fails")
            link.send({"echo": message})

    @asynccontextmanager
    async def page(
        self,
        origin: str | None = LOOPBACK,
        *protocols: str,
        path: str = "/tools",
        **options: Any,
    ) -> AsyncIterator[ClientConnection]:
        async with connect(
            f"ws://127.0.0.1:{self.port}{path}",
            origin=None if origin is None else Origin(origin),
            subprotocols=[Subprotocol(p) for p in protocols] or None,
            compression=None,
            proxy=None,
            max_size=None,
            ping_interval=None,
            close_timeout=DEADLINE,
            **options,
        ) as page:
            yield page

    async def refused(self, origin: str | None, *protocols: str) -> tuple[int, str]:
        """Close code and reason that a page gets which is not let in."""
        async with self.page(origin, *protocols) as page:
            return await closed(page)

    async def is_let_in(self, origin: str | None, *protocols: str) -> bool:
        async with self.page(origin, *protocols) as page:
            try:
                return await echoed(page, "hello") == "hello"
            except ConnectionClosed:
                return False


@asynccontextmanager
async def serving() -> AsyncIterator[Served]:
    served = Served(WebSocketTransport(bind(0), TOKEN))
    await served.transport.start(served.serve)
    try:
        yield served
    finally:
        await within(served.transport.close())


def serve(scenario: Callable[[Served], Awaitable[None]]) -> None:
    """Run a scenario beside a fresh server."""

    async def main() -> None:
        async with serving() as served:
            await scenario(served)

    asyncio.run(main())


async def hear(page: ClientConnection) -> Message:
    message: Message = json.loads(await within(page.recv()))
    return message


async def echoed(page: ClientConnection, message: object) -> object:
    await page.send(json.dumps(message))
    return (await hear(page))["echo"]


async def closed(page: ClientConnection) -> tuple[int, str]:
    async def drain() -> None:
        with suppress(ConnectionClosed):
            async for _ in page:
                pass

    await within(drain())
    assert page.close_code is not None
    return page.close_code, page.close_reason or ""


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes


async def http(port: int, *head: str, host: str | None = "") -> Answer:
    """Send one request as it is written here and read until the server hangs up."""
    lines = [*head]
    if host is not None:
        lines.insert(1, f"Host: {host or f'127.0.0.1:{port}'}")
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write("\r\n".join([*lines, "", ""]).encode("latin-1"))
        received = await within(reader.read())
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
    before, _, rest = received.partition(b"\r\n\r\n")
    status, *fields = before.decode().split("\r\n")
    headers: dict[str, str] = {}
    for line in fields:
        name, _, value = line.partition(": ")
        assert name.lower() not in headers, f"{name} came twice"
        headers[name.lower()] = value
    return Answer(int(status.split(" ")[1]), headers, rest)


# The port


@pytest.fixture
def ten_ports(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[socket.socket | None]]:
    """Ten taken ports in a row, which `bind` takes for its own; close one to free it."""
    chance = random.Random()
    for _ in range(100):
        base = chance.randrange(20_000, 30_000)  # below what the system gives to clients
        with ExitStack() as stack:
            try:
                held = [
                    stack.enter_context(socket.create_server(("127.0.0.1", base + step)))
                    for step in range(10)
                ]
            except OSError:
                continue
            monkeypatch.setattr(websocket, "DEFAULT_PORT", base)
            yield list(held)
            return
    pytest.skip("no ten free ports in a row")


def test_the_first_of_ten_ports_is_taken(ten_ports: list[socket.socket]) -> None:
    base = ten_ports[0].getsockname()[1]
    ten_ports[0].close()
    ten_ports[5].close()
    with bind() as listener:
        assert listener.getsockname() == ("127.0.0.1", base)


@pytest.mark.parametrize("free", [1, 9])
def test_ports_that_are_taken_are_passed_over(ten_ports: list[socket.socket], free: int) -> None:
    base = ten_ports[0].getsockname()[1]
    ten_ports[free].close()
    with bind() as listener:
        assert listener.getsockname()[1] == base + free


def test_when_all_ten_are_taken_the_error_names_them_and_the_way_out(
    ten_ports: list[socket.socket],
) -> None:
    base = ten_ports[0].getsockname()[1]
    with pytest.raises(BridgeError, match=f"{base} to {base + 9} .*--port") as raised:
        bind()
    assert raised.value.port == base


def test_a_port_that_was_asked_for_is_never_replaced_by_another(
    ten_ports: list[socket.socket],
) -> None:
    base = ten_ports[0].getsockname()[1]
    ten_ports[1].close()
    with pytest.raises(BridgeError, match=f"port {base} cannot be used .*leave --port out") as why:
        bind(base)
    assert why.value.port == base


@pytest.mark.parametrize("port", [65536, 99999, -1])
def test_what_is_no_port_says_which_ones_there_are(port: int) -> None:
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        with pytest.raises(BridgeError, match=f"from 0 to 65535, got {port}") as raised:
            bind(port)
        assert raised.value.port == port
        del raised
        gc.collect()
    assert [str(warning.message) for warning in warned] == []  # no socket was left open


def test_port_zero_takes_any_free_one() -> None:
    with bind(0) as first, bind(0) as second:
        assert 0 < first.getsockname()[1] != second.getsockname()[1]


def test_only_the_loopback_interface_is_listened_on() -> None:
    with bind(0) as listener:
        assert listener.getsockname()[0] == "127.0.0.1"
        with pytest.raises(OSError, match="."):
            socket.create_connection(("127.0.0.2", listener.getsockname()[1]), timeout=1)


# Origins


@pytest.mark.parametrize(
    "origin",
    [
        "http://localhost",
        "https://localhost",
        "http://localhost:3000",
        "https://localhost:8443",
        "http://127.0.0.1",
        "http://127.0.0.1:8888",
        "https://127.0.0.1:65535",
        "http://[::1]",
        "https://[::1]:5173",
        "http://foo.localhost",
        "http://a.b.localhost:1",
    ],
)
def test_pages_of_this_machine_have_a_loopback_origin(origin: str) -> None:
    assert is_loopback_origin(origin)


@pytest.mark.parametrize(
    "origin",
    [
        "",
        "null",
        "localhost",
        "localhost:3000",
        "//localhost",
        "file://",
        "file:///home/me/page.html",
        "file://localhost",
        "ftp://localhost",
        "ws://localhost",
        "data:text/html,x",
        "chrome-extension://localhost",
        "javascript://localhost",
        "http://",
        "http:localhost",
        "http:///localhost",
        "http://evil.example",
        "https://localhost.evil.example",
        "http://evil-localhost",
        "http://notlocalhost",
        "http://localhost.",
        "http://localhost-evil",
        "http://127.0.0.1.evil.example",
        "http://127.0.0.1.nip.io",
        "http://evil.example:127",
        "http://localhost@evil.example",
        "http://localhost:80@evil.example",
        "http://127.0.0.1:80@evil.example",
        "http://localhost%2eevil.example",
        "http://localhost\\@evil.example",
        "http://localhost/",
        "http://localhost:3000/",
        "http://localhost/path",
        "http://localhost?q",
        "http://localhost#f",
        "http://evil.example/http://localhost",
        "http://evil.example?.localhost",
        "http://evil.example#.localhost",
        "http://localhost, http://evil.example",
        "http://localhost http://evil.example",
        "http://0.0.0.0",
        "http://10.0.0.1",
        "http://192.168.1.10:3000",
        "http://169.254.169.254",
        "http://[::]",
        "http://[fe80::1]",
        "http://[::ffff:8.8.8.8]",
        "http://2130706434",
        "http://[::1",
        "http://::1",
        "http://[localhost]",
        "http://localhost:port",
        "http://localhost:65536",
        "http://localhost:-1",
        "http://localhost:80:80",
    ],
)
def test_everything_else_has_not(origin: str) -> None:
    assert not is_loopback_origin(origin)


@pytest.mark.parametrize(
    "origin",
    [
        "http://user@localhost",
        "http://evil.example@localhost",
        "http://user:secret@127.0.0.1:3000",
        "http://evil.example\\.localhost",
        "http://evil.example%2f.localhost",
        "http://evil example.localhost",
        "http://.localhost",
        "http://[::1]evil",
        "http://loc\talhost",
        " http://localhost",
        "http://localhost?",
        "http://localhost#",
        "http://localhost:",
        "http://localhost:\u0663000",
        "http://localhost\n",
        "http://-.localhost",
        "http://a..localhost",
    ],
)
def test_what_no_browser_writes_as_an_origin_is_not_taken_for_one(origin: str) -> None:
    assert not is_loopback_origin(origin)


@pytest.mark.parametrize(
    "origin", [LOOPBACK, "https://app.localhost", "http://127.0.0.1:1", "http://[::1]:5173"]
)
def test_pages_of_this_machine_are_let_in(origin: str) -> None:
    async def scenario(served: Served) -> None:
        assert await served.is_let_in(origin)

    serve(scenario)


@pytest.mark.parametrize(
    ("origin", "named"),
    [
        ("https://evil.example", "https://evil.example"),
        ("https://localhost.evil.example", "https://localhost.evil.example"),
        ("file://", "file://"),
        ("null", "a page without an origin"),
        (None, "a page without an origin"),
        ("https://" + "long." * 60 + "example", "https://long.long."),
        ("https://\xfcber.example", "https://"),
    ],
)
def test_other_origins_are_refused_with_a_reason_that_names_them(
    origin: str | None, named: str
) -> None:
    async def scenario(served: Served) -> None:
        code, reason = await served.refused(origin)
        assert code == 4403
        assert reason.startswith(named)
        assert served.links.empty()

    serve(scenario)


def test_the_reason_of_a_refusal_says_what_is_missing() -> None:
    async def scenario(served: Served) -> None:
        for origin in ("null", "https://evil.example"):
            _, reason = await served.refused(origin)
            assert "not on this machine and brings no token" in reason

    serve(scenario)


# The token


@pytest.mark.parametrize("origin", ["https://evil.example", "null", None, LOOPBACK])
def test_with_the_token_a_page_of_any_origin_is_let_in(origin: str | None) -> None:
    async def scenario(served: Served) -> None:
        assert await served.is_let_in(origin, f"pagetools.token.{TOKEN}", "pagetools.v1")
        assert await served.is_let_in(origin, "pagetools.v1", f"pagetools.token.{TOKEN}")

    serve(scenario)


@pytest.mark.parametrize(
    "token",
    ["", "wrong", TOKEN[:-1], TOKEN[1:], TOKEN + "x", TOKEN.upper(), TOKEN[0], TOKEN * 2],
    ids=["none", "wrong", "no end", "no start", "longer", "upper case", "one letter", "twice"],
)
@pytest.mark.parametrize("origin", ["https://evil.example", LOOPBACK, None])
def test_a_wrong_token_is_refused_wherever_it_comes_from(token: str, origin: str | None) -> None:
    async def scenario(served: Served) -> None:
        code, reason = await served.refused(origin, f"pagetools.token.{token}", "pagetools.v1")
        assert code == 4401
        assert "token" in reason
        assert TOKEN not in reason
        assert served.links.empty()

    serve(scenario)


@pytest.mark.parametrize(
    ("offered", "selected"),
    [
        ((), None),
        (("pagetools.v1",), "pagetools.v1"),
        (("pagetools.token.{}", "pagetools.v1"), "pagetools.v1"),
        (("pagetools.v1", "pagetools.token.{}"), "pagetools.v1"),
        (("pagetools.token.{}", "other", "pagetools.v1"), "pagetools.v1"),
        (("other", "another"), "other"),
        (("pagetools.token.{}", "other"), "other"),
        (("pagetools.token.{}",), None),
    ],
)
def test_the_protocol_is_selected_and_never_the_token(
    offered: tuple[str, ...], selected: str | None
) -> None:
    async def scenario(served: Served) -> None:
        async with served.page(LOOPBACK, *[p.format(TOKEN) for p in offered]) as page:
            assert page.subprotocol == selected
            assert page.response is not None
            assert TOKEN not in str(page.response.headers)
            assert await echoed(page, 1) == 1

    serve(scenario)


def test_neither_token_nor_request_gets_into_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(served: Served) -> None:
        await served.is_let_in(LOOPBACK, f"pagetools.token.{TOKEN}", "pagetools.v1")
        await served.refused("https://evil.example", f"pagetools.token.{TOKEN}x")
        await http(served.port, "GET /tools HTTP/1.1", f"Sec-WebSocket-Protocol: {TOKEN}")

    with caplog.at_level(logging.INFO):
        serve(scenario)
    assert TOKEN not in caplog.text


# HTTP


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/pagetools.js", "text/javascript; charset=utf-8"),
        ("/demo", "text/html; charset=utf-8"),
        ("/demo.js", "text/javascript; charset=utf-8"),
        ("/demo.css", "text/css; charset=utf-8"),
    ],
)
def test_the_files_a_page_loads_are_served(path: str, kind: str) -> None:
    async def scenario(served: Served) -> None:
        answer = await http(served.port, f"GET {path} HTTP/1.1")
        file = "demo.html" if path == "/demo" else path.removeprefix("/")
        assert answer.status == 200
        assert answer.headers["content-type"] == kind
        assert answer.headers["content-length"] == str(len(answer.body))
        assert answer.body == (resources.files("pagetools_ipy") / "static" / file).read_bytes()
        assert answer.body

    serve(scenario)


@pytest.mark.parametrize("path", ["/pagetools.js?v=1", "/pagetools.js?a=/../b&c", "/health?x"])
def test_a_query_changes_nothing(path: str) -> None:
    async def scenario(served: Served) -> None:
        plain = await http(served.port, f"GET {path.partition('?')[0]} HTTP/1.1")
        answer = await http(served.port, f"GET {path} HTTP/1.1")
        assert (answer.status, answer.body) == (200, plain.body)

    serve(scenario)


def test_health_says_what_answers_here_and_nothing_else() -> None:
    async def scenario(served: Served) -> None:
        answer = await http(served.port, "GET /health HTTP/1.1")
        assert (answer.status, answer.body) == (200, b"pagetools bridge\n")
        assert answer.headers["content-type"] == "text/plain; charset=utf-8"

    serve(scenario)


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/nothing",
        "/Pagetools.js",
        "/pagetools.js/",
        "/demo.html",
        "/static/pagetools.js",
        "/__init__.py",
        "/../bridge.py",
        "/../../etc/passwd",
        "/static/../../bridge.py",
        "/%2e%2e/bridge.py",
        "/..%2fbridge.py",
        "/demo/../../bridge.py",
        "/pagetools.js%00.txt",
        "/etc/passwd",
        "//etc/passwd",
        "/<script>alert(1)</script>",
    ],
)
def test_nothing_else_on_disk_can_be_reached(path: str) -> None:
    async def scenario(served: Served) -> None:
        answer = await http(served.port, f"GET {path} HTTP/1.1")
        assert (answer.status, answer.body) == (404, b"Not found.\n")
        assert answer.headers["content-type"] == "text/plain; charset=utf-8"

    serve(scenario)


def test_head_is_answered_like_get_without_the_body() -> None:
    async def scenario(served: Served) -> None:
        for path in ("/pagetools.js", "/health"):
            get = await http(served.port, f"GET {path} HTTP/1.1")
            head = await http(served.port, f"HEAD {path} HTTP/1.1")
            assert (head.status, head.headers, head.body) == (200, get.headers, b"")

    serve(scenario)


@pytest.mark.parametrize("method", ["POST", "PUT", "OPTIONS"])
@pytest.mark.parametrize("path", ["/pagetools.js", "/tools"])
def test_other_methods_are_not_allowed(method: str, path: str) -> None:
    async def scenario(served: Served) -> None:
        answer = await http(served.port, f"{method} {path} HTTP/1.1")
        assert answer.status == 405
        assert "GET" in answer.headers["allow"]

    serve(scenario)


def test_a_request_with_a_body_does_no_harm() -> None:
    async def scenario(served: Served) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        head = f"POST /tools HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\nContent-Length: 9\r\n\r\n"
        writer.write(head.encode() + b"a body")
        with suppress(ConnectionError):
            assert b" 200 " not in await within(reader.read())
        writer.close()
        assert await served.is_let_in(LOOPBACK)

    serve(scenario)


HOSTS = ["127.0.0.1:{}", "localhost:{}", "[::1]:{}"]
FOREIGN_HOSTS = [
    "rebound.evil.example:{}",
    "localhost.evil.example:{}",
    "127.0.0.1.nip.io:{}",
    "evil.example",
    "127.0.0.1:1",
    "localhost:80",
    "127.0.0.1",
    "localhost",
    "[::1]",
    "[::2]:{}",
    "0.0.0.0:{}",
    "127.0.0.2:{}",
    "user@localhost:{}",
    "localhost:{}:{}",
    "localhost:0{}",
    ":{}",
    "{}",
    None,
]


@pytest.mark.parametrize("host", HOSTS)
def test_requests_to_our_own_names_are_answered(host: str) -> None:
    async def scenario(served: Served) -> None:
        for path in ("/pagetools.js", "/health"):
            name = host.format(served.port)
            assert (await http(served.port, f"GET {path} HTTP/1.1", host=name)).status == 200

    serve(scenario)


@pytest.mark.parametrize("host", FOREIGN_HOSTS)
def test_requests_to_another_host_are_misdirected(host: str | None) -> None:
    async def scenario(served: Served) -> None:
        name = host and host.format(served.port, served.port)
        for path in ("/pagetools.js", "/health", "/demo", "/tools", "/nothing"):
            answer = await http(served.port, f"GET {path} HTTP/1.1", host=name)
            assert answer.status == 421, path
            assert answer.headers["content-type"] == "text/plain; charset=utf-8"
            assert "access-control-allow-origin" not in answer.headers

    serve(scenario)


UPGRADE = (
    "Connection: Upgrade",
    "Upgrade: websocket",
    "Sec-WebSocket-Version: 13",
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
)


def test_a_handshake_to_another_host_is_misdirected_even_with_the_token() -> None:
    async def scenario(served: Served) -> None:
        answer = await http(
            served.port,
            "GET /tools HTTP/1.1",
            *UPGRADE,
            f"Origin: {LOOPBACK}",
            f"Sec-WebSocket-Protocol: pagetools.token.{TOKEN}, pagetools.v1",
            host=f"rebound.evil.example:{served.port}",
        )
        assert answer.status == 421
        assert served.links.empty()

    serve(scenario)


@pytest.mark.parametrize(
    "head",
    [
        ("GET /health HTTP/1.1", "Host: localhost"),
        ("GET /pagetools.js HTTP/1.1", f"Origin: {LOOPBACK}", "Origin: null"),
        ("GET /tools HTTP/1.1", *UPGRADE, f"Origin: {LOOPBACK}", "Origin: null"),
        ("GET //[ HTTP/1.1",),
    ],
    ids=["two hosts", "two origins", "two origins at the door", "a path that is none"],
)
def test_a_malformed_request_is_the_askers_fault(head: tuple[str, ...]) -> None:
    async def scenario(served: Served) -> None:
        assert 400 <= (await http(served.port, *head)).status < 500
        assert served.links.empty()

    serve(scenario)


def test_the_tools_path_without_a_handshake_asks_for_one() -> None:
    async def scenario(served: Served) -> None:
        answer = await http(served.port, "GET /tools HTTP/1.1")
        assert answer.status == 426
        assert answer.headers["content-type"] == "text/plain; charset=utf-8"
        assert answer.headers["upgrade"] == "websocket"

    serve(scenario)


@pytest.mark.parametrize("path", ["/", "/tool", "/tools/", "/Tools", "/tools/x", "/pagetools"])
def test_a_handshake_on_another_path_is_refused(path: str) -> None:
    async def scenario(served: Served) -> None:
        with pytest.raises(InvalidStatus) as raised:
            async with served.page(path=path):
                pass
        assert raised.value.response.status_code == 404
        assert served.links.empty()

    serve(scenario)


def test_a_query_on_the_tools_path_changes_nothing() -> None:
    async def scenario(served: Served) -> None:
        async with served.page(path="/tools?x=1") as page:
            assert await echoed(page, "x") == "x"

    serve(scenario)


@pytest.mark.parametrize(
    "path", ["/pagetools.js", "/demo", "/demo.js", "/demo.css", "/health", "/nothing", "/tools"]
)
def test_no_answer_lets_a_browser_guess_its_type(path: str) -> None:
    async def scenario(served: Served) -> None:
        answer = await http(served.port, f"GET {path} HTTP/1.1")
        assert answer.headers.get("x-content-type-options") == "nosniff"

    serve(scenario)


@pytest.mark.parametrize("path", ["/pagetools.js", "/demo", "/health", "/nothing", "/tools"])
@pytest.mark.parametrize("origin", [None, "null", "https://evil.example", "http://localhost/"])
def test_pages_that_are_not_let_in_may_not_read_either(path: str, origin: str | None) -> None:
    async def scenario(served: Served) -> None:
        lines = [f"GET {path} HTTP/1.1", *([f"Origin: {origin}"] if origin else [])]
        answer = await http(served.port, *lines)
        assert not [name for name in answer.headers if name.startswith("access-control-")]
        assert "set-cookie" not in answer.headers

    serve(scenario)


@pytest.mark.parametrize("origin", [LOOPBACK, "https://app.localhost", "http://[::1]:5173"])
def test_pages_of_this_machine_may_load_the_client_from_another_port(origin: str) -> None:
    async def scenario(served: Served) -> None:
        answer = await http(served.port, "GET /pagetools.js HTTP/1.1", f"Origin: {origin}")
        assert answer.headers["access-control-allow-origin"] == origin
        assert "access-control-allow-credentials" not in answer.headers

    serve(scenario)


@pytest.mark.parametrize("origin", [None, LOOPBACK, "https://evil.example"])
def test_a_cache_keeps_answers_to_different_origins_apart(origin: str | None) -> None:
    async def scenario(served: Served) -> None:
        lines = [f"Origin: {origin}"] if origin else []
        answer = await http(served.port, "GET /pagetools.js HTTP/1.1", *lines)
        assert answer.headers["vary"] == "Origin"
        assert answer.headers["cache-control"] == "no-cache"

    serve(scenario)


# Frames

MASK = b"\x00\x00\x00\x00"


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        ("", "json"),
        ("{", "json"),
        ("not json", "json"),
        ('{"v": NaN}', "json"),
        ("[" * 100_000, "json"),
        ('{"a": 1} {"b": 2}', "json"),
        (b'{"type": "state"}', "binary"),
        (b"\x00\xff", "binary"),
    ],
)
def test_a_frame_that_cannot_be_read_is_answered_and_costs_nothing_else(
    frame: str | bytes, code: str
) -> None:
    async def scenario(served: Served) -> None:
        async with served.page() as page, served.page() as other:
            await page.send(frame)
            rejected = await hear(page)
            assert (rejected["type"], rejected["code"], rejected["v"]) == ("rejected", code, 1)
            assert rejected["message"].startswith("expected")
            assert len(rejected["message"]) < 300
            assert await echoed(page, "still here") == "still here"
            assert await echoed(other, "me too") == "me too"

    serve(scenario)


def test_any_json_value_is_handed_on() -> None:
    async def scenario(served: Served) -> None:
        async with served.page() as page:
            values: list[object] = [{}, [], "text", 1, 2.5, True, None, {"a": {"b": [1, None]}}]
            for value in values:
                assert await echoed(page, value) == value

    serve(scenario)


def test_a_message_of_the_largest_size_comes_through() -> None:
    async def scenario(served: Served) -> None:
        async with served.page() as page:
            await page.send('"' + "x" * (MAX_MESSAGE_BYTES - 2) + '"')
            assert len((await hear(page))["echo"]) == MAX_MESSAGE_BYTES - 2

    serve(scenario)


def test_a_larger_message_ends_that_link_and_no_other() -> None:
    async def scenario(served: Served) -> None:
        async with served.page() as page, served.page() as other:
            # The head of its frame is enough, and all the bridge waits for.
            size = MAX_MESSAGE_BYTES + 1
            page.transport.write(b"\x81\xff" + size.to_bytes(8, "big") + MASK)
            code, reason = await closed(page)
            assert code == 1009
            assert "16777216" in reason.replace(",", "")
            assert await echoed(other, "still here") == "still here"

    serve(scenario)


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (b"\x81\x01x", 1002),
        (b"\x81\x81" + MASK + b"\xff", 1007),
        (b"\xc1\x80" + MASK, 1002),
        (b"\x83\x80" + MASK, 1002),
        (b"\x89\xfe\x00\x7e" + MASK + b"x" * 126, 1002),
        (b"\x80\x80" + MASK, 1002),
        (b"\x81\xff" + (1 << 62).to_bytes(8, "big") + MASK, 1009),
    ],
    ids=["unmasked", "no UTF-8", "RSV bit", "opcode", "long ping", "continuation", "2^62 bytes"],
)
def test_a_frame_that_is_no_websocket_ends_that_link_and_no_other(raw: bytes, code: int) -> None:
    async def scenario(served: Served) -> None:
        async with served.page() as page, served.page() as other:
            assert await echoed(page, "hello") == "hello"
            page.transport.write(raw)
            assert (await closed(page))[0] == code
            assert await echoed(other, "still here") == "still here"

    serve(scenario)


def test_a_handler_that_fails_ends_its_link_and_no_other() -> None:
    async def scenario(served: Served) -> None:
        async with served.page() as page, served.page() as other:
            await page.send('"fail"')
            assert (await closed(page))[0] == 1011
            assert await echoed(other, "still here") == "still here"

    serve(scenario)


def test_half_a_handshake_keeps_nobody_waiting() -> None:
    async def scenario(served: Served) -> None:
        _, writer = await asyncio.open_connection("127.0.0.1", served.port)
        writer.write(b"GET /tools HT")
        assert await served.is_let_in(LOOPBACK)
        writer.close()
        await writer.wait_closed()

    serve(scenario)


# Load


async def pour(link: Link) -> None:
    """Send for as long as the link takes it."""
    for _ in range(1000):
        link.send({"text": "x" * 100_000})
        await asyncio.sleep(0)


def test_a_page_that_does_not_read_is_ended_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    # Little to catch up with, so that the page hears the reason before the time to close is up.
    monkeypatch.setattr(websocket, "MAX_UNSENT_BYTES", 64 * 1024)

    async def scenario(served: Served) -> None:
        async with served.page(max_queue=1) as deaf, served.page() as other:
            link = await within(served.links.get())
            with pytest.raises(ConnectionError, match="does not read"):
                await pour(link)
            with pytest.raises(ConnectionError):
                link.send({"small": "one"})
            assert await echoed(other, "still here") == "still here"
            code, reason = await closed(deaf)
            assert (code, reason) == (4429, "the page does not read what it is sent")

    serve(scenario)


def test_what_waits_for_a_page_that_does_not_read_is_bounded() -> None:
    async def scenario(served: Served) -> None:
        async with served.page(max_queue=1) as deaf:
            link = await within(served.links.get())
            sent = 0
            with suppress(ConnectionError):
                while sent < 100_000_000:
                    link.send({"text": "x" * 100_000})
                    sent += 100_000
            assert sent < 16_000_000
            await closed(deaf)

    serve(scenario)


def test_a_page_that_reads_slowly_is_kept() -> None:
    async def scenario(served: Served) -> None:
        async with served.page(max_queue=1) as page:
            link = await within(served.links.get())
            for _ in range(20):
                for _ in range(4):
                    link.send({"text": "x" * 1_000_000})
                for _ in range(4):
                    await hear(page)
            assert await echoed(page, "still here") == "still here"

    serve(scenario)


def test_three_hundred_pages_can_connect_at_once() -> None:
    async def scenario(served: Served) -> None:
        async def visit(number: int) -> object:
            async with served.page(f"http://localhost:{1000 + number}") as page:
                first = await echoed(page, number)
                everyone.append(page)
                if len(everyone) == 300:
                    all_there.set()
                await all_there.wait()
                assert await echoed(page, -number) == -number
                return first

        everyone: list[ClientConnection] = []
        all_there = asyncio.Event()
        visits = asyncio.gather(*(visit(number) for number in range(300)))
        assert await asyncio.wait_for(visits, 20) == list(range(300))

    serve(scenario)


# The end


def test_closing_tells_every_page_that_the_bridge_goes_away() -> None:
    async def scenario(served: Served) -> None:
        async with served.page() as first, served.page() as second:
            assert await echoed(first, 1) == 1
            assert await echoed(second, 2) == 2
            closing = asyncio.create_task(served.transport.close())
            for page in (first, second):
                assert await closed(page) == (1001, "the bridge was stopped")
            await within(closing)
            await within(served.transport.close())

    serve(scenario)


def test_the_port_can_be_taken_again_at_once() -> None:
    async def scenario(served: Served) -> None:
        async with served.page() as page:
            assert await echoed(page, 1) == 1
            served.transport.release_port()
            with bind(served.port):
                pass
            assert await echoed(page, 2) == 2  # who is connected stays until the close

    serve(scenario)


def test_a_transport_that_was_never_started_can_be_closed() -> None:
    async def main() -> None:
        listener = bind(0)
        port = listener.getsockname()[1]
        transport = WebSocketTransport(listener, TOKEN)
        await within(transport.close())
        await within(transport.close())
        with bind(port):
            pass

    asyncio.run(main())
