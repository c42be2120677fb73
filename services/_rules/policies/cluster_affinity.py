"""Whether a cluster matches a ClusterAffinity, compiled once per affinity (docs/sources.md#filters)."""

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Protocol, TypeAlias

import msgspec
from msgspec import Struct

from services._rules.kubernetes import selectors
from services._rules.kubernetes.selectors import LabelSelectorError, Selector, all_of, never


class ClusterFacts(Protocol):
    """The part of a cluster that an affinity matches; provider and region are empty where they are not set."""

    @property
    def name(self) -> str: ...
    @property
    def labels(self) -> Mapping[str, str]: ...
    @property
    def provider(self) -> str: ...
    @property
    def region(self) -> str: ...
    @property
    def zones(self) -> tuple[str, ...]: ...


ClusterMatcher: TypeAlias = Callable[[ClusterFacts], bool]


class FieldExpression(Struct, frozen=True):
    """One condition on provider, region or zone."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] | None = None


class FieldSelector(Struct, frozen=True, rename="camel"):
    """Conditions on the fields of a cluster, all of which must hold."""

    match_expressions: tuple[FieldExpression, ...] | None = None


class ClusterAffinity(Struct, frozen=True, rename="camel", omit_defaults=True):
    """Which clusters are candidates; without any part it is every cluster."""

    label_selector: dict[str, Any] | None = None
    field_selector: FieldSelector | None = None
    cluster_names: tuple[str, ...] | None = None
    exclude: tuple[str, ...] | None = None


class _Facts(Struct, frozen=True):
    name: str
    labels: dict[str, str]
    provider: str
    region: str
    zones: tuple[str, ...]


def compile_affinity(affinity: ClusterAffinity) -> ClusterMatcher:
    """Function that tests clusters; an affinity with a broken selector matches no cluster."""
    tests: list[ClusterMatcher] = []
    if affinity.cluster_names:
        names = frozenset(affinity.cluster_names) - frozenset(affinity.exclude or ())
        tests.append(lambda cluster: cluster.name in names)
    elif affinity.exclude:
        excluded = frozenset(affinity.exclude)
        tests.append(lambda cluster: cluster.name not in excluded)
    try:
        if affinity.label_selector is not None:
            labels_match = selectors.compile_selector(affinity.label_selector).matches
            tests.append(lambda cluster: labels_match(cluster.labels))
        if affinity.field_selector is not None:
            tests += _field_tests(affinity.field_selector)
    except LabelSelectorError:
        return never
    return all_of(tests)


def affinity_of(manifest: Mapping[str, Any]) -> ClusterAffinity:
    """Read a ClusterAffinity; raises msgspec.ValidationError naming the field."""
    return msgspec.convert(manifest, ClusterAffinity)


def facts_of(cluster: Mapping[str, Any]) -> ClusterFacts:
    """The matchable part of a Cluster manifest."""
    metadata, spec = cluster.get("metadata") or {}, cluster.get("spec") or {}
    return _Facts(
        name=metadata.get("name", ""),
        labels=metadata.get("labels") or {},
        provider=spec.get("provider") or "",
        region=spec.get("region") or "",
        zones=tuple(spec.get("zones") or ()),
    )


def _field_tests(selector: FieldSelector) -> list[ClusterMatcher]:
    """Zones are compared as a list; provider and region like labels that are absent when empty."""
    tests: list[ClusterMatcher] = []
    requirements = []
    for item in selector.match_expressions or ():
        if item.key == "zone":
            tests.append(_zone_test(item))
        else:
            requirements.append(selectors.requirement(item.key, item.operator, item.values, node=True))
    if requirements:
        fields_match = Selector(requirements).matches
        tests.append(lambda cluster: fields_match(_fields(cluster)))
    return tests


def _fields(cluster: ClusterFacts) -> dict[str, str]:
    found = {}
    if cluster.provider:
        found["provider"] = cluster.provider
    if cluster.region:
        found["region"] = cluster.region
    return found


def _zone_test(item: FieldExpression) -> ClusterMatcher:
    values = frozenset(item.values or ())
    match item.operator:
        case "In":
            return lambda cluster: not values.isdisjoint(cluster.zones)
        case "NotIn":
            return lambda cluster: values.isdisjoint(cluster.zones)
        case "Exists":
            return lambda cluster: bool(cluster.zones)
        case "DoesNotExist":
            return lambda cluster: not cluster.zones
        case _:
            return never


def unknown_clusters(placement: object, known: AbstractSet[str]) -> list[str]:
    """Names in the `clusterNames` of a placement that no cluster has, in order."""
    if not isinstance(placement, Mapping):
        return []
    terms = [placement.get("clusterAffinity"), *(placement.get("clusterAffinities") or ())]
    named = (name for term in terms if isinstance(term, Mapping) for name in term.get("clusterNames") or ())
    return [name for name in dict.fromkeys(named) if isinstance(name, str) and name not in known]
