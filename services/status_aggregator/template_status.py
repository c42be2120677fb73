"""Writes the aggregated status to templates: once per change, and only over the status it was decided on.

So a writer that stood still and was replaced puts no old sum over a newer one (docs/sources.md#status).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Final

import msgspec
from msgspec import Struct, UnsetType

from schemas.events.binding import BindingRequested
from schemas.events.rollup import StatusRolledUp
from schemas.events.template import TemplateChanged
from schemas.keys import ObjectKey
from schemas.manifest import Manifest
from services._kit.base.clock import Clock
from services._kit.content.blobs import Blobs
from services._kit.interpretation.interpreter_levels import Interpreters
from services._kit.kube.answers.shapes import check_manifest
from services._kit.kube.client import JSON_PATCH, ApiError, KubeClient, decode, resource_path
from services._rules.interpreter import InterpretError, InterpretLater, Operation
from services._rules.interpreter.common.interpretation import describe
from services._rules.kubernetes.patch.json_patch import same_json
from services._rules.secrets.secret_objects import is_secret
from services.status_aggregator.culprits import Fault, NoCulprit, culprits, without
from services.status_aggregator.present_objects import present_objects
from services.status_aggregator.state import AggregatorState

REFUSED: Final = frozenset({400, 413, 422})
"""Answers of a control plane to a status that it never will take."""


class Away(Exception):
    """The control plane does not show a template that exists as far as is known: perhaps another one answers."""


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


def offers_status(interpreters: Interpreters, api_version: str, kind: str) -> bool:
    """Whether the status of a kind is aggregated; a Secret has none, and its content must not reach an interpreter."""
    return not is_secret(api_version, kind) and interpreters.hook_enabled(api_version, kind, Operation.AGGREGATE)


class TemplateStatus:
    """The status subresource of templates, remembered so that it is read only once."""

    def __init__(
        self, client: KubeClient, state: AggregatorState, blobs: Blobs, clock: Clock, interpreters: Interpreters
    ) -> None:
        self._client = client
        self._state = state
        self._blobs = blobs
        self._clock = clock
        self._interpreters = interpreters
        self._known: dict[ObjectKey, _Present] = {}
        self._at_fault: dict[ObjectKey, Fault] = {}
        self._summed: dict[ObjectKey, dict[str, int]] = {}
        """For kinds that scripts aggregate: digests of each cluster's report at the last success."""

    def offered(self, api_version: str, kind: str) -> bool:
        """Whether the status of a kind is summed into its template."""
        return offers_status(self._interpreters, api_version, kind)

    def remember(self, key: ObjectKey, live: Manifest) -> None:
        """Take what a list or an answer showed of a template."""
        self._known[key] = _seen(live)

    def forget(self, key: ObjectKey) -> None:
        """The object is gone."""
        self._known.pop(key, None)

    async def write(self, key: ObjectKey) -> Mapping[str, str]:
        """Bring the template's status to what the members report now; clusters whose report is left out, and why.

        A report is left out where without it the others can be summed, or where the control plane takes their sum then.
        Raises ApiError, Unreachable, Away, and where there is no status without any report InterpretError,
        WorkerUnavailable.
        """
        reported = self._state.objects.get(key)
        if reported is None:
            self._at_fault.pop(key, None)
            self._summed.pop(key, None)
            return {}
        binding, template, rollup = reported.binding, reported.template, reported.rollup
        if not isinstance(binding, BindingRequested) or not isinstance(template, TemplateChanged):
            self.forget(key)
            self._at_fault.pop(key, None)
            self._summed.pop(key, None)
            return {}
        if rollup is None or rollup.uid != template.uid or not self.offered(template.api_version, template.kind):
            return {}
        version = template.api_version.rpartition("/")[2]
        path = resource_path(key.group, version, key.resource, key.namespace, key.name)
        items, before = _items(rollup), self._at_fault.pop(key, None)
        fault = before.still(items) if before is not None else None
        try:
            await self._bring(key, template, fault.rest(items) if fault is not None else items, path)
        except (InterpretError, ApiError) as problem:
            if not _may_be_a_reports(problem):
                raise
            fault = await self._find(key, template, path, items, problem, before)
            await self._bring(key, template, fault.rest(items), path)
        if self._interpreters.customized(template.api_version, template.kind, Operation.AGGREGATE):
            self._summed[key] = _digests(items)
        if fault is None:
            return {}
        self._at_fault[key] = fault
        return fault.reasons

    async def _find(
        self,
        key: ObjectKey,
        template: TemplateChanged,
        path: str,
        items: Sequence[Manifest],
        problem: Exception,
        before: Fault | None,
    ) -> Fault:
        """The clusters whose reports cause a problem; raises the problem where none do."""
        last = self._summed.get(key)
        suspects = set(before.reasons) if before is not None else set[str]()
        if last is not None:
            # An endless script is stopped only a few times: clusters with changed reports are tried first.
            suspects |= {name for name, digest in _digests(items).items() if last.get(name) != digest}
        for whole in (False, True):
            # Most interpreters know that a cluster may not have reported; some can do with fewer clusters only.
            attempt = partial(self._attempt, key, template, path, items, whole)
            try:
                reasons = await culprits(items, problem, attempt, suspects)
            except InterpretLater:
                break  # The script that failed is put aside for a while.
            except NoCulprit:
                continue
            said = {item["clusterName"]: item for item in items if item["clusterName"] in reasons}
            return Fault(reasons, said, whole)
        raise problem

    async def _attempt(
        self,
        key: ObjectKey,
        template: TemplateChanged,
        path: str,
        items: Sequence[Manifest],
        whole: bool,
        out: Collection[str],
    ) -> Exception | None:
        """What keeps the sum without some clusters from being made and written; nothing is changed by trying."""
        present = await self._present(key, template, path)
        if present is None:
            return None
        try:
            wanted = await self._wanted(template, without(items, out, whole), present)
            if not present.shows(wanted):
                body = _replacement(present, wanted, tested=False)
                await self._client.patch(f"{path}/status?dryRun=All", body, JSON_PATCH)
        except InterpretLater:
            raise
        except InterpretError as problem:
            return problem
        except ApiError as error:
            if error.status not in REFUSED:
                raise
            return error
        return None

    async def _bring(self, key: ObjectKey, template: TemplateChanged, items: Sequence[Manifest], path: str) -> None:
        """Write what the items add up to; raises Away."""
        present = await self._present(key, template, path)
        while present is not None:
            wanted = await self._wanted(template, items, present)
            if present.shows(wanted):
                return
            try:
                answer = await self._client.patch(f"{path}/status", _replacement(present, wanted), JSON_PATCH)
            except ApiError as error:
                self.forget(key)
                if error.status == 404:
                    if await self._read(key, template, path) is not None:
                        raise _without_status(template) from error
                    break
                if error.status not in (409, 422):
                    raise
                tested, present = present, await self._read(key, template, path)
                if present is not None and present.condition == tested.condition:
                    raise  # No write came in between: the new status itself is refused.
            else:
                self.forget(key)
                check_manifest(answer, template.kind)
                self._known[key] = _seen(answer, wanted)
                return
        raise Away(f"{path} with uid {template.uid} is not there")

    async def _wanted(self, template: TemplateChanged, items: Sequence[Manifest], present: _Present) -> Manifest:
        """The status that should be there."""
        obj = await self._manifest(template)
        if present.status:
            obj = {**obj, "status": present.status}
        now = datetime.fromtimestamp(self._clock.now(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        summed = await self._interpreters.interpret(Operation.AGGREGATE, obj, items, now)
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
        # Another object in its place proves that this one is gone; an answer that is no object proves nothing.
        check_manifest(live, template.kind)
        if live["metadata"].get("uid") != template.uid:
            return None
        self.remember(key, live)
        return self._known[key]

    async def _manifest(self, template: TemplateChanged) -> Manifest:
        if isinstance(template.manifest, UnsetType):
            return decode(await self._blobs.get(template.digest))
        return decode(template.manifest)


def _digests(items: Sequence[Manifest]) -> dict[str, int]:
    return {str(item["clusterName"]): hash(msgspec.json.encode(item)) for item in items}


def _may_be_a_reports(problem: InterpretError | ApiError) -> bool:
    """Whether a report may be at fault for a problem."""
    if isinstance(problem, ApiError):
        return problem.status in REFUSED
    return not isinstance(problem, InterpretLater)


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


def _replacement(present: _Present, wanted: Manifest, *, tested: bool = True) -> bytes:
    """A patch that puts one status in the place of another, and nothing where another object or status is.

    Not `tested`, it goes over whatever status there is.
    """
    uid = {"op": "test", "path": "/metadata/uid", "value": present.uid}
    written = {"op": "add", "path": "/status", "value": wanted}
    return msgspec.json.encode([uid, present.condition, written] if tested else [uid, written])


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


async def remember_present(client: KubeClient, state: AggregatorState, status: TemplateStatus) -> None:
    """List every kind whose status is summed; a kind that cannot be listed is read object by object later."""
    kinds = {
        (key.group, template.api_version.rpartition("/")[2], key.resource)
        for key, reported in state.objects.items()
        if isinstance(template := reported.template, TemplateChanged)
        and status.offered(template.api_version, template.kind)
    }
    for group, version, resource in sorted(kinds):
        async for item in present_objects(client, group, version, resource):
            metadata = item["metadata"]
            status.remember(ObjectKey(group, resource, metadata.get("namespace", ""), metadata["name"]), item)
