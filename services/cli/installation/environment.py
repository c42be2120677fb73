"""Hands the FLEETLOG_* variables of a command's environment to those processes that know them, and to no others."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping, MutableMapping
from difflib import get_close_matches
from typing import Any, Final

from msgspec.structs import fields

from services._kit.base.settings import FILE, OF_COMMANDS, PREFIX, Settings
from services.cli.common.running import Failed
from services.cli.supervision.liveness import Limits

UP: Final = "FLEETLOG_UP_"
_ANSWERS_AGENTS: Final = f"{UP}ANSWERS_AGENTS"
MEMBER: Final = "FLEETLOG_MEMBER_"
APISERVER: Final = "FLEETLOG_APISERVER_"
OF_TESTS: Final = "FLEETLOG_TEST_"
"""Variables that tests hand to what they run inside of an installation."""
OF_NO_SERVICE: Final = frozenset(
    (
        FILE,
        # Of the commands, of the compositions, and of the tests that run on clusters of a user.
        *OF_COMMANDS,
        *("FLEETLOG_AGENT", "FLEETLOG_USER"),
        *(f"FLEETLOG_{name}_PORT" for name in ("CONTROL", "GRAFANA", "LOG", "PROMETHEUS")),
        *("FLEETLOG_STOCK_CONTROL", "FLEETLOG_STOCK_MEMBERS"),
    )
)


class Unknown(ValueError):
    """A variable that no process of an installation knows; the message says what it could be."""


def refuse_unknown(environment: Iterable[str], services: Iterable[str]) -> None:
    """Raises Unknown for a FLEETLOG_* variable that neither these services nor the other processes know."""
    given = [name for name in environment if name.startswith(PREFIX) and not name.startswith(OF_TESTS)]
    if not given:
        return
    known = known_names(services)
    for name in sorted(given):
        if name not in known:
            # What all begin with would make all of them alike.
            near = get_close_matches(name.removeprefix(PREFIX), [one.removeprefix(PREFIX) for one in sorted(known)], 1)
            hint = f"; did you mean {PREFIX}{near[0]}?" if near else "; unset it"
            raise Unknown(f"{name}: no such setting{hint}")


def known_names(services: Iterable[str]) -> frozenset[str]:
    """Every variable that these services, API servers, simulated members, `fleetlog up` and other commands know."""
    from services.apiserver.settings import VARIABLES
    from services.member_sim.settings import MemberSettings

    names = {*OF_NO_SERVICE, *VARIABLES, _ANSWERS_AGENTS}
    names.update(f"{UP}{field.name.upper()}_SECONDS" for field in fields(Limits))
    names.update(f"{MEMBER}{field.name.upper()}" for field in fields(MemberSettings))
    for service in services:
        names |= settings_of(service)
    return frozenset(names)


def take(environment: MutableMapping[str, str]) -> dict[str, str]:
    """Remove every FLEETLOG_* variable but the settings file's, and return them: each service gets what it knows.

    Commands have variables of their own (FLEETLOG_DIR), and most settings concern one service.
    """
    names = [name for name in environment if name.startswith(PREFIX) and name != FILE]
    return {name: environment.pop(name) for name in names}


def known_to(service: str, variables: Mapping[str, str]) -> dict[str, str]:
    """Those variables that are settings of a service."""
    names = settings_of(service)
    return {name: value for name, value in variables.items() if name in names}


def known_to_api_server(variables: Mapping[str, str]) -> dict[str, str]:
    """Those variables of services that the API server reads as well."""
    from services.apiserver.settings import SHARED

    return {name: value for name, value in variables.items() if name in SHARED}


def settings_of(service: str) -> set[str]:
    """The variables that a service reads."""
    return {f"{PREFIX}{name.upper()}" for name in fields_of(service)}


def fields_of(service: str) -> dict[str, Any]:
    """The settings that a service knows: types by the names of fields."""
    module = importlib.import_module(f"services.{service}.settings")
    kinds = [kind for kind in vars(module).values() if isinstance(kind, type) and issubclass(kind, Settings)]
    return {field.name: field.type for kind in kinds for field in fields(kind)}


def beginning_with(prefix: str, variables: Mapping[str, str], services: Iterable[str]) -> dict[str, str]:
    """Those variables that begin with a prefix, unless they are settings of one of these services."""
    found = {name: value for name, value in variables.items() if name.startswith(prefix)}
    for service in services if found else ():
        for name in known_to(service, found):
            del found[name]
    return found


def limits_of(variables: Mapping[str, str]) -> Limits:
    """How long a process may take to answer, from FLEETLOG_UP_*; raises Failed for what is no number of seconds."""
    values = {}
    for name in fields(Limits):
        variable = f"{UP}{name.name.upper()}_SECONDS"
        text = variables.get(variable, "")
        try:
            values[name.name] = float(text) if text else getattr(Limits(), name.name)
        except ValueError:
            raise Failed(f"{variable}={text}: give a number of seconds, or 0 to wait for ever") from None
        if not 0 <= values[name.name] < float("inf"):
            raise Failed(f"{variable}={text}: give a number of seconds, or 0 to wait for ever")
    return Limits(**values)


def answers_agents(variables: Mapping[str, str]) -> bool:
    """Whether `fleetlog up` lets clusters in that register with a token; raises Failed for no truth value."""
    text = variables.get(_ANSWERS_AGENTS, "true").lower()
    if text not in ("true", "false"):
        raise Failed(f"{_ANSWERS_AGENTS}={text}: say true or false")
    return text == "true"
