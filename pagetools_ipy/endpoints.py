"""Where browsers' debugging ports are.

Knows addresses, the folders in which browsers keep their profiles, and what a debugging port
answers over HTTP. Does not know the protocol that is spoken there afterwards.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import os
import re
import socket
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from .errors import BrowserError
from .text import brief, shorten

DEFAULT_PORT = 9222
"""The port that people and programs choose when they have no other in mind."""

ANSWER_SECONDS = 2.0
"""How long a debugging port may take to say what it is."""

MAX_ANSWER_BYTES = 64 * 1024

PORT_FILE = "DevToolsActivePort"
"""Where in its profile a browser writes the port, and the path below it, that it listens on."""

_HERE = "127.0.0.1"
_LISTEN_SECONDS = 0.2
_PATH = re.compile(r"/[!-~]*")
_HOST = re.compile(r"[0-9A-Za-z._:-]+")
_EXPECTED = (
    f"expected a port such as {DEFAULT_PORT}, an address such as http://127.0.0.1:{DEFAULT_PORT} "
    f"or ws://127.0.0.1:{DEFAULT_PORT}/devtools/browser/..., or the folder of a profile"
)

_LINUX = (
    "google-chrome",
    "google-chrome-beta",
    "google-chrome-unstable",
    "chromium",
    "microsoft-edge",
    "microsoft-edge-beta",
    "microsoft-edge-dev",
    "BraveSoftware/Brave-Browser",
    "vivaldi",
)
_LINUX_BOXES = (
    "snap/chromium/common/chromium",
    ".var/app/com.google.Chrome/config/google-chrome",
    ".var/app/org.chromium.Chromium/config/chromium",
    ".var/app/com.microsoft.Edge/config/microsoft-edge",
    ".var/app/com.brave.Browser/config/BraveSoftware/Brave-Browser",
)
_MACOS = (
    "Google/Chrome",
    "Google/Chrome Beta",
    "Google/Chrome Dev",
    "Google/Chrome Canary",
    "Chromium",
    "Microsoft Edge",
    "Microsoft Edge Beta",
    "Microsoft Edge Dev",
    "BraveSoftware/Brave-Browser",
    "Vivaldi",
)
_WINDOWS = (
    "Google/Chrome",
    "Google/Chrome Beta",
    "Google/Chrome Dev",
    "Google/Chrome SxS",
    "Chromium",
    "Microsoft/Edge",
    "Microsoft/Edge Beta",
    "Microsoft/Edge Dev",
    "BraveSoftware/Brave-Browser",
    "Vivaldi",
)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A browser's debugging port.

    Attributes:
        label: What a person calls it, such as ``port 9222``.
        host: Machine it is on.
        port: Its number.
        path: Path of its WebSocket, if known; it changes when the browser is restarted.
        profile: Folder in which the browser says where it listens, if it is to be looked up there.
    """

    label: str
    host: str
    port: int
    path: str | None = None
    profile: Path | None = None

    async def resolve(self) -> str:
        """The ``ws://`` address at which the browser is now.

        Raises:
            BrowserError: If there is none, or what is there is no browser.
        """
        port, known = self.port, self.path
        if self.profile is not None:
            port, known = _read_port_file(self.profile)
        status, body = await self._ask(port)
        # Of what it answers only the path counts: it must not send us anywhere else.
        told = _websocket_path(body) if status == 200 else None
        if self.profile is not None and told not in (known, None):
            raise _no_browser_of(self.profile, f"on the port it had, {port}, there is another one")
        path = told or known
        if path is None:
            raise self._not_a_browser(status, body)
        return f"ws://{_authority(self.host, port)}{path}"

    async def _ask(self, port: int) -> tuple[int, bytes]:
        where = _label(self.host, port)
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await _get(self.host, port, "/json/version")
        except TimeoutError:
            raise self._error(
                f"{where} does not answer within {ANSWER_SECONDS:g} s; if a browser is meant to "
                "be there, it may be starting, stopped or hung"
            ) from None
        except ConnectionRefusedError:
            if self.profile is not None:  # browsers leave the file behind when they end
                problem = f"nothing listens on the port it had, {port}"
                raise _no_browser_of(self.profile, problem) from None
            raise self._error(f"nothing listens on {where}; {_how_to_start(port)}") from None
        except OSError as problem:
            raise self._error(f"cannot connect to {where}: {problem}") from None
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError):
            raise self._error(
                f"{where} answers, but not in HTTP as a browser's debugging port does; is it the "
                "port of another program?"
            ) from None

    def _not_a_browser(self, status: int, body: bytes) -> BrowserError:
        if status == 404:
            return self._error(
                f"{self.label} does not say where its browser is (HTTP 404 for /json/version). "
                "Remote debugging that was switched on at chrome://inspect does so: attach with "
                "the folder of the browser's profile instead, and allow it in the browser's window"
            )
        said = shorten(body.decode(errors="replace"), 80)
        return self._error(
            f"{self.label} answers, but is no browser's debugging port: /json/version gave HTTP "
            f"{status}" + (f", {said}" if said else "")
        )

    def _error(self, problem: str) -> BrowserError:
        return BrowserError(problem, endpoint=self.label)


