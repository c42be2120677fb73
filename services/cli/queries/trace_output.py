"""The command `fleetlog trace`: which endpoints a client in one cluster reaches of an imported Service, and why not."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from schemas.codec import DecodeError, Known, decode
from schemas.events.cluster import ClusterChanged
from schemas.events.endpoints import EndpointsCollected, EndpointsReleased
from schemas.events.observed import WorkObserved
from schemas.events.policy import PolicyChanged
from schemas.events.template import TemplateChanged
from schemas.events.work import WorkRendered, WorkWithdrawn
from schemas.keys import ObjectKey, PolicyKey
from schemas.subjects import endpoints_in, facet, observed, policy, work, work_in_all
from schemas.topology import FACTS, OBSERVED
from services._kit.log.fact_history import present
from services._kit.log.stream_port import Message
from services._rules.constants import EXPORTS, IMPORTS, MULTI_CLUSTER_SERVICE, MULTICLUSTER_GROUP
from services._rules.endpoints.derived_services import TOPOLOGY_OFF, topology_mode
from services._rules.endpoints.dispatched_slices import DispatchedSlices
from services._rules.endpoints.locality import place_of
from services._rules.endpoints.multi_cluster_services import Partner, SharedService, partner_of, read_shared_service
from services._rules.endpoints.service_trace import ServiceTrace, TracedFacts, service_key, slice_key, trace
from services._rules.endpoints.shared_trace import SharedFacts, trace_shared
from services._rules.names import derived_service_name
from services.cli.common.logbook import open_log, streams
from services.cli.common.printing import aligned, render
from services.cli.common.running import Failed, patience
from services.cli.queries.object_history import key_asked
from services.cli.queries.query_options import ObjectQuery
from services.networking.backing_state import BackingState, FacetOfBacking

_KINDS = ("services", EXPORTS, IMPORTS)


async def trace_service(query: ObjectQuery, cluster: str, output: str = "") -> int:
    """Print what a client in a cluster reaches; raises Failed for an unknown cluster and for other kinds.

    The exit code is 1 where it reaches no ready endpoint.
    """
    key = await key_asked(query)
    if key.resource not in _KINDS:
        raise Failed(f"only Services can be traced, not {key.group_resource}")
    async with patience("reading the log"), open_log(query.log.access) as connection:
        logs = streams(connection)
        given = ObjectKey(MULTICLUSTER_GROUP, IMPORTS, key.namespace, key.name)
        facets = [facet(name, given) for name in ("template", "placement", "eviction")]
        subjects = ["cluster.*", endpoints_in(key.namespace), policy(_shared_key(key))]
        known = _events(await present(logs[FACTS.name], subjects))
        export = ObjectKey(MULTICLUSTER_GROUP, EXPORTS, key.namespace, key.name)
        given_to = _events(await present(logs[FACTS.name], [work_in_all(export)]))
        importers = _importers(key, await present(logs[FACTS.name], facets))
        members = {event.name: event for event in known if isinstance(event, ClusterChanged)}
        if cluster not in members:
            raise Failed(f"there is no member {cluster}: `karmadactl get clusters` lists them")
        collected = [event for event in known if isinstance(event, EndpointsCollected) and event.service == key.name]
        shared = _shared(known) if key.resource == "services" else None
        keys = [service_key(key.namespace, key.name), *map(slice_key, collected)]
        if shared is not None:
            keys = shared.keys
        works = _events(await present(logs[FACTS.name], [work(cluster, item) for item in keys]))
        seen = _events(await present(logs[OBSERVED.name], [observed(cluster, item) for item in keys]))
    facts = TracedFacts(
        collected,
        {(item.cluster, item.key): item for item in works if isinstance(item, WorkRendered | WorkWithdrawn)},
        {(item.cluster, item.key): item for item in seen if isinstance(item, WorkObserved)},
        [event for event in known if isinstance(event, EndpointsReleased)],
        {event.cluster for event in given_to if isinstance(event, WorkRendered)},
        {name: place_of(event.manifest) for name, event in members.items()},
        importers,
    )
    found = trace_shared(cluster, shared, facts) if shared else trace(key.namespace, key.name, cluster, facts)
    head = {"kind": "Trace", "apiVersion": "fleetlog/v1", "reached": found.reached}
    render(output, lambda: {**head, **msgspec.to_builtins(found)}, lambda: text_of(found))
    return 0 if found.reached else 1


def text_of(found: ServiceTrace) -> str:
    """A trace for people: the Service, its endpoints by cluster, and what keeps them away."""
    name = found.service.partition("/")[2]
    name = name if found.own_name else derived_service_name(name)
    state = found.missing or f"in place, {found.reached} ready endpoints"
    rows = [
        [
            item.cluster,
            ", ".join(endpoint.addresses),
            "not ready" if not endpoint.ready else "ready" if endpoint.used else "ready, not used from here",
            f"for {', '.join(endpoint.zones)}" if endpoint.zones else "",
            endpoint.target,
            f"{item.name} {', '.join(item.ports)}",
            item.missing or (f"last resort: {item.kept}" if item.kept else ""),
        ]
        for item in found.slices
        for endpoint in item.endpoints
    ]
    lines = [f"{name} in {found.cluster}: {state}\n", aligned(rows) if rows else ""]
    lines += [f"left out: {item.cluster}: {item.reason}\n" for item in found.left_out]
    lines += [f"locality: {found.locality}\n"] if found.locality else []
    return "".join([*lines, *(f"problem: {problem}\n" for problem in found.problems)])


def _shared_key(key: ObjectKey) -> PolicyKey:
    return PolicyKey(MULTI_CLUSTER_SERVICE, key.namespace, key.name)


def _shared(known: Iterable[Known]) -> SharedFacts | None:
    """The MultiClusterService among facts, with what is known of its slices and of members."""
    service: SharedService | None = None
    partners: dict[str, Partner] = {}
    slices = DispatchedSlices()
    for event in known:
        match event:
            case PolicyChanged():
                service = read_shared_service(event)
            case ClusterChanged() if not event.deleting:
                partners[event.name] = partner_of(event)
            case EndpointsCollected():
                slices.take(event)
            case _:
                pass
    return SharedFacts(service, partners, slices) if service is not None and service.cross_cluster else None


def _importers(key: ObjectKey, found: Iterable[Message]) -> frozenset[str] | None:
    """Clusters that the import of a Service goes to, by its facets; None where it turns locality off."""
    state = BackingState()
    for message in found:
        for event in _events([message]):
            if isinstance(event, TemplateChanged) and topology_mode(event.annotations) == TOPOLOGY_OFF:
                return None
            if isinstance(event, FacetOfBacking):
                state.take(message.seq, event)
    return state.importers(key.namespace, key.name)


def _events(messages: Iterable[Message]) -> list[Known]:
    """Events of this version; those of newer ones are left out."""
    found = []
    for message in messages:
        try:
            found.append(decode(message.subject, message.data))
        except DecodeError:
            continue
    return found
