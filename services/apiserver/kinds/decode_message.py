"""The text with which a body of the wrong shape is refused."""

from __future__ import annotations

from typing import Any

from services.apiserver.kinds.schemas import ShapeError


def render(name: str, obj: Any, raw: bytes | None, error: ShapeError) -> str:  # noqa: ARG001
    """Return the message for a shape error."""
    return str(error)