def parse_endpoint(where: object = None, *, remote: bool = False) -> list[Endpoint]:
    """Where to look for a browser, best first.

    Args:
        where: A port, an address, or the folder of a profile; None for the usual places.
        remote: Whether it may be on another machine.

    Raises:
        BrowserError: If it is none of these, is on another machine, or if no browser of that
            profile has a debugging port.
    """
    match where:
        case None:
            return [*_running_profiles(), _at(_HERE, DEFAULT_PORT)]
        case bool():
            pass
        case int():
            return [_at(_HERE, where)]
        case os.PathLike():
            return [_of_profile(Path(where))]
        case str() if text := where.strip():
            return [_from_text(text, remote)]
    raise _unknown(where)


def _from_text(text: str, remote: bool) -> Endpoint:
    if text.isdecimal():
        return _at(_HERE, int(text[:9]))
    if text.startswith(("/", "~", ".")) or "\\" in text or Path(text).is_dir():
        return _of_profile(Path(text))
    try:
        parts = urlsplit(text if "://" in text else f"http://{text}")
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise _unknown(text) from None
    path = f"{parts.path}?{parts.query}" if parts.query else parts.path
    is_one_page = path.startswith("/devtools/page/")
    if parts.scheme not in ("http", "ws") or not _HOST.fullmatch(host) or port is None:
        raise _unknown(text)
    if parts.scheme == "ws" and (is_one_page or not _PATH.fullmatch(path or "/")):
        raise _unknown(text)
    host = _HERE if host == "localhost" else host  # where browsers listen; ::1 would be refused
    if not remote and not _is_loopback(host):
        raise BrowserError(
            f"{shorten(host)} is not this machine, and a browser there is not taken for yours; "
            "say --remote, or remote=True, if you mean it",
            endpoint=_label(host, port),
        )
    return _at(host, port, path if parts.scheme == "ws" and path not in ("", "/") else None)


def _at(host: str, port: int, path: str | None = None) -> Endpoint:
    if not 0 < port < 65536:
        raise BrowserError(f"expected a port from 1 to 65535, got {brief(port)}")
    return Endpoint(_label(host, port), host, port, path)


def _of_profile(given: Path) -> Endpoint:
    given = Path(os.path.expanduser(given)).absolute()
    # What chrome://version calls the profile's path is a folder within the one that is meant.
    for folder in (given, given.parent):
        if (folder / PORT_FILE).is_file():
            port, path = _read_port_file(folder)
            return Endpoint(_name(folder), _HERE, port, path, folder)
    raise _no_browser_of(given, f"there is no {PORT_FILE} in it")


