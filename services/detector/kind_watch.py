"""Discovers the kinds of the control plane and watches each: templates and policies enter the state here."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, Final

import structlog

from schemas.keys import ObjectKey, PolicyKey
from schemas.manifest import Manifest
from services._kit.base.outage import Outage
from services._kit.concurrency.supervision import Supervised, spawn, supervise
from services._kit.concurrency.tasks import end, set_within
from services._kit.identity.identity_gate import EndpointIdentity, Gate, Locator, place_of_kept, place_of_manifest
from services._kit.kube.client import ApiError, ApiResource, KubeClient, Unreachable, resource_path
from services._kit.kube.list_watch import AsBytes, Decoded, Kept, Reflector, known_uid
from services._rules.constants import MULTI_CLUSTER_SERVICE, MULTI_CLUSTER_SERVICES, NETWORKING_GROUP
from services._rules.interpreter.configuration import KINDS as INTERPRETERS
from services._rules.policies.change_set_marks import mark_of
from services.detector.dependencies.required_objects import Served
from services.detector.objects.recorded_objects import refuse_list, refuse_policy_list
from services.detector.objects.template_bytes import Templates
from services.detector.state import (
    PRIORITY_CLASSES,
    SCOPE,
    DetectorState,
    Key,
    take_absence,
    take_kinds,
    take_list,
    take_policy,
    take_policy_list,
    take_template,
)

log = structlog.get_logger("detector.watching")

PLURALS: Final = {
    "PropagationPolicy": "propagationpolicies",
    "ClusterPropagationPolicy": "clusterpropagationpolicies",
    "OverridePolicy": "overridepolicies",
    "ClusterOverridePolicy": "clusteroverridepolicies",
    "FederatedResourceQuota": "federatedresourcequotas",
    "WorkloadRebalancer": "workloadrebalancers",
    MULTI_CLUSTER_SERVICE: MULTI_CLUSTER_SERVICES,
}
GROUPS: Final = {"WorkloadRebalancer": "apps.karmada.io", MULTI_CLUSTER_SERVICE: NETWORKING_GROUP}
"""Groups of those kinds that are not of `policy.karmada.io`."""
_POLICIES: Final = {
    **{group: frozenset({kind}) for kind, group in GROUPS.items()},
    "policy.karmada.io": frozenset(PLURALS) - GROUPS.keys(),
    "config.karmada.io": frozenset(INTERPRETERS),
}
"""Kinds that configure how objects are propagated, limited, rescheduled or interpreted, by group."""
_PATIENCE: Final = 5.0
HELD_SECONDS: Final = 5.0
"""How long the members of a change set wait for the others."""
DECIDED_SECONDS: Final = 30.0
"""How long they wait until the facts about the set are on the log."""
_NEEDED_VERBS: Final = frozenset({"list", "watch", "delete"})
_CRD: Final = "customresourcedefinitions.apiextensions.k8s.io"
_NEW_KIND_PATIENCE: Final = 20

Mark = Callable[[Iterable[Key]], None]


class _Templates:
    """Takes what a reflector of one kind of template sees."""

    def __init__(self, watching: Watching, resource: ApiResource) -> None:
        self._watching = watching
        self._resource = resource
        self.group_resource = f"{resource.name}.{resource.group}" if resource.group else resource.name

    def _key(self, found: Kept) -> ObjectKey:
        return ObjectKey(self._resource.group, self._resource.name, found.namespace, found.name)

    def listed(self, objects: list[Kept]) -> None:
        """A complete list of the kind."""
        found = Templates({self._key(kept): kept.data for kept in objects})
        self._watching.mark(take_list(self._watching.state, self.group_resource, found))

    def refused(self, objects: list[Kept]) -> None:
        """A complete list of the kind that does not count."""
        refuse_list(self._watching.state, self.group_resource, {self._key(kept): None for kept in objects})
        self._watching.mark((SCOPE,))

    def changed(self, kind: str, found: Kept) -> None:
        """One change of an object of the kind."""
        key = self._key(found)
        if kind == "DELETED":
            known_uid(self._watching.state.templates.get(key), found.manifest)
        self._watching.take(key, None if kind == "DELETED" else found.manifest)
        if self.group_resource == _CRD:
            self._watching.look_again()


class _Policies:
    """Takes what a reflector of one kind of policy sees."""

    def __init__(self, watching: Watching, kind: str) -> None:
        self._watching = watching
        self._kind = kind

    def _key(self, manifest: Manifest) -> PolicyKey:
        metadata = manifest["metadata"]
        return PolicyKey(self._kind, metadata.get("namespace", ""), metadata["name"])

    def listed(self, objects: list[Manifest]) -> None:
        """A complete list of the kind."""
        found = {self._key(manifest): manifest for manifest in objects}
        self._watching.mark(take_policy_list(self._watching.state, self._kind, found))

    def refused(self, objects: list[Manifest]) -> None:
        """A complete list of the kind that does not count."""
        refuse_policy_list(self._watching.state, self._kind, {self._key(manifest): None for manifest in objects})
        self._watching.mark((SCOPE,))

    def changed(self, kind: str, manifest: Manifest) -> None:
        """One change of a policy."""
        key = self._key(manifest)
        if kind == "DELETED" and (view := self._watching.state.policies.get(key)) is not None:
            known_uid(view.manifest, manifest)
        self._watching.take(key, None if kind == "DELETED" else manifest)


class Watching:
    """All watches of the detector; with an identity, lists count only while the control plane has that identity."""

    def __init__(
        self,
        client: KubeClient,
        state: DetectorState,
        mark: Mark,
        *,
        period: float,
        identity: EndpointIdentity | None = None,
    ) -> None:
        self._identity = identity
        self.state = state
        self.mark = mark
        self._client = client
        self._period = period
        self._followed: dict[str, tuple[Supervised, Outage]] = {}
        self._discovery = Outage()
        self._again = asyncio.Event()
        self._finder: Supervised | None = None
        self._patience: set[asyncio.Task[None]] = set()
        self._expected = 0
        self._patient: dict[str, asyncio.TimerHandle] = {}
        """When a change set is given up that is not complete, or not on record, by its id."""

    def take(self, key: ObjectKey | PolicyKey, manifest: Manifest | None) -> None:
        """Take in one change (None: the object is gone), or hold it back until the rest of its change set came."""
        sets = self.state.sets
        if not sets.held and mark_of(manifest) is None:
            self.mark(self._take(key, manifest))
            return
        name, complete = sets.offer(key, manifest, self._present(key))
        if not name:
            self.mark(self._take(key, manifest))
        elif complete:
            self._release(name)
        elif name not in self._patient:
            self._patient[name] = asyncio.get_running_loop().call_later(HELD_SECONDS, self._give_up, name)

    def _present(self, key: ObjectKey | PolicyKey) -> Manifest | None:
        if isinstance(key, ObjectKey):
            return self.state.templates.get(key)
        view = self.state.policies.get(key)
        return view.manifest if view is not None else None

    def _take(self, key: ObjectKey | PolicyKey, manifest: Manifest | None) -> Iterable[Key]:
        if isinstance(key, ObjectKey):
            return take_template(self.state, key, manifest)
        return take_policy(self.state, key, manifest)

    def _give_up(self, name: str) -> None:
        """Take what came of a set whose other members do not come: nothing waits for ever."""
        held = self.state.sets.held.get(name)
        if held is not None:
            log.warning("change_set_incomplete", id=name, seen=len(held.members), of=held.count)
            self._release(name)

    def _release(self, name: str) -> None:
        """Take all members of a set at once, and have one key decide what they touch."""
        sets = self.state.sets
        touched: list[Key] = [key for member in sets.release(name) for key in self._take(*member)]
        alone = [key for key in touched if not isinstance(key, ObjectKey | PolicyKey)]
        decided = sets.begin(name, (key for key in touched if isinstance(key, ObjectKey | PolicyKey)))
        timer = self._patient.pop(name, None)
        if timer is not None:
            timer.cancel()
        self._patient[name] = asyncio.get_running_loop().call_later(DECIDED_SECONDS, self._part, name)
        self.mark([decided, *alone])

    def _part(self, name: str) -> None:
        """A set that is still not on record does not hold up its members any longer."""
        self._patient.pop(name, None)
        keys = self.state.sets.finish(name)
        if keys:
            log.warning("change_set_not_recorded", id=name, keys=len(keys))
            self.mark(keys)

    def start(self) -> None:
        """Follow the policies now and every kind as discovery finds it."""
        if self._finder is None:
            self._finder = supervise("discovery", self._find)

    async def stop(self) -> None:
        """End every watch."""
        kept = [*(watch for watch, _ in self._followed.values()), *([self._finder] if self._finder is not None else [])]
        for timer in self._patient.values():
            timer.cancel()
        await end(*(supervised.task for supervised in kept), *self._patience)

    @property
    def trouble(self) -> str:
        """Why watches of some kinds have failed; empty while all work."""
        outages = [outage for _, outage in self._followed.values()]
        return next((outage.trouble for outage in (self._discovery, *outages) if outage.trouble), "")

    def look_again(self) -> None:
        """A definition of a kind changed: it may be served from now on."""
        self._expected = _NEW_KIND_PATIENCE
        self._again.set()

    def find_now(self) -> None:
        """Kinds may be served again that were not."""
        self._again.set()

    async def _find(self) -> None:
        while True:
            try:
                left_out: set[str] = set()
                found = await self._client.discover(left_out=left_out)
            except (ApiError, Unreachable) as error:
                self._discovery.failed(f"discovery: {error}")
                log.warning("discovery_failed", error=str(error))
                await asyncio.sleep(1.0)
                continue
            self._discovery.over()
            served = frozenset((resource.api_version, resource.kind) for resource in found)
            # A group that does not answer now serves what it served before.
            self.state.served = served | self.state.served if left_out else served
            self.mark(take_kinds(self.state, map(_served, found)))
            new = [resource for resource in found if self._follow(resource)]
            self.mark(self.state.rebalancing.serve(self._served(found)))
            for kind in set(INTERPRETERS) - {resource.kind for resource in found if is_policy(resource)}:
                self.mark(take_absence(self.state, kind))
            if new:
                log.info("kinds_followed", kinds=[f"{resource.name}.{resource.group}" for resource in new])
            pause = self._period
            if self._expected > 0:
                # A kind is served a moment after its definition; discovery shows when.
                self._expected = 0 if new else self._expected - 1
                pause = 0.1
            self._again.clear()
            await set_within(self._again, pause)

    def _served(self, found: Iterable[ApiResource]) -> Iterable[tuple[str, str, str]]:
        """Kind, group and resource of the templates that are watched."""
        for resource in found:
            if not is_policy(resource) and f"{resource.name}.{resource.group}" in self._followed:
                yield resource.kind, resource.group, resource.name

    def _follow(self, resource: ApiResource) -> bool:
        """Start a watch unless the kind is followed already or is none of ours."""
        if not _NEEDED_VERBS.issubset(resource.verbs):
            return False
        name = f"{resource.name}.{resource.group}"
        if name in self._followed and not self._followed[name][0].done:
            return False
        follower: _Templates | _Policies
        if is_policy(resource):
            follower = _Policies(self, resource.kind)
        elif self.state.skip.skips_kind(resource.api_version, resource.kind) and name != PRIORITY_CLASSES:
            return False
        else:
            follower = _Templates(self, resource)

        async def gone() -> None:
            # Not served any more: its objects are not proven absent, and it may come back.
            if isinstance(follower, _Templates):
                self.state.listed.discard(follower.group_resource)
            self._followed.pop(name, None)

        reading: Any = AsBytes() if isinstance(follower, _Templates) else Decoded()
        refused: Any = follower.refused
        place: Any = place_of_kept if isinstance(follower, _Templates) else place_of_manifest
        path = resource_path(resource.group, resource.version, resource.name)
        reflector: Reflector[Any] = Reflector(
            self._client,
            path,
            follower,
            reading,
            api_version=resource.api_version,
            kind=resource.kind,
            on_gone=gone,
            gate=Gate(self._identity, refused, Locator(path, place)) if self._identity is not None else None,
        )
        self._followed[name] = (supervise(f"watch:{name}", reflector.run, returns=True), reflector.outage)
        if resource.kind in INTERPRETERS and is_policy(resource):
            waiting = spawn("interpreters-wait", self._listed(resource.kind, reflector))
            self._patience.add(waiting)
            waiting.add_done_callback(self._patience.discard)
        return True

    async def _listed(self, kind: str, reflector: Reflector[Any]) -> None:
        """Objects wait for the list of what interprets them, but not for ever: it may be forbidden to us."""
        if not await set_within(reflector.synced, _PATIENCE):
            log.warning("interpreters_not_listed", kind=kind, until="what was last recorded of them is in force")
            self.mark(take_absence(self.state, kind))


def _served(resource: ApiResource) -> tuple[str, str, Served]:
    return resource.group, resource.kind, Served(resource.name, resource.namespaced)


def is_policy(resource: ApiResource) -> bool:
    """Whether a kind configures how others are treated, instead of being propagated itself."""
    return resource.kind in _POLICIES.get(resource.group, ())
