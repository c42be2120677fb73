"""A logger that loads structlog with its first line, for modules that commands load and seldom log in."""

from __future__ import annotations

from typing import Any


class LateLogger:
    """What `structlog.get_logger(name)` returns, obtained at each use."""

    def __init__(self, name: str = "") -> None:
        self._name = name

    def __getattr__(self, method: str) -> Any:
        import structlog

        return getattr(structlog.get_logger(self._name) if self._name else structlog.get_logger(), method)
