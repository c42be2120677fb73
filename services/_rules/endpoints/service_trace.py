"""Follows an imported Service from one cluster to the endpoints behind it, and names where it breaks off."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from schemas.events.endpoints import EndpointsCollected
from schemas.events.observed import WorkObserved
from schemas.events.work import WorkEvent, WorkRendered
from schemas.keys import ObjectKey
from services._rules.constants import DISCOVERY_API
from services._rules.endpoints.imported_slices import imported
from services._rules.names import derived_service_name


class TracedEndpoint(Struct, frozen=True, rename="camel"):
    """One endpoint behind an imported Service."""

    addresses: tuple[str, ...]
    ready: bool
    target: str = ""
    """Kind and name of the object behind it, in its own cluster."""


class TracedSlice(Struct, frozen=True, rename="camel"):
    """One slice on its way: the cluster it is from, its name where it is imported, and why it is not there."""

    cluster: str
    name: str
    ports: tuple[str, ...]
    endpoints: tuple[TracedEndpoint, ...]
    missing: str = ""


class ServiceTrace(Struct, frozen=True, rename="camel"):
    """What a client in one cluster reaches under the derived name; `problems` say what keeps it from more."""

    service: str
    cluster: str
    missing: str
    """Why the derived Service is not in the cluster; empty where it is."""
    slices: tuple[TracedSlice, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def reached(self) -> int:
        """Ready endpoints that a client reaches."""
        if self.missing:
            return 0
        return sum(endpoint.ready for item in self.slices if not item.missing for endpoint in item.endpoints)


class TracedFacts(Struct, frozen=True):
    """What the log says last: slices that count, works and observations by cluster and object."""

    collected: Sequence[EndpointsCollected] = ()
    works: Mapping[tuple[str, ObjectKey], WorkEvent] = {}
    observed: Mapping[tuple[str, ObjectKey], WorkObserved] = {}


def service_key(namespace: str, name: str) -> ObjectKey:
    """The derived Service of an imported one."""
    return ObjectKey("", "services", namespace, derived_service_name(name))


def slice_key(event: EndpointsCollected) -> ObjectKey:
    """The imported EndpointSlice of one that was collected."""
    return ObjectKey(DISCOVERY_API.partition("/")[0], "endpointslices", event.namespace, imported(event).name)


def trace(namespace: str, name: str, cluster: str, facts: TracedFacts) -> ServiceTrace:
    """What a client in a cluster reaches of a Service that others export."""
    wanted = [event for event in facts.collected if (event.namespace, event.service) == (namespace, name)]
    wanted.sort(key=lambda event: (event.cluster, event.name))
    slices = tuple(
        TracedSlice(
            event.cluster,
            imported(event).name,
            tuple(f"{port.name or port.port}/{port.protocol}" for port in event.ports),
            tuple(
                TracedEndpoint(
                    endpoint.addresses,
                    endpoint.conditions.ready is not False,
                    f"{endpoint.target_ref.kind}/{endpoint.target_ref.name}" if endpoint.target_ref else "",
                )
                for endpoint in event.endpoints
            ),
            _missing(cluster, slice_key(event), facts),
        )
        for event in wanted
    )
    missing = _missing(cluster, service_key(namespace, name), facts)
    problems = []
    if missing:
        problems.append(f"{derived_service_name(name)} is not in {cluster}: {missing}; propagate a ServiceImport there")
    if not slices:
        problems.append(
            f"no cluster exports endpoints of {name}: it needs a ServiceExport beside a Service that has pods"
        )
    problems += [f"{item.name} is not in {cluster}: {item.missing}" for item in slices if item.missing]
    if slices and not any(endpoint.ready for item in slices for endpoint in item.endpoints):
        problems.append("no endpoint is ready")
    return ServiceTrace(f"{namespace}/{name}", cluster, missing, slices, tuple(problems))


def _missing(cluster: str, key: ObjectKey, facts: TracedFacts) -> str:
    """Why a cluster does not hold an object, in words; empty where it does."""
    work, seen = facts.works.get((cluster, key)), facts.observed.get((cluster, key))
    if not isinstance(work, WorkRendered):
        return "nothing asks for it there"
    if work.problem:
        return work.problem
    if seen is None or seen.uid != work.uid:
        return "it is on its way"
    if seen.absent or not seen.applied:
        return seen.message or "the cluster does not hold it"
    return "" if seen.digest == work.digest else "an older version is there, the present one is on its way"
