"""Keeps aggregated ClusterRoles equal to the rules of the roles that their selectors choose."""

from __future__ import annotations

from typing import Final

from schemas.manifest import Manifest
from services._kit.concurrency.keyed_work import WorkQueue
from services._rules.kubernetes.rbac.aggregation import aggregated_rules
from services._rules.kubernetes.rbac.role_index import GROUP
from services.apiserver.core.request_context import LOOPBACK, Call
from services.apiserver.core.status_errors import ApiError
from services.apiserver.store.store_port import Event
from services.apiserver.writes.object_writes import Objects

_PLURAL: Final = "clusterroles"
_ALL: Final = ""
_WORD: Final = b'"aggregationRule"'


class RoleAggregation:
    """Follows ClusterRoles."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._queue: WorkQueue[str] = WorkQueue(self._handle)
        self._call = Call(LOOPBACK, verb="update", manager="clusterrole-aggregation-controller")

    async def start(self) -> None:
        """Look at all roles once, then whenever one changes."""
        self._objects.store.listen(self._on_event, (GROUP, _PLURAL))
        self._queue.add(_ALL)

    async def stop(self) -> None:
        """Stop following."""
        await self._queue.close()

    def _on_event(self, _: Event) -> None:
        self._queue.add(_ALL)

    async def _handle(self, _: str) -> float | None:
        """Bring every aggregated role up to date; a write is an event, by which those that build on it follow."""
        entries = list(self._objects.store.list(GROUP, _PLURAL))
        if not any(_WORD in entry.raw for entry in entries):
            return None
        roles = [entry.look() for entry in entries]
        for role in roles:
            rules = aggregated_rules(role, roles)
            if rules is not None and rules != (role.get("rules") or []):
                await self._write(role["metadata"]["name"], rules)
        return None

    async def _write(self, name: str, rules: list[Manifest]) -> None:
        kind = self._objects.registry.find(GROUP, "v1", _PLURAL)
        if kind is None:
            return

        def make(old: Manifest) -> Manifest:
            return {**old, "metadata": {**old["metadata"]}, "rules": rules}

        try:
            await self._objects.update(kind, "", name, make, self._call, patch=True)
        except ApiError as error:
            if error.code != 404:
                raise
