"""The package is cut in rows; a module imports only from rows above its own."""

from __future__ import annotations

import ast
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "pagetools_ipy"

ROWS = [
    {"text"},
    {"errors"},
    {"limits", "schema", "frames"},
    {"messages", "arguments", "results", "runtime", "cells", "front_ends"},
    {"devtools", "endpoints", "page_script", "browser_guard", "visits"},
    {"invocations", "browsers"},
    {"routing", "calls", "views", "active_tabs"},
    {"changes", "deadlines", "connections", "tables", "panel_view"},
    {"tab_index", "heartbeat", "claims"},
    {"index", "presence"},
    {"pending", "declarations"},
    {"directory", "transports"},
    {"transports.loopback", "transports.cdp_link", "host", "relay"},
    {"transports.websocket"},
    {
        "transports.mcpb",
        "transports.cdp_documents",
        "transports.cdp_probe",
        "transports.cdp_loading",
    },
    {"transports.cdp_target"},
    {"transports.cdp_control"},
    {"transports.cdp"},
    {"attachments"},
    {"panel"},
    {"widget"},
    {"bridge"},
    {"callables"},
    {"browser_tabs"},
    {"browsing"},
    {"request"},
    {"diagnosis"},
    {"live", "completion", "browser_verbs", "doctor"},
    {"verbs"},
    {"magics"},
    {""},
]

THIRD_PARTY = {
    "msgspec": {"messages", "frames", "devtools"},
    "jsonschema_rs": {"schema"},
    "yaml": {"arguments"},
    "jupyter_core": {"runtime", "front_ends"},
    "websockets": {
        "transports.loopback",
        "transports.websocket",
        "transports.mcpb",
        "devtools",
    },
    "anywidget": {"widget"},
    "traitlets": {"widget"},
    "nest_asyncio2": {"host"},
    "IPython": {"magics", "verbs", "browser_verbs", "request", "live", "completion", ""},
    "ipykernel": {"verbs"},
}


def modules() -> dict[str, ast.Module]:
    found = {}
    for path in PACKAGE.rglob("*.py"):
        name = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
        name = name.removesuffix("__init__").removesuffix(".")
        found[name] = ast.parse(path.read_text("utf-8"))
    return found


def imports(name: str, tree: ast.Module) -> set[str]:
    """Modules of the package that one imports, also within functions and for types only."""
    package = name if name in ("", "transports") else name.rpartition(".")[0]
    found = set()
    for node in ast.walk(tree):
        if not isinstance(node, ast.ImportFrom) or not node.level:
            continue
        base = package if node.level == 1 else package.rpartition(".")[0]
        target = ".".join(part for part in (base, node.module) if part)
        names = (
            [target]
            if node.module
            else [".".join(part for part in (base, alias.name) if part) for alias in node.names]
        )
        found |= {n if n in ALL else base for n in names}
    return found - {name}


def third_party(tree: ast.Module) -> set[str]:
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            found.add(node.module.partition(".")[0])
    return found


ALL = set().union(*ROWS)
ROW = {module: number for number, row in enumerate(ROWS) for module in row}


def test_every_module_has_a_row() -> None:
    assert set(modules()) == ALL


def test_modules_import_only_from_rows_above() -> None:
    wrong = [
        f"{name or 'pagetools_ipy'} imports {target}"
        for name, tree in modules().items()
        for target in imports(name, tree)
        if ROW[target] >= ROW[name]
    ]
    assert wrong == []


def test_third_party_packages_are_used_in_their_one_place() -> None:
    wrong = [
        f"{name or 'pagetools_ipy'} imports {package}"
        for name, tree in modules().items()
        for package in third_party(tree)
        if package in THIRD_PARTY and name not in THIRD_PARTY[package]
    ]
    assert wrong == []


def test_no_module_is_longer_than_a_person_reads_in_one_go() -> None:
    too_long = {
        path.name: lines
        for path in PACKAGE.rglob("*.py")
        # The errors are a list to look things up in.
        if (lines := path.read_text("utf-8").count("\n")) > 440 and path.name != "errors.py"
    }
    assert too_long == {}


def test_the_test_would_notice_a_wrong_import() -> None:
    planted = ast.parse("from .bridge import Bridge\ndef f():\n    from . import magics")
    assert imports("errors", planted) == {"bridge", "magics"}
    assert imports("transports.websocket", ast.parse("from ..errors import x")) == {"errors"}
    assert imports("transports.websocket", ast.parse("from . import OnLink")) == {"transports"}
