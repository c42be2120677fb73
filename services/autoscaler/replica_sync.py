"""Keeps a template beside the autoscalers of its members: marks targets, and takes over the replicas of members."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import UNSET, Raw, Struct, field

from schemas.events.placement import PlacementDecided
from schemas.keys import ObjectKey, PolicyKey
from services._kit.concurrency.keyed_work import Background
from services._kit.kube.api import PASSING
from services._kit.kube.client import ApiError, KubeClient, Unreachable, resource_path
from services._rules.constants import (
    CLUSTER_PROPAGATION_POLICY_ID_LABEL,
    LABEL_TRUE,
    PROPAGATION_POLICY_ID_LABEL,
    RETAIN_REPLICAS_LABEL,
)
from services.autoscaler.reading.object_watch import ObjectWatch, Watched
from services.autoscaler.reading.scale_access import Scales
from services.autoscaler.state import AutoscalerState, Target

_GONE: Final = 404
_AGAIN: Final = PASSING | {409}


class _Scheduling(Struct, rename="camel"):
    replica_scheduling_type: str = ""


class _Placement(Struct, rename="camel"):
    replica_scheduling: _Scheduling = field(default_factory=_Scheduling)


_placement: Final = msgspec.json.Decoder(_Placement)


class TargetMarker:
    """Gives targets of propagated HorizontalPodAutoscalers the label by which members keep their replicas."""

    def __init__(self, control: KubeClient, scales: Scales) -> None:
        self._control = control
        self._scales = scales
        self._marked: dict[PolicyKey, tuple[str, ObjectKey]] = {}
        self._writes: Background[PolicyKey] = Background(concurrency=4, retry=(Unreachable,), longest_pause=5.0)
        self._watch = ObjectWatch(
            control, ("autoscaling", "v2"), "horizontalpodautoscalers", "HorizontalPodAutoscaler", self._seen
        )

    async def close(self) -> None:
        """Mark nothing any more; labels stay as they are."""
        await self._watch.close()
        await self._writes.close()

    def _seen(self, key: PolicyKey) -> None:
        self._writes.submit(key, lambda: self._mark(key))

    async def _mark(self, key: PolicyKey) -> None:
        found = self._watch.objects.get(key)
        wanted = await self._target(key, found) if found is not None and _propagated(found) else None
        before = self._marked.pop(key, None)
        if wanted is not None:
            self._marked[key] = wanted
        if before is not None and before not in self._marked.values():
            await self._label(before, None)
        if wanted is not None and wanted != before:
            await self._label(wanted, LABEL_TRUE)

    async def _target(self, key: PolicyKey, found: Watched) -> tuple[str, ObjectKey] | None:
        api_version, kind = str(found.reference.get("apiVersion") or ""), str(found.reference.get("kind") or "")
        place = await self._scales.place(api_version, kind, key.namespace, str(found.reference.get("name") or ""))
        return (api_version, place) if place is not None else None

    async def _label(self, target: tuple[str, ObjectKey], value: str | None) -> None:
        api_version, key = target
        version = api_version.rpartition("/")[2]
        path = resource_path(key.group, version, key.resource, key.namespace, key.name)
        try:
            await self._control.patch(path, {"metadata": {"labels": {RETAIN_REPLICAS_LABEL: value}}})
        except ApiError as error:
            if error.status in _AGAIN:
                raise Unreachable(str(error)) from error
            if error.status != _GONE:
                raise


def _propagated(found: Watched) -> bool:
    labels = found.metadata["labels"]
    return bool(labels.get(PROPAGATION_POLICY_ID_LABEL) or labels.get(CLUSTER_PROPAGATION_POLICY_ID_LABEL))


def replicas_of_members(state: AutoscalerState, target: Target) -> int | None:
    """The replicas that a template takes over from its members; None where it keeps its own.

    Only a Deployment with the label whose replicas are divided, once every cluster reports some.
    """
    bound, placed, rollup = target.bound, target.placed, target.rollup
    if bound is None or bound.kind != "Deployment" or not target.retained or rollup is None:
        return None
    if not isinstance(placed, PlacementDecided) or placed.binding_generation != bound.generation:
        return None
    if rollup.uid != target.uid or not _divided(placed.placement) or len(rollup.items) != len(target.targets):
        return None
    scales = state.scales(target, bound.replicas)
    if any(item.away or item.existing <= 0 for item in scales):
        return None
    total = sum(item.existing for item in scales)
    return total if total != bound.replicas else None


def _divided(placement: Raw | object) -> bool:
    if placement is UNSET or not isinstance(placement, Raw):
        return False
    return _placement.decode(placement).replica_scheduling.replica_scheduling_type == "Divided"
