"""The interpreter levels of a service: scripts of users, webhooks, scripts of the product, what is built in.

Scripts and webhooks run in other processes, so that calls are awaited; decisions stay pure because services ask before
they decide (docs/sources.md#interpreters).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import Any, Final, Protocol

from schemas.events.policy import PolicyEvent
from schemas.manifest import Manifest
from services._kit.interpretation.lua.pool import LuaPool
from services._kit.interpretation.webhook_client import WebhookLevel
from services._kit.kube.client import KubeClient
from services._rules.interpreter.common.interpretation import InterpretError, Operation, target_of
from services._rules.interpreter.configuration import WEBHOOKS, Configured, Target
from services._rules.interpreter.native.replicas import completed
from services._rules.interpreter.native.status_conformance import ConformingInterpreter
from services._rules.interpreter.scripts.bundled import Shipped
from services._rules.interpreter.scripts.customizations import Customizations
from services._rules.interpreter.scripts.result_types import dependencies_of


class Level(Protocol):
    """One level above the built-in one: which operations it offers, and their results in the form of scripts."""

    def hook_enabled(self, api_version: str, kind: str, operation: Operation) -> bool:
        """Whether this level answers an operation for a kind."""
        ...

    async def call(self, operation: Operation, arguments: Sequence[Any]) -> Any:
        """The result of an operation on the first argument; raises InterpretError."""
        ...


class ScriptLevel:
    """A level of customizations in Lua. `replace` swaps them all at once."""

    def __init__(self, evaluator: LuaPool, customizations: Customizations | None = None) -> None:
        self._evaluator = evaluator
        self._customizations = customizations or Customizations()

    def replace(self, customizations: Customizations) -> None:
        """Use other customizations from the next call on."""
        self._customizations = customizations

    def hook_enabled(self, api_version: str, kind: str, operation: Operation) -> bool:
        """Whether a script answers an operation for a kind."""
        return self._customizations.hook_enabled(api_version, kind, operation)

    async def call(self, operation: Operation, arguments: Sequence[Any]) -> Any:
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


class Interpreters:
    """What a service asks about objects; processes for scripts start with the first call.

    Of the levels, the strongest first, the one that offers an operation first answers; the built-in one is the last.
    """

    def __init__(self, pool: LuaPool | None = None, levels: Sequence[Level] | None = None) -> None:
        self.configured = Configured()
        self._pool = pool or LuaPool()
        self._scripts = ScriptLevel(self._pool)
        self._webhooks = WebhookLevel()
        own = (self._scripts, self._webhooks, ScriptLevel(self._pool, Shipped()))
        self._levels = own if levels is None else tuple(levels)
        self._native: Final = ConformingInterpreter()

    def hook_enabled(self, api_version: str, kind: str, operation: Operation) -> bool:
        """Whether any level answers an operation for a kind."""
        return self.customized(api_version, kind, operation) or self._native.hook_enabled(api_version, kind, operation)

    def customized(self, api_version: str, kind: str, operation: Operation) -> bool:
        """Whether a level above the built-in one answers, so that the answer has to be awaited."""
        return any(level.hook_enabled(api_version, kind, operation) for level in self._levels)

    async def interpret(self, operation: Operation, obj: Manifest, *arguments: Any) -> Any:
        """The result of an operation; see Interpreter. Raises InterpretError."""
        target = target_of(obj)
        level = next((level for level in self._levels if level.hook_enabled(*target, operation)), None)
        if level is None:
            return self._native.interpret(operation, obj, *arguments)
        if operation == Operation.REPLICA:
            found = await level.call(operation, (obj,))
            return completed(obj, (found["replicas"], found["requirements"]), *arguments)
        if operation == Operation.AGGREGATE:
            # Scripts and webhooks are not given the time.
            arguments = arguments[:1]
        found = await level.call(operation, (obj, *arguments))
        return found or [] if operation == Operation.COMPONENT else found

    def reach_services(self, client: KubeClient) -> None:
        """Find webhooks that are Services through this control plane; else by their names within the cluster."""
        self._webhooks.reach_services(client)

    def take(self, event: PolicyEvent) -> frozenset[Target]:
        """Take in a fact about a policy; the kinds that are interpreted in another way from now on."""
        touched = self.configured.take(event)
        if touched and event.key.kind == WEBHOOKS:
            self._webhooks.replace(self.configured.webhooks)
        elif touched:
            self._scripts.replace(self.configured.customizations)
        return touched

    async def close(self) -> None:
        """End the processes for scripts and close the connections to webhooks; calls that wait fail."""
        await self._pool.close()
        await self._webhooks.close()
