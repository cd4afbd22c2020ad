"""What a page's server answers, and the policies in that.

Knows HTTP, and how browsers read a Content-Security-Policy. Does not know what a policy means for
a bridge, and does not see what a person sees: it has neither their cookies nor their logins.
"""

from __future__ import annotations

import html
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any, NamedTuple
from urllib.error import HTTPError
from urllib.parse import quote, urlsplit, urlunsplit
from urllib.request import (
    BaseHandler,
    HTTPDefaultErrorHandler,
    HTTPErrorProcessor,
    HTTPHandler,
    HTTPRedirectHandler,
    HTTPSHandler,
    OpenerDirector,
    Request,
)

VISIT_SECONDS = 5.0
"""How long a page's server may take to answer."""

MAX_PAGE_BYTES = 512 * 1024
"""How much of a page is read."""

_HEADERS = {"Accept": "text/html", "User-Agent": "pagetools-doctor"}


@dataclass(frozen=True, slots=True)
class Visit:
    """What a page's server answered.

    Attributes:
        url: Where the page is, after redirects.
        status: Its HTTP status.
        headers: Its headers, with names in lower case; a name may come several times.
        html: Its text, or the start of it.
    """

    url: str
    status: int
    headers: tuple[tuple[str, str], ...]
    html: str

    def all(self, name: str) -> list[str]:
        """Values of a header."""
        return [value for key, value in self.headers if key == name]

    @property
    def origin(self) -> str:
        """The page's origin."""
        return origin_of(self.url)


def origin_of(url: str) -> str:
    """The origin of a URL, as browsers write it."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}".lower()


def fetch(url: str) -> Visit:
    """Ask for a page once, without cookies, proxies or scripts. Blocks.

    Raises:
        OSError: If there is no answer, or none that is HTTP.
        ValueError: If that is no address of a page.
    """
    opener = OpenerDirector()
    # Those that urllib takes otherwise would follow the environment's proxies, and open files.
    handlers: tuple[Callable[[], BaseHandler], ...] = (
        *(HTTPHandler, HTTPSHandler, HTTPRedirectHandler),
        *(HTTPDefaultErrorHandler, HTTPErrorProcessor),
    )
    for handler in handlers:
        opener.add_handler(handler())
    give_up_at = time.monotonic() + VISIT_SECONDS
    try:
        answer = opener.open(Request(_ascii(url), headers=_HEADERS), timeout=VISIT_SECONDS)
    except HTTPError as refusal:
        answer = refusal  # it has all that an answer has
    except HTTPException as problem:
        raise OSError(f"what answers does not speak HTTP ({problem})") from None
    with answer:
        headers = tuple((name.lower(), value) for name, value in answer.headers.items())
        text = _read(answer, give_up_at).decode(errors="replace")
        return Visit(answer.url, answer.status, headers, text)


def _ascii(url: str) -> str:
    """An address as it goes over the wire."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    netloc = parts.netloc.replace(host, host.encode("idna").decode()) if host else parts.netloc
    path, query = (quote(part, safe="/?%:@!$&'()*+,;=") for part in (parts.path, parts.query))
    return urlunsplit((parts.scheme, netloc, path, query, ""))


def _read(answer: Any, give_up_at: float) -> bytes:
    body = b""
    while len(body) < MAX_PAGE_BYTES and time.monotonic() < give_up_at:
        try:
            part = answer.read1(MAX_PAGE_BYTES - len(body))
        except (HTTPException, OSError, ValueError):
            break  # what has come will do
        if not part:
            break
        body += part
    return body


class Policy(NamedTuple):
    """A Content-Security-Policy.

    Attributes:
        place: Where it stands.
        directives: Sources by name of the directive.
    """

    place: str
    directives: Mapping[str, list[str]]

    def effective(self, *names: str) -> str | None:
        """The first directive of these that it has, or else ``default-src``; None if neither."""
        return next((name for name in (*names, "default-src") if name in self.directives), None)


_META = re.compile(
    r"<meta\b[^<>]*http-equiv\s*=\s*[\"']?content-security-policy(?![\w-])[^<>]*", re.IGNORECASE
)
_CONTENT = re.compile(r"content\s*=\s*(?:\"([^\"]*)\"|'([^']*)')", re.IGNORECASE)
_SOURCE = re.compile(r"(?:([a-z][a-z0-9+.-]*)://)?(\*|[^/:]+)(?::(\d+|\*))?(/.*)?")


def policies(visit: Visit) -> Iterator[Policy]:
    """The policies of a page, from its headers and from its HTML; all of them hold."""
    headers = visit.all("content-security-policy")
    metas = (_CONTENT.search(found[0]) for found in _META.finditer(visit.html))
    texts = [("header", part) for header in headers for part in header.split(",")]
    texts += [("meta element", html.unescape(m[1] or m[2] or "")) for m in metas if m]
    for place, text in texts:
        directives: dict[str, list[str]] = {}
        for words in (part.split() for part in text.split(";")):
            if words:
                directives.setdefault(words[0].lower(), words[1:])
        yield Policy(place, directives)


def allows(sources: Iterable[str], url: str, page_scheme: str) -> bool:
    """Whether a list of sources allows a URL of this machine, as browsers read it."""
    wanted = urlsplit(url)
    for source in (source.lower() for source in sources):
        if source in ("*", f"{wanted.scheme}:"):
            return True
        found = _SOURCE.fullmatch(source)
        if (
            found
            and (found[1] or page_scheme) == wanted.scheme
            and found[2] in ("*", wanted.hostname)
            and found[3] in ("*", str(wanted.port))
            and found[4] in (None, "/", wanted.path)
        ):
            return True
    return False