def _read_port_file(folder: Path) -> tuple[int, str]:
    """The port, and the path below it, at which a profile's browser listens or last listened."""
    problem = f"its {PORT_FILE} does not hold a port and a path"
    try:
        with (folder / PORT_FILE).open("rb") as file:
            port, path = file.read(1000).decode("ascii").split()
        if 0 < int(port) < 65536 and _PATH.fullmatch(path):
            return int(port), path
    except ValueError:
        pass
    except OSError as failure:
        problem = f"its {PORT_FILE} cannot be read ({failure.strerror})"
    raise _no_browser_of(folder, problem)


def _name(profile: Path) -> str:
    return f"the profile {shorten(str(profile))}"


def _no_browser_of(profile: Path, problem: str) -> BrowserError:
    return BrowserError(
        f"no browser with a debugging port runs with {_name(profile)}: {problem}; "
        f"{_how_to_start(DEFAULT_PORT)}",
        endpoint=_name(profile),
    )


def _running_profiles() -> Iterator[Endpoint]:
    """Profiles whose browser listens, the last started first."""
    found: list[tuple[float, Endpoint]] = []
    home = Path(os.path.expanduser("~"))
    for folder in known_profiles(sys.platform, home, os.environ):
        with suppress(OSError, BrowserError):
            written = (folder / PORT_FILE).stat().st_mtime
            found.append((written, _of_profile(folder)))
    for _, endpoint in sorted(found, key=lambda pair: -pair[0]):
        if _listens(endpoint.port):
            yield endpoint


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(_LISTEN_SECONDS)
        return probe.connect_ex((_HERE, port)) == 0


def known_profiles(platform: str, home: Path, environ: Mapping[str, str]) -> list[Path]:
    """Folders in which browsers keep a person's profiles, whether they exist or not."""
    if platform == "win32":
        local = Path(environ.get("LOCALAPPDATA") or home / "AppData" / "Local")
        return [local / name / "User Data" for name in _WINDOWS]
    if platform == "darwin":
        return [home / "Library" / "Application Support" / name for name in _MACOS]
    config = Path(environ.get("XDG_CONFIG_HOME") or home / ".config")
    return [config / name for name in _LINUX] + [home / name for name in _LINUX_BOXES]


def _is_loopback(host: str) -> bool:
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return False


def _authority(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _label(host: str, port: int) -> str:
    return f"port {port}" if host == _HERE else _authority(host, port)


def _how_to_start(port: int) -> str:
    return (
        f"start the browser with --remote-debugging-port={port} --user-data-dir=DIR (Chrome 136 "
        "and later ignore the port without a folder of your choice), or have `%pagetools open URL` "
        "start one"
    )


def _unknown(where: object) -> BrowserError:
    return BrowserError(f"{_EXPECTED}; got {brief(where)}")


def _websocket_path(body: bytes) -> str | None:
    """The path of the WebSocket that ``/json/version`` names; None if it names none."""
    try:
        path = urlsplit(json.loads(body)["webSocketDebuggerUrl"]).path
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return path if isinstance(path, str) and _PATH.fullmatch(path) else None


async def _get(host: str, port: int, path: str) -> tuple[int, bytes]:
    """Status and body of what an HTTP server answers; no proxy, no redirect, bounded.

    Raises:
        OSError: If it cannot be reached.
        ValueError: If it does not speak HTTP; so do `asyncio.IncompleteReadError` and
            `asyncio.LimitOverrunError` say.
    """
    reader, writer = await asyncio.open_connection(host, port, limit=MAX_ANSWER_BYTES)
    try:
        writer.write(
            f"GET {path} HTTP/1.1\r\nHost: {_authority(host, port)}\r\n"
            "Connection: close\r\n\r\n".encode("ascii")
        )
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        version, status = head.split(None, 2)[:2]
        if not version.startswith("HTTP/") or not status.isdecimal():
            raise ValueError("not HTTP")
        length = re.search(r"(?im)^content-length:\s*(\d{1,9})\s*$", head)
        expected = min(int(length[1]), MAX_ANSWER_BYTES) if length else MAX_ANSWER_BYTES
        body = b""
        while len(body) < expected and (part := await reader.read(expected - len(body))):
            body += part
        return int(status), body
    finally:
        writer.transport.abort()
