"""Texts for terminals: what stands out, and texts of other systems without what would steer a terminal."""

from __future__ import annotations

import os
import re
from typing import Any, Final

import typer

_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\x9b]")
"""What steers a terminal; line breaks and tabs are no part of it."""


def strong(text: str, stream: Any, colour: str = "") -> str:
    """A text that stands out, where a terminal shows it and NO_COLOR does not forbid it."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" or not stream.isatty():
        return text
    return typer.style(text, fg=colour or None, bold=True)


def harmless(text: str) -> str:
    """A text of another system with its control characters made visible."""
    return _CONTROLS.sub(lambda found: f"^{chr(ord(found[0]) & 127 ^ 64)}", text)
