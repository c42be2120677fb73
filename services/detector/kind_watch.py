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
from services._kit.identity.identity_gate import EndpointIdentity, Gate
from services._kit.kube.client import ApiError, ApiResource, KubeClient, Unreachable, resource_path
from services._kit.kube.list_watch import AsBytes, Decoded, Kept, Reflector, known_uid
from services._rules.interpreter.configuration import KINDS as INTERPRETERS
from services.detector.recorded_objects import refuse_list, refuse_policy_list
from services.detector.state import (
    PRIORITY_CLASSES,
    SCOPE,
    DetectorState,
    Key,
    take_absence,
    take_list,
    take_policy,
    take_policy_list,
    take_template,
)
from services.detector.template_bytes import Templates

log = structlog.get_logger("detector.watching")

PLURALS: Final = {
    "PropagationPolicy": "propagationpolicies",
    "ClusterPropagationPolicy": "clusterpropagationpolicies",
    "OverridePolicy": "overridepolicies",
    "ClusterOverridePolicy": "clusteroverridepolicies",
}
_POLICIES: Final = {"policy.karmada.io": frozenset(PLURALS), "config.karmada.io": frozenset(INTERPRETERS)}
"""Kinds that configure how objects are propagated or interpreted, by group."""
_PATIENCE: Final = 5.0
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
        self._watching.mark(take_template(self._watching.state, key, None if kind == "DELETED" else found.manifest))
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
        self._watching.mark(take_policy(self._watching.state, key, None if kind == "DELETED" else manifest))


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

    def start(self) -> None:
        """Follow the policies now and every kind as discovery finds it."""
        if self._finder is None:
            self._finder = supervise("discovery", self._find)

    async def stop(self) -> None:
        """End every watch."""
        kept = [*(watch for watch, _ in self._followed.values()), *([self._finder] if self._finder is not None else [])]
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
                found = await self._client.discover()
            except (ApiError, Unreachable) as error:
                self._discovery.failed(f"discovery: {error}")
                log.warning("discovery_failed", error=str(error))
                await asyncio.sleep(1.0)
                continue
            self._discovery.over()
            new = [resource for resource in found if self._follow(resource)]
            for kind in set(INTERPRETERS) - {resource.kind for resource in found if _is_policy(resource)}:
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

    def _follow(self, resource: ApiResource) -> bool:
        """Start a watch unless the kind is followed already or is none of ours."""
        if not _NEEDED_VERBS.issubset(resource.verbs):
            return False
        name = f"{resource.name}.{resource.group}"
        if name in self._followed and not self._followed[name][0].done:
            return False
        follower: _Templates | _Policies
        if _is_policy(resource):
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
        reflector: Reflector[Any] = Reflector(
            self._client,
            resource_path(resource.group, resource.version, resource.name),
            follower,
            reading,
            api_version=resource.api_version,
            kind=resource.kind,
            on_gone=gone,
            gate=Gate(self._identity, refused) if self._identity is not None else None,
        )
        self._followed[name] = (supervise(f"watch:{name}", reflector.run, returns=True), reflector.outage)
        if resource.kind in INTERPRETERS and _is_policy(resource):
            waiting = spawn("interpreters-wait", self._listed(resource.kind, reflector))
            self._patience.add(waiting)
            waiting.add_done_callback(self._patience.discard)
        return True

    async def _listed(self, kind: str, reflector: Reflector[Any]) -> None:
        """Objects wait for the list of what interprets them, but not for ever: it may be forbidden to us."""
        if not await set_within(reflector.synced, _PATIENCE):
            log.warning("interpreters_not_listed", kind=kind, until="what was last recorded of them is in force")
            self.mark(take_absence(self.state, kind))


def _is_policy(resource: ApiResource) -> bool:
    """Whether a kind configures how others are treated, instead of being propagated itself."""
    return resource.kind in _POLICIES.get(resource.group, ())
