"""Marks targets of autoscalers that run in members, so that these keep their replicas."""

from __future__ import annotations

from typing import Final

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

_GONE: Final = 404
_AGAIN: Final = PASSING | {409}


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
