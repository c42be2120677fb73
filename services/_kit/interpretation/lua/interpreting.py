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
    INTERPRET_REPLICA,
    InterpretError,
    target_of,
)
from services._rules.interpreter.native.native_kinds import NativeInterpreter
from services._rules.interpreter.native.replicas import completed
from services._rules.interpreter.scripts.customizations import Customizations
from services._rules.interpreter.scripts.result_types import dependencies_of


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
        target = target_of(arguments[0])
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

    def __init__(self, levels: Sequence[Level] = ()) -> None:
        self._levels = tuple(levels)
        self._native: Final = NativeInterpreter()

    def hook_enabled(self, api_version: str, kind: str, operation: str) -> bool:
        """Whether any level answers an operation for a kind."""
        return self.customized(api_version, kind, operation) or self._native.hook_enabled(api_version, kind, operation)

    def customized(self, api_version: str, kind: str, operation: str) -> bool:
        """Whether a level above the built-in one answers, so that the answer has to be awaited."""
        return any(level.hook_enabled(api_version, kind, operation) for level in self._levels)

    async def interpret(self, operation: str, obj: Manifest, *arguments: Any) -> Any:
        """The result of an operation; see Interpreter. Raises InterpretError."""
        target = target_of(obj)
        level = next((level for level in self._levels if level.hook_enabled(*target, operation)), None)
        if level is None:
            return self._native.interpret(operation, obj, *arguments)
        if operation == INTERPRET_REPLICA:
            found = await level.call(operation, (obj,))
            return completed(obj, (found["replicas"], found["requirements"]), *arguments)
        if operation == AGGREGATE_STATUS:
            # Scripts and webhooks are not given the time.
            arguments = arguments[:1]
        found = await level.call(operation, (obj, *arguments))
        return found or [] if operation == INTERPRET_COMPONENT else found
