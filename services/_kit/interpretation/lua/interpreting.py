"""Interpretation through all levels, for services: scripts of users before the built-in rules (reference 03 §5.2).

Scripts run in other processes, so that calls are awaited; decisions stay pure because services ask before they decide.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import Any, Final, Protocol

from schemas.manifest import Manifest
from services._rules.interpreter.common.interpretation import (
    AGGREGATE_STATUS,
    INTERPRET_COMPONENT,
    INTERPRET_DEPENDENCY,
    INTERPRET_HEALTH,
    INTERPRET_REPLICA,
    INTERPRET_STATUS,
    RETAIN,
    REVISE_REPLICA,
    InterpretError,
)
from services._rules.interpreter.interpreter_chain import InterpreterChain
from services._rules.interpreter.native.dependencies import Reference
from services._rules.interpreter.native.native_kinds import NativeInterpreter
from services._rules.interpreter.native.replicas import Replicas, completed
from services._rules.interpreter.scripts.customizations import Customizations
from services._rules.interpreter.scripts.result_types import dependencies_of

_Items = Sequence[Manifest] | None


class Evaluator(Protocol):
    """Runs one script; see LuaPool."""

    async def evaluate(self, operation: str, script: str, arguments: Sequence[Any]) -> Any:
        """The result of one operation; raises InterpretError."""
        ...


class Level(Protocol):
    """One level above the built-in one: which operations it offers, and their results in the form of scripts."""

    def hook_enabled(self, api_version: str, kind: str, operation: str) -> bool:
        """Whether this level answers an operation for a kind."""
        ...

    async def call(self, operation: str, arguments: Sequence[Any]) -> Any:
        """The result of an operation on the first argument; raises InterpretError."""
        ...


class ScriptLevel:
    """A level of customizations in Lua. `replace` swaps them all at once."""

    def __init__(self, evaluator: Evaluator, customizations: Customizations | None = None) -> None:
        self._evaluator = evaluator
        self._customizations = customizations or Customizations()

    def replace(self, customizations: Customizations) -> None:
        """Use other customizations from the next call on."""
        self._customizations = customizations

    def hook_enabled(self, api_version: str, kind: str, operation: str) -> bool:
        """Whether a script answers an operation for a kind."""
        return self._customizations.hook_enabled(api_version, kind, operation)

    async def call(self, operation: str, arguments: Sequence[Any]) -> Any:
        """The result of the operation's script, of all scripts together for dependencies."""
        target = _target(arguments[0])
        scripts = self._customizations.scripts(*target, operation)
        authors = self._customizations.authors(*target, operation)
        found = []
        for script, author in zip_longest(scripts, authors):
            try:
                found.append(await self._evaluator.evaluate(operation, script, arguments))
            except InterpretError as error:
                # The message names the script to be fixed.
                whose = f"ResourceInterpreterCustomization {author}" if author else "the script shipped for this kind"
                raise type(error)(f"{whose}: {error}") from None
        return dependencies_of(found) if len(found) > 1 else found[0]


class Interpreting:
    """The levels in order, the strongest first, the built-in one last; the first that offers an operation answers."""

    def __init__(self, levels: Sequence[Level] = (), native: InterpreterChain | None = None) -> None:
        self._levels = tuple(levels)
        self._native: Final = native or InterpreterChain([NativeInterpreter()])

    def _level(self, obj: Manifest, operation: str) -> Level | None:
        target = _target(obj)
        return next((level for level in self._levels if level.hook_enabled(*target, operation)), None)

    def hook_enabled(self, api_version: str, kind: str, operation: str) -> bool:
        """Whether any level answers an operation for a kind."""
        return self.customized(api_version, kind, operation) or self._native.hook_enabled(api_version, kind, operation)

    def customized(self, api_version: str, kind: str, operation: str) -> bool:
        """Whether a level above the built-in one answers, so that the answer has to be awaited."""
        return any(level.hook_enabled(api_version, kind, operation) for level in self._levels)

    async def get_replicas(self, obj: Manifest, *, quota: bool = False) -> Replicas:
        """Replicas and what each of them requires; `quota` adds namespace and priority class."""
        level = self._level(obj, INTERPRET_REPLICA)
        if level is None:
            return self._native.get_replicas(obj, quota=quota)
        found = await level.call(INTERPRET_REPLICA, (obj,))
        return completed(obj, (found["replicas"], found["requirements"]), quota=quota)

    async def get_components(self, obj: Manifest) -> list[dict[str, Any]]:
        """Components of a workload of several pod templates."""
        level = self._level(obj, INTERPRET_COMPONENT)
        return (
            self._native.get_components(obj) if level is None else await level.call(INTERPRET_COMPONENT, (obj,)) or []
        )

    async def revise_replica(self, obj: Manifest, replicas: int) -> Manifest:
        """The object with another number of replicas."""
        level = self._level(obj, REVISE_REPLICA)
        if level is None:
            return self._native.revise_replica(obj, replicas)
        revised: Manifest = await level.call(REVISE_REPLICA, (obj, replicas))
        return revised

    async def retain(self, desired: Manifest, observed: Manifest) -> Manifest:
        """The object to write over the observed one."""
        level = self._level(desired, RETAIN)
        if level is None:
            return self._native.retain(desired, observed)
        retained: Manifest = await level.call(RETAIN, (desired, observed))
        return retained

    async def aggregate_status(self, obj: Manifest, items: _Items, *, now: str) -> Manifest:
        """The template with the status that the members' reports add up to; scripts know no `now`."""
        level = self._level(obj, AGGREGATE_STATUS)
        if level is None:
            return self._native.aggregate_status(obj, items, now=now)
        summed: Manifest = await level.call(AGGREGATE_STATUS, (obj, items))
        return summed

    async def get_dependencies(self, obj: Manifest) -> list[Reference]:
        """References to the objects that must accompany this one."""
        level = self._level(obj, INTERPRET_DEPENDENCY)
        return self._native.get_dependencies(obj) if level is None else await level.call(INTERPRET_DEPENDENCY, (obj,))

    async def reflect_status(self, obj: Manifest) -> Any:
        """The status to collect, None where there is nothing to collect."""
        level = self._level(obj, INTERPRET_STATUS)
        return self._native.reflect_status(obj) if level is None else await level.call(INTERPRET_STATUS, (obj,))

    async def interpret_health(self, obj: Manifest) -> bool:
        """Whether a member's object does what it should."""
        level = self._level(obj, INTERPRET_HEALTH)
        return self._native.interpret_health(obj) if level is None else bool(await level.call(INTERPRET_HEALTH, (obj,)))


def _target(obj: Manifest) -> tuple[str, str]:
    return str(obj.get("apiVersion")), str(obj.get("kind"))
