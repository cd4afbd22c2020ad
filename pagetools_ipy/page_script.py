"""The page client as one classic script, to be run in pages that do not load it themselves.

Knows the files of the client and how to join them. Does not know how a script gets into a page.
"""

from __future__ import annotations

import json
import re
from functools import cache
from importlib import resources

ENTRY = "client"
"""The module whose `attachPage` starts the client."""

_IMPORT = re.compile(r"^import\s[^;]*?from '\./(?P<part>\w+)\.js';\n", re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(async )?(function|const|class)\b)", re.MULTILINE)

_FRAME = """\
(() => {
  const name = %(binding)s;
  const post = globalThis[name];
  const isPage = /^(https?|file|about|blob|data):$/.test(location.protocol);
  if (!isPage || typeof post !== 'function') return;
  delete globalThis[name];
%(parts)s
  const expose = (value) =>
    Object.defineProperty(globalThis, %(receiver)s, { value, configurable: true, writable: true });
  attachPage(globalThis, { key: %(key)s, port: %(port)s, post, expose });
})();
"""


@cache
def _parts() -> str:
    folder = resources.files("pagetools_ipy") / "static" / "pagetools"
    texts: dict[str, str] = {}

    def take(part: str) -> None:
        if part in texts:
            return
        text = (folder / f"{part}.js").read_text("utf-8")
        for found in _IMPORT.finditer(text):
            take(found["part"])
        texts[part] = _EXPORT.sub("", _IMPORT.sub("", text))  # after those it imports

    take(ENTRY)
    return "\n".join(texts.values())


def page_script(binding: str, key: str, port: int) -> str:
    """The script for one bridge.

    Args:
        binding: Name of the function that carries texts out of the page; the script keeps it for
            itself.
        key: What tells the bridge from others.
        port: The port at which pages can reach the bridge themselves.
    """
    names = {"binding": json.dumps(binding), "receiver": _receiver(binding)}
    return _FRAME % {**names, "key": json.dumps(key), "port": port, "parts": _parts()}


def delivery(binding: str, text: str) -> str:
    """What is to be evaluated in a document to hand its client a text."""
    return f"globalThis[{_receiver(binding)}]({json.dumps(text)})"


def _receiver(binding: str) -> str:
    # Not the name of the binding: the browser puts that one back in a page it takes out of its
    # cache.
    return json.dumps(f"{binding}_in")
