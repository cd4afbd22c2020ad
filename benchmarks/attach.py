"""What attaching to a browser costs: 50 tabs, one call, a page that keeps changing its tools.

    python benchmarks/attach.py

Prints and writes to build/attach.json: the seconds until 50 open tabs are listed (goal: under 3);
a call that does nothing, over the debugging port and over the page's own socket, as medians in
milliseconds and as their ratio; and what a page that adds and removes a tool 550 times a second
costs the process, as a share of one core (goal: under 5 %), and how often it declares its tools
(goal: at most 4 times a second).
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from pagetools_ipy import Tools  # noqa: E402
from pagetools_ipy.bridge import Bridge  # noqa: E402
from pagetools_ipy.host import ThreadHost  # noqa: E402
from tests.cdp import chromium  # noqa: E402

TABS, CALLS, CHURN_SECONDS = 50, 300, 10

PLAIN = """<!doctype html><title>Page</title><script>
document.modelContext.registerTool({name: 'noop', description: 'Nothing',
  inputSchema: {type: 'object'}, execute: () => null});
</script>"""
SOCKET = """<!doctype html><title>Socket</title><script type="module">
const {register} = await import('%s/pagetools.js');
register('socket', [{name: 'noop_by_socket', execute: () => null}]);
</script>"""
CHURN = """<!doctype html><title>Churn</title><script>
let n = 0, end = new AbortController();
const step = () => {
  end.abort();
  end = new AbortController();
  for (let i = 0; i < 5; i++) {
    document.modelContext.registerTool({name: `tool_${n++ % 17}`, description: 'x',
      inputSchema: {type: 'object'}, execute: () => n}, {signal: end.signal});
  }
};
setInterval(step, 18);
</script>"""


class Site(ThreadingHTTPServer):
    daemon_threads = True
    pages: dict[str, str] = {}


class Handler(BaseHTTPRequestHandler):
    server: Site

    def do_GET(self) -> None:
        body = self.server.pages.get(self.path.partition("?")[0], "<title>none</title>").encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


async def median_ms(call: Callable[[], Awaitable[Any]]) -> float:
    times = []
    for _ in range(CALLS):
        began = time.perf_counter()
        await call()
        times.append((time.perf_counter() - began) * 1000)
    return statistics.median(times)


async def attach_to_many(bridge: Bridge, site: str) -> float:
    async with chromium("--enable-features=WebMCPTesting") as browser:
        for number in range(TABS):
            await browser.open_unwatched(f"{site}/plain?{number}")
        await asyncio.sleep(5)  # all are loaded
        began = time.perf_counter()
        await bridge.host.relay(bridge.browsers.attach(browser.address))
        while len(Tools(lambda: bridge).registrations()) < TABS:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        seconds = time.perf_counter() - began
        await bridge.host.relay(bridge.browsers.detach())
    return seconds


async def call_both_ways(bridge: Bridge, site: str) -> tuple[float, float]:
    urls = [f"{site}/plain", f"{site}/socket"]
    await bridge.host.relay(bridge.browsers.open(urls, headless=True))
    tools = Tools(lambda: bridge)
    await tools.wait_for("noop_by_socket")
    attached = await median_ms(tools.noop)
    socket = await median_ms(tools.noop_by_socket)
    await bridge.host.relay(bridge.browsers.close())
    return attached, socket


async def churn(bridge: Bridge, site: str) -> tuple[float, float]:
    await bridge.host.relay(bridge.browsers.open([f"{site}/churn"], headless=True))
    await asyncio.sleep(2)
    declared: list[float] = []
    declare = bridge.directory.handle_client_message

    def count(client_id: str, raw: Any) -> None:
        if raw["type"] == "register":
            declared.append(time.perf_counter())
        declare(client_id, raw)

    bridge.directory.handle_client_message = count  # type: ignore[method-assign]
    cpu, began = time.process_time(), time.perf_counter()
    await asyncio.sleep(CHURN_SECONDS)
    spent, seconds = time.process_time() - cpu, time.perf_counter() - began
    await bridge.host.relay(bridge.browsers.close())
    return spent / seconds, len(declared) / seconds


async def main() -> None:
    site = Site(("127.0.0.1", 0), Handler)
    threading.Thread(target=site.serve_forever, daemon=True).start()
    bridge = Bridge(ThreadHost())
    bridge.start()
    site.pages = {"/plain": PLAIN, "/socket": SOCKET % bridge.url, "/churn": CHURN}
    url = f"http://127.0.0.1:{site.server_port}"
    try:
        listed_after = await attach_to_many(bridge, url)
        attached, socket = await call_both_ways(bridge, url)
        cpu, updates = await churn(bridge, url)
    finally:
        bridge.stop()
    figures = {
        "seconds until 50 tabs are listed": round(listed_after, 2),
        "call over the debugging port, ms": round(attached, 2),
        "call over the page's own socket, ms": round(socket, 2),
        "ratio": round(attached / socket, 2),
        "cpu of 550 changes a second": round(cpu, 4),
        "tools declared, times a second": round(updates, 2),
    }
    for name, figure in figures.items():
        print(f"{name:40} {figure}")
    target = ROOT / "build" / "attach.json"
    target.parent.mkdir(exist_ok=True)
    target.write_text(json.dumps(figures, indent=2), encoding="utf-8")


if __name__ == "__main__":
    asyncio.run(main())
