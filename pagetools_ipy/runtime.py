"""The port and the token that a kernel keeps when it is restarted.

Knows one file in Jupyter's runtime directory, readable by its owner only. Without it, every
restart would need a new snippet in every page.
"""

from __future__ import annotations

import json
import secrets
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

__all__ = ["Memory", "Remembered"]

_PREFIX = "pagetools-"


@dataclass(frozen=True, slots=True)
class Remembered:
    """What is kept.

    Attributes:
        port: Port last listened on, or None.
        token: Secret that lets a page of any origin in.
        mcpb_port: Port last listened on for MCP-B embeds, or None.
    """

    port: int | None
    token: str
    mcpb_port: int | None = None

    def __repr__(self) -> str:  # the token stays out of logs and notebooks
        return f"Remembered(port={self.port})"


class Memory:
    """Keeps one kernel's port and token.

    Args:
        key: What stays the same when the kernel restarts, such as the name of its connection
            file; None keeps nothing.
    """

    def __init__(self, key: str | None) -> None:
        self._key = key

    @property
    def path(self) -> Path | None:
        """The file, whether it exists or not."""
        if self._key is None:
            return None
        from jupyter_core.paths import jupyter_runtime_dir  # loaded in every kernel already

        return Path(jupyter_runtime_dir()) / f"{_PREFIX}{self._key}.json"

    def recall(self) -> Remembered:
        """What was kept, or a new token and no port; a damaged file counts as none."""
        try:
            kept = json.loads(self.path.read_text(encoding="utf-8")) if self.path else {}
            port, token = kept.get("port"), kept.get("token")
            if isinstance(token, str) and len(token) >= 32:
                return Remembered(_port(port), token, _port(kept.get("mcpb_port")))
        except (OSError, ValueError, AttributeError):
            pass
        return Remembered(None, secrets.token_urlsafe(32))

    def keep(self, remembered: Remembered) -> None:
        """Write it down; where that is not possible a restart will not find the port again."""
        if self.path is None:
            return
        from jupyter_core.paths import secure_write

        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._sweep(self.path.parent)
            with secure_write(str(self.path)) as file:
                kept = {k: v for k, v in asdict(remembered).items() if v is not None}
                json.dump(kept, file)
        except OSError:
            return

    def _sweep(self, folder: Path) -> None:
        """Remove what kernels left that will not come back: their connection file is gone."""
        for path in folder.glob(f"{_PREFIX}*.json"):
            if not (folder / path.name.removeprefix(_PREFIX)).exists():
                with suppress(OSError):
                    path.unlink()

    def forget(self) -> None:
        """Remove the file."""
        if self.path is not None:
            with suppress(OSError):
                self.path.unlink()


def _port(value: object) -> int | None:
    is_port = isinstance(value, int) and not isinstance(value, bool) and 0 < value <= 65535
    return value if is_port else None  # type: ignore[return-value]
