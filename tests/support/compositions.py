"""The compositions as they are committed, and the settings that a service reads from them."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any, Final

import yaml

from services._kit.base.settings import Settings

ROOT: Final = Path(__file__).parents[2]


def _services(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.load((ROOT / name).read_text(), Loader=yaml.CSafeLoader)["services"]
    return found


COMPOSE: Final = _services("compose.ha.yaml")
LOCAL: Final = _services("compose.yaml")


def filled(text: str) -> str:
    """A text of a composition with the defaults of its variables."""
    return re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", text)


def settings_of(service: str) -> type[Settings]:
    """The kind of settings that a service has."""
    module = importlib.import_module(f"services.{service}.settings")
    (kind,) = (
        kind
        for kind in vars(module).values()
        if isinstance(kind, type) and issubclass(kind, Settings) and kind.__module__ == module.__name__
    )
    return kind
