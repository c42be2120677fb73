"""Reads from a cluster fact what search needs to know of a member: how it is reached, and what it serves."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec import Struct, field

from schemas.events.cluster import ClusterChanged
from services._rules.delivery.member_address import Access, access_of


class Gvr(Struct, frozen=True, order=True):
    """Group, version and plural of a kind; the core group is empty."""

    group: str
    version: str
    resource: str

    @property
    def api_version(self) -> str:
        """`apps/v1`, or `v1` for the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def __str__(self) -> str:
        return f"{self.api_version}/{self.resource}"


class MemberFacts(Struct, frozen=True, kw_only=True):
    """One member as registries see it; what they select by is named as in a ClusterAffinity."""

    name: str
    access: Access
    ready: bool = False
    deleting: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
    provider: str = ""
    region: str = ""
    zones: tuple[str, ...] = ()
    kinds: Mapping[tuple[str, str], Gvr] = field(default_factory=dict)
    """What it serves, by apiVersion and kind."""

    @property
    def reachable(self) -> bool:
        """Whether it can be asked for its objects at the moment."""
        return self.ready and not self.deleting and not self.access.stranger


class _Metadata(Struct, frozen=True):
    labels: dict[str, str] | None = None


class _Spec(Struct, frozen=True):
    provider: str | None = None
    region: str | None = None
    zones: tuple[str, ...] | None = None


class _Resource(Struct):
    name: str = ""
    kind: str = ""


class _Enablement(Struct, rename="camel"):
    group_version: str = ""
    resources: tuple[_Resource, ...] | None = None


class _Condition(Struct):
    type: str = ""
    status: str = ""


class _Status(Struct, frozen=True, rename="camel"):
    api_enablements: tuple[_Enablement, ...] | None = None
    conditions: tuple[_Condition, ...] | None = None


class _Cluster(Struct):
    metadata: _Metadata = _Metadata()
    spec: _Spec = _Spec()
    status: _Status = _Status()


_cluster = msgspec.json.Decoder(_Cluster)


def member_facts(event: ClusterChanged) -> MemberFacts:
    """The member that a cluster fact describes."""
    cluster = _cluster.decode(event.manifest)
    spec, status = cluster.spec, cluster.status
    kinds: dict[tuple[str, str], Gvr] = {}
    for served in status.api_enablements or ():
        group, _, version = served.group_version.rpartition("/")
        for resource in served.resources or ():
            if "/" not in resource.name:
                kinds[served.group_version, resource.kind] = Gvr(group, version, resource.name)
    return MemberFacts(
        name=event.name,
        access=access_of(event),
        ready=any(item.type == "Ready" and item.status == "True" for item in status.conditions or ()),
        deleting=event.deleting,
        labels=cluster.metadata.labels or {},
        provider=spec.provider or "",
        region=spec.region or "",
        zones=spec.zones or (),
        kinds=kinds,
    )
