"""Queries the interpreter levels above the built-in one for members' objects; tracks their kinds and last changes."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from schemas.events.policy import PolicyEvent
from schemas.manifest import Manifest
from services._kit.interpretation.interpreter_levels import Interpreters
from services._kit.interpretation.lua.process import WorkerUnavailable
from services._kit.kube.client import KubeClient
from services._rules.delivery.apply import (
    Reflection,
    ReportedStatus,
    collectable,
    merge,
    not_interpreted,
    reflect,
    retained,
)
from services._rules.interpreter import InterpretError, InterpretLater, Operation
from services._rules.interpreter.configuration import Target, concerns
from services._rules.secrets.redaction import failure_of_secret
from services._rules.secrets.secret_objects import is_secret

_PROBLEMS: Final = (InterpretError, WorkerUnavailable)


class Offered(Struct, frozen=True):
    """Operations that a level above the built-in one answers for a kind; `since` is another number after a change."""

    retain: bool = False
    status: bool = False
    health: bool = False
    since: int = 0

    @property
    def anything(self) -> bool:
        """Whether any operation has to be asked for."""
        return self.retain or self.status or self.health


class Interpretation:
    """What the lanes of one service ask; fed with the facts about what users configured."""

    def __init__(self, interpreters: Interpreters | None = None) -> None:
        self._interpreters = interpreters or Interpreters()
        self._offered: dict[Target, Offered] = {}
        self._changes = 0

    def reach_services(self, client: KubeClient) -> None:
        """Find webhooks that are Services through this control plane."""
        self._interpreters.reach_services(client)

    async def close(self) -> None:
        """End the processes for scripts."""
        await self._interpreters.close()

    def take(self, event: PolicyEvent) -> frozenset[Target]:
        """Take in a fact; returns the kinds asked about so far whose objects have to be compared again."""
        touched = self._interpreters.take(event)
        if not touched:
            return frozenset()
        self._changes += 1
        found: set[Target] = set()
        for target, before in self._offered.items():
            if not concerns(touched, *target):
                continue
            now = self._look_up(target)
            if before.anything or now.anything:
                self._offered[target] = now
                found.add(target)
        return frozenset(found)

    def offered(self, api_version: str, kind: str) -> Offered:
        """What has to be asked for about objects of a kind."""
        target = (api_version, kind)
        found = self._offered.get(target)
        if found is None:
            found = self._offered[target] = self._look_up(target)
        return found

    def _look_up(self, target: Target) -> Offered:
        secret = is_secret(*target)
        # A Secret goes to scripts that were written for Secrets, and to no webhook, whose rules may match every kind.
        asked = self._interpreters.configured.customizations.hook_enabled if secret else self._interpreters.customized
        return Offered(
            retain=asked(*target, Operation.RETAIN),
            # What a script takes from a Secret for its status would lie on the log in clear.
            status=not secret and asked(*target, Operation.STATUS),
            health=asked(*target, Operation.HEALTH),
            since=self._changes,
        )

    async def retain(self, desired: Manifest, live: Manifest, cluster: str) -> Manifest:
        """What to write over the live object; raises InterpretError with the operation, the cluster and the remedy."""
        merged = merge(desired, live)
        try:
            return retained(await self._interpreters.interpret(Operation.RETAIN, merged, live), merged)
        except _PROBLEMS as error:
            text = not_interpreted(Operation.RETAIN, live, cluster, str(error))
            raise (InterpretLater if _is_passing(error) else InterpretError)(text) from None

    async def reflect(self, live: Manifest, offered: Offered, cluster: str) -> Reflection:
        """Status and health of a member's object."""
        status = await self._result(Operation.STATUS, live, cluster) if offered.status else None
        health = await self._result(Operation.HEALTH, live, cluster) if offered.health else None
        return reflect(live, status, health)

    async def _result(self, operation: Operation, live: Manifest, cluster: str) -> ReportedStatus:
        try:
            found = await self._interpreters.interpret(operation, live)
            return ReportedStatus(collectable(found) if operation == Operation.STATUS and found is not None else found)
        except _PROBLEMS as error:
            why = failure_of_secret(error) if is_secret(live["apiVersion"], live["kind"]) else str(error)
            return ReportedStatus(problem=not_interpreted(operation, live, cluster, why), passing=_is_passing(error))


def _is_passing(error: Exception) -> bool:
    """Whether the same question may have an answer later."""
    return isinstance(error, InterpretLater | WorkerUnavailable)
