"""Writes the summed status back to templates: once per change, as a patch of what differs (reference 03 §4.6)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

import msgspec
from msgspec import UnsetType

from schemas.events.binding import BindingRequested
from schemas.events.rollup import StatusRolledUp
from schemas.events.template import TemplateChanged
from schemas.keys import ObjectKey
from services._kit.blobs import Blobs
from services._kit.clock import Clock
from services._kit.kube import ApiError, KubeClient, decode, resource_path
from services._rules.interpreter import AGGREGATE_STATUS, InterpretError, NativeInterpreter
from services._rules.patch import merge_difference
from services.status_aggregator.state import AggregatorState

Manifest = dict[str, Any]
_INTERPRETER: Final = NativeInterpreter()


def offers_status(api_version: str, kind: str) -> bool:
    """Whether the status of a kind is summed into its template."""
    return _INTERPRETER.hook_enabled(api_version, kind, AGGREGATE_STATUS)


class TemplateStatus:
    """The status subresource of templates, remembered so that it is read only once."""

    def __init__(self, client: KubeClient, state: AggregatorState, blobs: Blobs, clock: Clock) -> None:
        self._client = client
        self._state = state
        self._blobs = blobs
        self._clock = clock
        self._known: dict[ObjectKey, tuple[str, Manifest]] = {}

    def remember(self, key: ObjectKey, uid: str, status: Manifest) -> None:
        """Take what a list showed as the present status."""
        self._known[key] = (uid, status)

    def forget(self, key: ObjectKey) -> None:
        """The object is gone."""
        self._known.pop(key, None)

    async def write(self, key: ObjectKey) -> None:
        """Bring the template's status to what the members report now; raises ApiError and Unreachable."""
        reported = self._state.objects.get(key)
        if reported is None:
            return
        binding, template, rollup = reported.binding, reported.template, reported.rollup
        if not isinstance(binding, BindingRequested) or not isinstance(template, TemplateChanged):
            self.forget(key)
            return
        if rollup is None or rollup.uid != template.uid or not offers_status(template.api_version, template.kind):
            return
        version = template.api_version.rpartition("/")[2]
        path = resource_path(key.group, version, key.resource, key.namespace, key.name)
        status = await self._present(key, template, path)
        if status is None:
            return
        obj = {**await self._manifest(template), "status": status}
        now = datetime.fromtimestamp(self._clock.now(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        try:
            wanted = _INTERPRETER.aggregate_status(obj, _items(rollup), now=now).get("status") or {}
        except InterpretError:
            # A member's report of another shape: it stays on the binding, where it can be seen.
            return
        patch = merge_difference(status, wanted)
        if not patch:
            return
        body = {"metadata": {"uid": template.uid}, "status": patch}
        presumed = key not in self._known
        try:
            answer = await self._client.patch(f"{path}/status", body)
        except ApiError as error:
            self.forget(key)
            if error.status in (404, 409):
                return  # Gone, or another object of this name; its own facts follow.
            raise
        present = answer.get("status") or {}
        self._known[key] = (template.uid, present)
        if presumed and merge_difference(present, wanted):
            await self.write(key)

    async def _present(self, key: ObjectKey, template: TemplateChanged, path: str) -> Manifest | None:
        uid = template.uid
        known = self._known.get(key)
        if known is not None and known[0] == uid:
            return known[1]
        if template.prev == 0:
            # What was created a moment ago has no status; the answer to the first write shows whether that was true.
            return {}
        try:
            live = await self._client.get(path)
        except ApiError as error:
            if error.status == 404:
                return None
            raise
        if live["metadata"].get("uid") != uid:
            return None
        status: Manifest = live.get("status") or {}
        self._known[key] = (uid, status)
        return status

    async def _manifest(self, template: TemplateChanged) -> Manifest:
        if isinstance(template.manifest, UnsetType):
            return decode(await self._blobs.get(template.digest))
        return decode(template.manifest)


def _items(rollup: StatusRolledUp) -> list[Manifest]:
    items = []
    for item in rollup.items:
        entry: Manifest = {"clusterName": item.cluster, "applied": item.applied, "health": item.health}
        if not isinstance(item.status, UnsetType):
            entry["status"] = msgspec.json.decode(item.status)
        if item.message:
            entry["appliedMessage"] = item.message
        items.append(entry)
    return items
