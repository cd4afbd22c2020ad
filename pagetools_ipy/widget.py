"""The live panel in a notebook: an anywidget that carries what a `Panel` sends.

Knows ipywidgets. Loaded when a panel is first shown, since ipywidgets is slow to import.
"""

from __future__ import annotations

import threading
from importlib import resources
from typing import Any

import anywidget
import traitlets

from .panel import Panel
from .panel_view import Json

_STATIC = resources.files("pagetools_ipy") / "static"


def _current(_: Any, widget: PanelWidget) -> Json:
    return widget.panel.state


class PanelWidget(anywidget.AnyWidget):
    """Shows a panel; may be displayed any number of times.

    Args:
        panel: What is shown.
    """

    _esm = (_STATIC / "widget.js").read_text("utf-8")
    _css = (_STATIC / "widget.css").read_text("utf-8")

    # Read when a front end asks, such as after a reload of its page; changes in between go as
    # messages, which cost the same however many tabs there are.
    state = traitlets.Dict().tag(sync=True, to_json=_current)

    def __init__(self, panel: Panel) -> None:
        self.panel = panel
        self._sending = threading.Lock()
        super().__init__()
        panel.send = self._tell
        self.on_msg(self._take)

    def show(self, panel: Panel) -> None:
        """Show another panel from now on, wherever the widget is displayed."""
        panel.take_over(self.panel)
        self.panel = panel

    def _tell(self, message: Json) -> None:
        with self._sending:
            self.send(message)

    def _take(self, _: Any, message: Any, buffers: Any) -> None:
        self.panel.receive(message)

    def _repr_mimebundle_(self, **options: Any) -> Any:
        text = self.panel.summary()
        data, metadata = super()._repr_mimebundle_(**options) or ({}, {})
        # Kept in a saved notebook, so nothing a page said is in it.
        return {**data, "text/plain": text, "text/html": f"<p>{text}</p>"}, metadata
