"""Follows a MultiClusterService from one cluster to the endpoints behind it, and names where it breaks off."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from schemas.keys import ObjectKey
from services._rules.endpoints.dispatched_slices import DispatchedSlices
from services._rules.endpoints.multi_cluster_services import Partner, SharedService, hindrance
from services._rules.endpoints.service_trace import (
    ServiceTrace,
    TracedFacts,
    TracedSlice,
    missing_from,
    traced_slice,
)


class SharedFacts(Struct, frozen=True):
    """The MultiClusterService, members as its partners, and every slice of its namespace that counts."""

    service: SharedService
    partners: Mapping[str, Partner]
    slices: DispatchedSlices = field(default_factory=DispatchedSlices)

    @property
    def keys(self) -> list[ObjectKey]:
        """Objects that a consumer holds for it."""
        name = (self.service.namespace, self.service.name)
        return [ObjectKey("", "services", *name), *sorted(self.slices.of(*name))]


def trace_shared(cluster: str, shared: SharedFacts, facts: TracedFacts) -> ServiceTrace:
    """What a client in a cluster reaches by the name of the Service itself: its own endpoints, and dispatched ones."""
    service = shared.service
    service_key, *keys = shared.keys
    missing = missing_from(cluster, service_key, facts)
    slices: list[TracedSlice] = []
    for key in keys:
        source = shared.slices.sources[key]
        if source.cluster == cluster:
            slices.append(traced_slice(source, source.name, ""))
        elif service.provides(source.cluster):
            why = missing_from(cluster, key, facts)
            if not service.consumes(cluster, source.cluster):
                why = f"{cluster} is no consumer of {service.key}"
            elif why and (hindered := hindrance(cluster, shared.partners)) is not None:
                why = hindered[1]
            slices.append(traced_slice(source, key.name, why))
    problems = [f"{service.name} is not in {cluster}: {missing}"] if missing else []
    problems += [f"{item.name} is not in {cluster}: {item.missing}" for item in slices if item.missing]
    if not slices:
        names = ", ".join(service.provider_names(shared.partners)) or "no cluster"
        problems.append(f"no provider ({names}) has reported endpoints of {service.name}: it needs pods there")
    elif not any(endpoint.ready for item in slices for endpoint in item.endpoints):
        problems.append("no endpoint is ready")
    place = f"{service.namespace}/{service.name}"
    return ServiceTrace(place, cluster, missing, tuple(slices), tuple(problems), own_name=True)
