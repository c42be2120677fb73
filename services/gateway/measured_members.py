"""Reads from a cluster fact whether a member can be asked for metrics."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Struct

from schemas.events.cluster import ClusterChanged
from services._rules.metrics.metric_questions import RESOURCE

_COMPLETE: Final = "CompleteAPIEnablements"


class MeasuredMember(Struct, frozen=True):
    """One member: whether it can be asked, and whether it may serve metrics.k8s.io."""

    name: str
    ready: bool = False
    usages: bool = True


class _Condition(Struct):
    type: str = ""
    status: str = ""


class _Enablement(Struct, rename="camel"):
    group_version: str = ""


class _Status(Struct, rename="camel"):
    conditions: tuple[_Condition, ...] | None = None
    api_enablements: tuple[_Enablement, ...] | None = None


class _Cluster(Struct):
    status: _Status | None = None


_cluster: Final = msgspec.json.Decoder(_Cluster)


def measured_member(event: ClusterChanged) -> MeasuredMember:
    """The member that a cluster fact describes; what it serves counts where it is known completely."""
    status = _cluster.decode(event.manifest).status or _Status()
    true = {each.type for each in status.conditions or () if each.status == "True"}
    groups = {each.group_version.partition("/")[0] for each in status.api_enablements or ()}
    ready = "Ready" in true and not event.deleting and not event.stranger
    return MeasuredMember(event.name, ready, RESOURCE in groups or _COMPLETE not in true)
