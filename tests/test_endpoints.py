"""`endpoints`: what a person types, what a profile says, and what a port answers."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pagetools_ipy import endpoints
from pagetools_ipy.endpoints import Endpoint, known_profiles, parse_endpoint
from pagetools_ipy.errors import BrowserError

BROWSER = "/devtools/browser/6f0a"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder in which no browser has been."""
    for name in ("XDG_CONFIG_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    for name in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(name, str(tmp_path))
    return tmp_path


@pytest.fixture
def listener() -> Iterator[int]:
    """A port on which something listens, and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture
def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def write_port_file(folder: Path, port: int, path: str = BROWSER, *, at: float = 0) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "DevToolsActivePort"
    file.write_text(f"{port}\n{path}")
    os.utime(file, (at, at))
    return folder


def fails(where: object, **options: bool) -> str:
    with pytest.raises(BrowserError) as caught:
        parse_endpoint(where, **options)
    return str(caught.value)


class TestWhatIsTyped:
    @pytest.mark.parametrize(
        ("typed", "host", "port", "path"),
        [
            (9222, "127.0.0.1", 9222, None),
            ("9222", "127.0.0.1", 9222, None),
            (" 9333 ", "127.0.0.1", 9333, None),
            ("127.0.0.1:9222", "127.0.0.1", 9222, None),
            ("localhost:9222", "127.0.0.1", 9222, None),
            ("[::1]:9222", "::1", 9222, None),
            ("http://127.0.0.1:9222", "127.0.0.1", 9222, None),
            ("http://LOCALHOST:9222/json/version", "127.0.0.1", 9222, None),
            ("ws://127.0.0.1:9222", "127.0.0.1", 9222, None),
            (f"ws://127.0.0.1:9222{BROWSER}", "127.0.0.1", 9222, BROWSER),
            (f"ws://127.0.0.1:9222{BROWSER}?key=1", "127.0.0.1", 9222, f"{BROWSER}?key=1"),
        ],
    )
    def test_ports_and_addresses_are_understood(
        self, typed: object, host: str, port: int, path: str | None
    ) -> None:
        (endpoint,) = parse_endpoint(typed)
        assert (endpoint.host, endpoint.port, endpoint.path) == (host, port, path)
        assert endpoint.profile is None

    def test_a_port_of_this_machine_is_called_by_its_number(self) -> None:
        assert parse_endpoint("localhost:9222")[0].label == "port 9222"
        assert parse_endpoint("[::1]:9222")[0].label == "[::1]:9222"

    @pytest.mark.parametrize(
        "typed",
        [
            "",
            "chrome",
            "127.0.0.1",
            "http://127.0.0.1",
            "https://127.0.0.1:9222",
            "http://:9222",
            "http://127.0.0.1:port",
            "http://[::1:9222",
            "127.0.0.1 :9222",
            "ws://127.0.0.1:9222/devtools/page/6F0A",
            "ws://127.0.0.1:9222/a b",
            True,
            9222.0,
            ["9222"],
        ],
    )
    def test_anything_else_is_told_what_was_expected_and_what_came(self, typed: object) -> None:
        problem = fails(typed)
        assert problem.startswith("expected a port such as 9222, an address")
        assert problem.endswith(f"got {typed!r}")

    @pytest.mark.parametrize("port", [0, -1, 65536, "0", "99999999999999999999", "localhost:0"])
    def test_a_port_that_cannot_be_is_refused(self, port: object) -> None:
        assert "expected a port from 1 to 65535" in fails(port)

    @pytest.mark.parametrize(
        "typed",
        [
            "192.168.1.7:9222",
            "http://build.example:9222",
            "ws://0.0.0.0:9222/x",
            "http://localhost.evil.example:9222",
            "http://127.0.0.1:9222@evil.example:80/",
        ],
    )
    def test_another_machine_is_refused_unless_it_is_meant(self, typed: str) -> None:
        assert "is not this machine" in fails(typed)
        assert "--remote" in fails(typed)
        assert len(parse_endpoint(typed, remote=True)) == 1


class TestProfiles:
    def test_a_profile_says_where_its_browser_listens(self, tmp_path: Path) -> None:
        folder = write_port_file(tmp_path / "profile", 40123)
        for given in (folder, str(folder), folder / "Default", folder / "DevToolsActivePort"):
            (endpoint,) = parse_endpoint(given)
            assert endpoint == Endpoint(
                f"the profile {folder}", "127.0.0.1", 40123, BROWSER, folder
            )

    def test_a_profile_may_be_given_from_home_or_from_here(
        self, home: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        folder = write_port_file(home / "profile", 40123)
        monkeypatch.chdir(home)
        for given in ("~/profile", "./profile", "profile"):
            assert parse_endpoint(given)[0].profile == folder

    def test_a_profile_without_a_debugging_port_is_told_how_to_get_one(self, home: Path) -> None:
        problem = fails(home / "profile")
        assert f"runs with the profile {home / 'profile'}" in problem
        assert "--remote-debugging-port=9222 --user-data-dir=DIR" in problem

    @pytest.mark.parametrize("text", ["", "9222", "port\n/path", "0\n/p", "70000\n/p", "9222\np"])
    def test_a_damaged_file_is_told(self, tmp_path: Path, text: str) -> None:
        (tmp_path / "DevToolsActivePort").write_text(text)
        assert "DevToolsActivePort does not hold a port and a path" in fails(tmp_path)

    def test_without_a_word_the_usual_port_is_tried(self) -> None:
        assert [endpoint.label for endpoint in parse_endpoint()] == ["port 9222"]

    @pytest.mark.skipif(os.name == "nt", reason="the folders of Linux and macOS")
    def test_the_profiles_of_browsers_that_run_come_first_the_newest_ahead(
        self, home: Path, listener: int, closed_port: int
    ) -> None:
        known = known_profiles(endpoints.sys.platform, home, {})
        write_port_file(known[0], listener, at=1000)
        write_port_file(known[1], listener, at=2000)
        write_port_file(known[2], closed_port, at=3000)
        known[3].mkdir(parents=True)
        (known[3] / "DevToolsActivePort").write_text("nonsense")
        found = parse_endpoint()
        assert [endpoint.profile for endpoint in found] == [known[1], known[0], None]

    def test_each_system_has_its_folders(self) -> None:
        home = Path("/home/me")
        linux = known_profiles("linux", home, {})
        assert home / ".config/google-chrome" in linux
        assert home / "snap/chromium/common/chromium" in linux
        assert home / ".var/app/com.google.Chrome/config/google-chrome" in linux
        assert Path("/cfg/chromium") in known_profiles("linux", home, {"XDG_CONFIG_HOME": "/cfg"})
        mac = known_profiles("darwin", home, {})
        assert home / "Library/Application Support/Google/Chrome" in mac
        windows = known_profiles("win32", home, {"LOCALAPPDATA": "/local"})
        assert Path("/local/Microsoft/Edge/User Data") in windows


def http(body: object, status: str = "200 OK", *, length: int | None = None) -> bytes:
    text = (body if isinstance(body, str) else json.dumps(body)).encode()
    said = len(text) if length is None else length
    return f"HTTP/1.1 {status}\r\nContent-Length: {said}\r\n\r\n".encode() + text


def version(path: str = BROWSER, host: str = "127.0.0.1:1") -> bytes:
    return http({"Browser": "Chrome/156", "webSocketDebuggerUrl": f"ws://{host}{path}"})


class Server:
    """Gives the same answer to everybody, and leaves the connection open."""

    def __init__(self, answer: bytes) -> None:
        self._answer = answer
        self._serving: set[asyncio.Task[None] | None] = set()
        self.asked: list[bytes] = []
        self.port = 0

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._serving.add(asyncio.current_task())
        self.asked.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(self._answer)
        with contextlib.suppress(OSError):
            await reader.read()  # until the other side has had enough
        writer.transport.abort()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        async with server:
            yield
            await asyncio.gather(*filter(None, self._serving))


def ask(
    answer: bytes, make: Callable[[int], Endpoint] | None = None
) -> tuple[str | BrowserError, Server]:
    """What an endpoint makes of a server's answer."""
    server = Server(answer)

    async def main() -> str | BrowserError:
        async with server.running():
            endpoint = make(server.port) if make else parse_endpoint(server.port)[0]
            try:
                return await endpoint.resolve()
            except BrowserError as problem:
                return problem

    return asyncio.run(main()), server


def resolved(awaitable: Callable[[], Awaitable[Any]]) -> str:
    async def main() -> Any:
        return await awaitable()

    with pytest.raises(BrowserError) as caught:
        asyncio.run(main())
    return str(caught.value)


class TestWhatThePortAnswers:
    def test_a_browser_names_its_path(self) -> None:
        address, server = ask(version())
        assert address == f"ws://127.0.0.1:{server.port}{BROWSER}"
        (question,) = server.asked
        assert question.startswith(b"GET /json/version HTTP/1.1\r\n")
        assert f"Host: 127.0.0.1:{server.port}".encode() in question

    def test_host_and_port_stay_what_they_were_whatever_is_answered(self) -> None:
        address, server = ask(version(host="evil.example:80"))
        assert address == f"ws://127.0.0.1:{server.port}{BROWSER}"

    def test_a_browser_that_was_restarted_is_found_by_its_new_path(self) -> None:
        address, server = ask(
            version("/devtools/browser/new"),
            lambda port: parse_endpoint(f"ws://127.0.0.1:{port}/devtools/browser/old")[0],
        )
        assert address == f"ws://127.0.0.1:{server.port}/devtools/browser/new"

    def test_a_browser_that_says_nothing_is_reached_by_the_path_that_is_known(self) -> None:
        address, server = ask(
            http("", "404 Not Found"),
            lambda port: parse_endpoint(f"ws://127.0.0.1:{port}{BROWSER}")[0],
        )
        assert address == f"ws://127.0.0.1:{server.port}{BROWSER}"

    def test_without_a_path_it_points_to_the_profile(self) -> None:
        problem, _ = ask(http("", "404 Not Found"))
        assert "HTTP 404" in str(problem)
        assert "chrome://inspect" in str(problem)
        assert "folder of the browser's profile" in str(problem)

    @pytest.mark.parametrize(
        ("answer", "told"),
        [
            (http("<h1>Hello</h1>"), "HTTP 200, <h1>Hello</h1>"),
            (http({"Browser": "node.js/v22"}), 'HTTP 200, {"Browser": "node.js/v22"}'),
            (http({"webSocketDebuggerUrl": 7}), "HTTP 200"),
            (http({"webSocketDebuggerUrl": "ws://[x"}), "HTTP 200"),
            (http({"webSocketDebuggerUrl": "ws://h:1/a b"}), "HTTP 200"),
            (http("[" * 60_000), "HTTP 200"),
            (http("moved", "302 Found\r\nLocation: http://127.0.0.1:1/"), "HTTP 302, moved"),
            (http("Host header", "500 Error"), "HTTP 500, Host header"),
        ],
    )
    def test_another_server_is_no_browser(self, answer: bytes, told: str) -> None:
        problem, server = ask(answer)
        assert isinstance(problem, BrowserError)
        assert problem.endpoint == f"port {server.port}"
        assert "is no browser's debugging port" in str(problem)
        assert told in str(problem)
        assert len(server.asked) == 1

    @pytest.mark.parametrize(
        "answer", [b"SSH-2.0-OpenSSH_9\r\n\r\n", b"HTTP/1.1 yes\r\n\r\n", b"\0" * 100_000]
    )
    def test_what_does_not_speak_http_is_told(self, answer: bytes) -> None:
        problem, _ = ask(answer)
        assert "not in HTTP" in str(problem)

    def test_an_endless_answer_is_not_waited_for(self) -> None:
        problem, _ = ask(http("x" * 1_000_000, length=10**9))
        assert "is no browser's debugging port" in str(problem)

    def test_a_port_that_keeps_silent_is_given_up(
        self, monkeypatch: pytest.MonkeyPatch, listener: int
    ) -> None:
        monkeypatch.setattr(endpoints, "ANSWER_SECONDS", 0.02)
        problem = resolved(parse_endpoint(listener)[0].resolve)
        assert f"port {listener} does not answer within 0.02 s" in problem

    def test_a_port_on_which_nothing_listens_is_told_how_to_get_one(self, closed_port: int) -> None:
        problem = resolved(parse_endpoint(closed_port)[0].resolve)
        assert f"nothing listens on port {closed_port}" in problem
        assert f"--remote-debugging-port={closed_port} --user-data-dir=DIR" in problem

    def test_a_proxy_of_the_environment_is_not_asked(
        self, monkeypatch: pytest.MonkeyPatch, closed_port: int
    ) -> None:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{closed_port}")
        address, server = ask(version())
        assert address == f"ws://127.0.0.1:{server.port}{BROWSER}"


class TestWhatAProfileLeadsTo:
    def test_the_file_is_read_again_each_time(self, tmp_path: Path) -> None:
        (endpoint,) = parse_endpoint(write_port_file(tmp_path, 1, "/devtools/browser/old"))

        def restart(port: int) -> Endpoint:
            write_port_file(tmp_path, port)
            return endpoint

        address, server = ask(version(), restart)
        assert address == f"ws://127.0.0.1:{server.port}{BROWSER}"

    def test_a_browser_that_asks_the_person_first_is_reached_by_the_file_alone(
        self, tmp_path: Path
    ) -> None:
        address, server = ask(
            http("", "404 Not Found"),
            lambda port: parse_endpoint(write_port_file(tmp_path, port))[0],
        )
        assert address == f"ws://127.0.0.1:{server.port}{BROWSER}"

    def test_another_browser_on_its_old_port_is_not_taken_for_it(self, tmp_path: Path) -> None:
        problem, _ = ask(
            version("/devtools/browser/other"),
            lambda port: parse_endpoint(write_port_file(tmp_path, port))[0],
        )
        assert "there is another one" in str(problem)

    def test_a_file_that_a_browser_left_behind_leads_to_nothing(
        self, tmp_path: Path, closed_port: int
    ) -> None:
        (endpoint,) = parse_endpoint(write_port_file(tmp_path, closed_port))
        problem = resolved(endpoint.resolve)
        assert (
            f"the profile {tmp_path}: nothing listens on the port it had, {closed_port}" in problem
        )

    def test_a_file_that_has_gone_is_told(self, tmp_path: Path) -> None:
        (endpoint,) = parse_endpoint(write_port_file(tmp_path, 1))
        (tmp_path / "DevToolsActivePort").unlink()
        assert "cannot be read" in resolved(endpoint.resolve)
