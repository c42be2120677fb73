"""Decides for each setting that is given which services know it, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from schemas.topology import SERVICES
from services._kit.base.settings import FILE, PREFIX, Given, SettingsError, convert, given, read
from services.cli.common.printing import render, table
from services.cli.common.running import Failed
from services.cli.installation.environment import fields_of, known_names

Fields = Mapping[str, Any]
"""What a service knows: types by the names of fields."""

ALL_SERVICES: Final = (*SERVICES, "agent")
OTHERS: Final = "other processes"
"""`fleetlog up`, other commands, API servers and simulated members: their values are not checked here."""


class Checked(Struct, frozen=True):
    """One setting: as it was given, what knows it, and what is wrong; `problem` is empty where nothing is."""

    setting: str
    known_by: tuple[str, ...]
    problem: str = ""


def checked(
    settings: Iterable[Given], services: Mapping[str, Fields], others: frozenset[str], only: Sequence[str] = ()
) -> list[Checked]:
    """What is to be said of each setting; with `only`, these services have to know it.

    `others` are the names that other processes know, as fields.
    """
    asked = {name: services[name] for name in only or services}
    return [_checked(one, services, asked, others) for one in sorted(settings, key=lambda one: one.origin)]


def _checked(
    one: Given, services: Mapping[str, Fields], asked: Mapping[str, Fields], others: frozenset[str]
) -> Checked:
    known = (*(name for name, fields in services.items() if one.name in fields), *(OTHERS,) * (one.name in others))
    if not known:
        return Checked(one.origin, (), f"no service has this setting{_hint(one, services, others)}")
    if asked != services and not any(one.name in fields for fields in asked.values()):
        return Checked(one.origin, known, f"no setting of {', '.join(asked)}")
    for fields in asked.values():
        if one.name in fields:
            try:
                convert(one.value, fields[one.name])
            except msgspec.ValidationError as error:
                return Checked(one.origin, known, str(error))
    return Checked(one.origin, known)


def _hint(one: Given, services: Mapping[str, Fields], others: frozenset[str]) -> str:
    names = sorted(others.union(*services.values()))
    near = get_close_matches(one.name.lower(), names, 1)
    if not near:
        return ""
    return f"; did you mean {PREFIX + near[0].upper() if one.origin.startswith(PREFIX) else near[0]}?"


def run(file: Path | None, env_file: Path | None, only: Sequence[str], output: str) -> int:
    """Check a file, or the environment, and print what was found; 1 when something is wrong. Raises Failed."""
    services = {name: fields_of(name) for name in ALL_SERVICES}
    chosen = [name.replace("-", "_") for name in only]
    if strangers := [name for name in chosen if name not in services]:
        raise Failed(f"there is no service {strangers[0]}; use one of {', '.join(sorted(services))}")
    others = frozenset(name.removeprefix(PREFIX).lower() for name in known_names(()))
    found = checked(_given(file, env_file), services, others, chosen)
    render(output, lambda: [msgspec.to_builtins(one) for one in found], lambda: _text(found))
    return int(any(one.problem for one in found))


def _given(file: Path | None, env_file: Path | None) -> list[Given]:
    """The settings that are asked about."""
    if file is not None and env_file is not None:
        raise Failed("give a settings file or --env-file, not both")
    try:
        if file is not None:
            return [Given(name, value, name) for name, value in read(file).items()]
        if env_file is not None:
            # The file that it may name is another machine's.
            return given({**lines_of(env_file.read_text("utf-8"), str(env_file)), FILE: ""})
        return given()
    except SettingsError as error:
        raise Failed(str(error).removeprefix(f"{FILE}: ") if file is not None else str(error)) from None
    except (OSError, UnicodeDecodeError) as error:
        raise Failed(f"{env_file} cannot be read: {error}") from None


def lines_of(text: str, place: str) -> dict[str, str]:
    """The variables of lines KEY=VALUE, as shells and compositions read them; raises Failed for another line."""
    found = {}
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        name, equals, value = line.removeprefix("export ").partition("=")
        if not equals:
            raise Failed(f"{place}, line {number} is no KEY=VALUE")
        value = value.strip()
        quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "'\""
        found[name.strip()] = value[1:-1] if quoted else value
    return found


def _text(found: Sequence[Checked]) -> str:
    if not found:
        return "No setting is given.\n"
    rows = [(one.setting, one.problem, _known_by(one)) for one in found]
    return table(("setting", "problem", "known by"), rows)


def _known_by(one: Checked) -> str:
    return "all services" if one.known_by == ALL_SERVICES else ", ".join(one.known_by)
