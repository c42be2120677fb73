"""Writes the summed status back to templates: once per change, and only over the status it was decided on.

So a writer that stood still and was replaced puts no old sum over a newer one (reference 03 §4.6).
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec import Struct, UnsetType

from schemas.events.binding import BindingRequested
from schemas.events.rollup import StatusRolledUp
from schemas.events.template import TemplateChanged
from schemas.keys import ObjectKey
from services._kit.blobs import Blobs
from services._kit.clock import Clock
from services._kit.kube import JSON_PATCH, ApiError, KubeClient, decode, resource_path
from services._kit.lua.interpreting import Interpreting
from services._rules.interpreter import AGGREGATE_STATUS, InterpretError, InterpretLater
from services._rules.interpreter.base import describe
from services._rules.patch import same_json
from services._rules.secrecy import is_secret
from services.status_aggregator.state import AggregatorState

Manifest = dict[str, Any]


class _Present(Struct, frozen=True):
    """What a template's status is taken to be; `version` is its resourceVersion where it was seen, else empty.

    `wrote` is what became `status` when it was written last, where the control plane made something else of it.
    """

    uid: str
    status: Manifest | None
    version: str = ""
    wrote: Manifest | None = None

    def shows(self, wanted: Manifest) -> bool:
        """Whether nothing would change if this status was written."""
        return same_json(self.status or {}, wanted) or (self.wrote is not None and same_json(self.wrote, wanted))

    @property
    def condition(self) -> Manifest:
        """The test that a write over this status begins with."""
        if self.status is None:
            return {"op": "test", "path": "/metadata/resourceVersion", "value": self.version}
        return {"op": "test", "path": "/status", "value": self.status}


def offers_status(interpreting: Interpreting, api_version: str, kind: str) -> bool:
    """Whether the status of a kind is summed; a Secret has none, and its content is for nobody who sums."""
    return not is_secret(api_version, kind) and interpreting.hook_enabled(api_version, kind, AGGREGATE_STATUS)


class TemplateStatus:
    """The status subresource of templates, remembered so that it is read only once."""

    def __init__(
        self, client: KubeClient, state: AggregatorState, blobs: Blobs, clock: Clock, interpreting: Interpreting
    ) -> None:
        self._client = client
        self._state = state
        self._blobs = blobs
        self._clock = clock
        self._interpreting = interpreting
        self._known: dict[ObjectKey, _Present] = {}

    def offered(self, api_version: str, kind: str) -> bool:
        """Whether the status of a kind is summed into its template."""
        return offers_status(self._interpreting, api_version, kind)

    def remember(self, key: ObjectKey, live: Manifest) -> None:
        """Take what a list or an answer showed of a template."""
        self._known[key] = _seen(live)

    def forget(self, key: ObjectKey) -> None:
        """The object is gone."""
        self._known.pop(key, None)

    async def write(self, key: ObjectKey) -> None:
        """Bring the template's status to what the members report now.

        Raises ApiError, Unreachable, and where a user's interpreter gives no status InterpretError, WorkerUnavailable.
        """
        reported = self._state.objects.get(key)
        if reported is None:
            return
        binding, template, rollup = reported.binding, reported.template, reported.rollup
        if not isinstance(binding, BindingRequested) or not isinstance(template, TemplateChanged):
            self.forget(key)
            return
        if rollup is None or rollup.uid != template.uid or not self.offered(template.api_version, template.kind):
            return
        version = template.api_version.rpartition("/")[2]
        path = resource_path(key.group, version, key.resource, key.namespace, key.name)
        present = await self._present(key, template, path)
        while present is not None:
            wanted = await self._wanted(template, rollup, present)
            if wanted is None or present.shows(wanted):
                return
            try:
                answer = await self._client.patch(f"{path}/status", _replacement(present, wanted), JSON_PATCH)
            except ApiError as error:
                self.forget(key)
                if error.status == 404:
                    if await self._read(key, template, path) is not None:
                        raise _without_status(template) from error
                    return
                if error.status not in (409, 422):
                    raise
                tested, present = present, await self._read(key, template, path)
                if present is not None and present.condition == tested.condition:
                    raise  # Nobody wrote in between: it is the new status that is refused.
            else:
                self._known[key] = _seen(answer, wanted)
                return

    async def _wanted(self, template: TemplateChanged, rollup: StatusRolledUp, present: _Present) -> Manifest | None:
        """The status that should be there; None where a member's report cannot be summed."""
        obj = await self._manifest(template)
        if present.status:
            obj = {**obj, "status": present.status}
        now = datetime.fromtimestamp(self._clock.now(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        try:
            summed = await self._interpreting.aggregate_status(obj, _items(rollup), now=now)
        except InterpretError:
            if self._interpreting.customized(template.api_version, template.kind, AGGREGATE_STATUS):
                raise
            # A member's report of another shape: it stays on the binding, where it can be seen.
            return None
        status = summed.get("status") or {}
        if type(status) is not dict:
            raise InterpretError(f"is {describe(status)}, expected an object", "status")
        return status

    async def _present(self, key: ObjectKey, template: TemplateChanged, path: str) -> _Present | None:
        known = self._known.get(key)
        if known is not None and known.uid == template.uid:
            return known
        if template.prev == 0:
            # What was created a moment ago has no status; the write tests whether that is true.
            return _Present(template.uid, {})
        return await self._read(key, template, path)

    async def _read(self, key: ObjectKey, template: TemplateChanged, path: str) -> _Present | None:
        """What the template's status is now; None where this template is gone."""
        try:
            live = await self._client.get(path)
        except ApiError as error:
            if error.status == 404:
                return None
            raise
        if live["metadata"].get("uid") != template.uid:
            return None
        self.remember(key, live)
        return self._known[key]

    async def _manifest(self, template: TemplateChanged) -> Manifest:
        if isinstance(template.manifest, UnsetType):
            return decode(await self._blobs.get(template.digest))
        return decode(template.manifest)


def _seen(live: Manifest, wrote: Manifest | None = None) -> _Present:
    metadata, status = live["metadata"], live.get("status")
    if wrote is not None and same_json(status or {}, wrote):
        wrote = None
    return _Present(str(metadata.get("uid", "")), status, str(metadata.get("resourceVersion", "")), wrote)


def _without_status(template: TemplateChanged) -> InterpretLater:
    version = template.api_version.rpartition("/")[2]
    return InterpretLater(
        f"{template.api_version} {template.kind} has no status subresource to write to; "
        f"add `subresources: {{status: {{}}}}` to version {version} of its CustomResourceDefinition"
    )


def _replacement(present: _Present, wanted: Manifest) -> bytes:
    """A patch that puts one status in the place of another, and nothing where another object or status is."""
    uid = {"op": "test", "path": "/metadata/uid", "value": present.uid}
    return msgspec.json.encode([uid, present.condition, {"op": "add", "path": "/status", "value": wanted}])


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
