"""Says what is new about a member since the fact before: conditions, taints, labels, version, capacity, spec."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct, field

from schemas.events.cluster import ClusterChanged
from services._rules.history.changed_fields import field_words


class _Condition(Struct, frozen=True):
    type: str = ""
    status: str = ""
    reason: str = ""


class _Status(Struct, frozen=True, rename="camel"):
    conditions: tuple[_Condition, ...] = ()
    remedy_actions: tuple[str, ...] | None = None
    kubernetes_version: str = ""
    api_enablements: tuple[Any, ...] | None = None
    resource_summary: dict[str, Any] | None = None


class _Metadata(Struct, frozen=True):
    labels: dict[str, Any] | None = None


class _Cluster(Struct, frozen=True):
    status: _Status = _Status()
    metadata: _Metadata = _Metadata()
    spec: dict[str, Any] = field(default_factory=dict)


_decode: Final = msgspec.json.Decoder(_Cluster).decode


def cluster_words(event: ClusterChanged, before: ClusterChanged | None) -> str:
    """Its state, and what changed since the fact before where that is known."""
    now = _of(event)
    parts = [event.name, _ready(now)]
    if before is not None and before.uid == event.uid:
        parts += _news(_of(before), now)
    parts += [f"Remedies ask for {', '.join(now.status.remedy_actions)}"] if now.status.remedy_actions else []
    parts += [f"{event.stranger} answers in its place"] if event.stranger else []
    parts += ["being removed"] if event.deleting else []
    return ", ".join(parts)


def _of(event: ClusterChanged) -> _Cluster:
    """What is of interest of a cluster; nothing where it cannot be read."""
    try:
        return _decode(event.manifest)
    except msgspec.MsgspecError:
        return _Cluster()


def _ready(cluster: _Cluster) -> str:
    found = next((item for item in cluster.status.conditions if item.type == "Ready"), None)
    if found is None:
        return "not probed yet"
    return "Ready" if found.status == "True" else f"not ready ({found.reason})"


def _news(old: _Cluster, new: _Cluster) -> list[str]:
    before, after = _taints(old.spec), _taints(new.spec)
    news = [f"taint {taint}" for taint in after if taint not in before]
    news += [f"taint {taint} gone" for taint in before if taint not in after]
    if labels := field_words(old.metadata.labels or {}, new.metadata.labels or {}, texts=True):
        news.append(f"labels: {labels}")
    plain = [{name: value for name, value in cluster.spec.items() if name != "taints"} for cluster in (old, new)]
    if spec := field_words(*plain, texts=True):
        news.append(f"spec: {spec}")
    if old.status.kubernetes_version != new.status.kubernetes_version:
        news.append(f"version {new.status.kubernetes_version or 'unknown'}")
    if old.status.api_enablements != new.status.api_enablements:
        news.append("its APIs changed")
    if old.status.resource_summary != new.status.resource_summary:
        news.append("its capacity changed")
    known = {item.type: item for item in old.status.conditions}
    news += [
        f"{item.type} {item.status} ({item.reason})"
        for item in new.status.conditions
        if item.type != "Ready" and known.get(item.type) != item
    ]
    return news


def _taints(spec: Mapping[str, Any]) -> list[str]:
    found = []
    for taint in spec.get("taints") or ():
        if isinstance(taint, Mapping):
            value = f"={taint['value']}" if taint.get("value") else ""
            found.append(f"{taint.get('key')}{value}:{taint.get('effect')}")
    return found
