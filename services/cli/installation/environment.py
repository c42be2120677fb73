"""Hands the FLEETLOG_* variables of a command's environment to those processes that know them, and to no others."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping, MutableMapping

from msgspec.structs import fields

from services._kit.base.settings import FILE, PREFIX, Settings


def take(environment: MutableMapping[str, str]) -> dict[str, str]:
    """Remove every FLEETLOG_* variable but the settings file's, and return them: services refuse what they do not know.

    Commands have variables of their own (FLEETLOG_DIR), and most settings concern one service.
    """
    names = [name for name in environment if name.startswith(PREFIX) and name != FILE]
    return {name: environment.pop(name) for name in names}


def known_to(service: str, variables: Mapping[str, str]) -> dict[str, str]:
    """Those variables that are settings of a service."""
    module = importlib.import_module(f"services.{service}.settings")
    kinds = [
        kind
        for kind in vars(module).values()
        if isinstance(kind, type) and issubclass(kind, Settings) and kind is not Settings
    ]
    names = {f"{PREFIX}{field.name.upper()}" for kind in kinds for field in fields(kind)}
    return {name: value for name, value in variables.items() if name in names}


def beginning_with(prefix: str, variables: Mapping[str, str], services: Iterable[str]) -> dict[str, str]:
    """Those variables that begin with a prefix, unless they are settings of one of these services."""
    found = {name: value for name, value in variables.items() if name.startswith(prefix)}
    for service in services if found else ():
        for name in known_to(service, found):
            del found[name]
    return found
