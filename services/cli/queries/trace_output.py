"""The command `fleetlog trace`: which endpoints a client in one cluster reaches of an imported Service, and why not."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from schemas.codec import DecodeError, Known, decode
from schemas.events.cluster import ClusterChanged
from schemas.events.endpoints import EndpointsCollected
from schemas.events.observed import WorkObserved
from schemas.events.work import WorkRendered, WorkWithdrawn
from schemas.subjects import cluster as cluster_subject
from schemas.subjects import endpoints_in, observed, work
from schemas.topology import FACTS, OBSERVED
from services._kit.log.fact_history import present
from services._kit.log.stream_port import Message
from services._rules.constants import EXPORTS, IMPORTS
from services._rules.endpoints.service_trace import ServiceTrace, TracedFacts, service_key, slice_key, trace
from services._rules.names import derived_service_name
from services.cli.common.logbook import open_log, streams
from services.cli.common.printing import aligned, render
from services.cli.common.running import Failed, patience
from services.cli.queries.object_history import key_asked
from services.cli.queries.query_options import ObjectQuery

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
        known = _events(await present(logs[FACTS.name], [cluster_subject(cluster), endpoints_in(key.namespace)]))
        if not any(isinstance(event, ClusterChanged) for event in known):
            raise Failed(f"there is no member {cluster}: `karmadactl get clusters` lists them")
        collected = [event for event in known if isinstance(event, EndpointsCollected) and event.service == key.name]
        keys = [service_key(key.namespace, key.name), *map(slice_key, collected)]
        works = _events(await present(logs[FACTS.name], [work(cluster, item) for item in keys]))
        seen = _events(await present(logs[OBSERVED.name], [observed(cluster, item) for item in keys]))
    facts = TracedFacts(
        collected,
        {(item.cluster, item.key): item for item in works if isinstance(item, WorkRendered | WorkWithdrawn)},
        {(item.cluster, item.key): item for item in seen if isinstance(item, WorkObserved)},
    )
    found = trace(key.namespace, key.name, cluster, facts)
    head = {"kind": "Trace", "apiVersion": "fleetlog/v1", "reached": found.reached}
    render(output, lambda: {**head, **msgspec.to_builtins(found)}, lambda: text_of(found))
    return 0 if found.reached else 1


def text_of(found: ServiceTrace) -> str:
    """A trace for people: the Service, its endpoints by cluster, and what keeps them away."""
    name = derived_service_name(found.service.partition("/")[2])
    state = found.missing or f"in place, {found.reached} ready endpoints"
    rows = [
        [
            item.cluster,
            ", ".join(endpoint.addresses),
            "ready" if endpoint.ready else "not ready",
            endpoint.target,
            f"{item.name} {', '.join(item.ports)}",
            item.missing,
        ]
        for item in found.slices
        for endpoint in item.endpoints
    ]
    lines = [f"{name} in {found.cluster}: {state}\n", aligned(rows) if rows else ""]
    return "".join([*lines, *(f"problem: {problem}\n" for problem in found.problems)])


def _events(messages: Iterable[Message]) -> list[Known]:
    """Events of this version; those of newer ones are left out."""
    found = []
    for message in messages:
        try:
            found.append(decode(message.subject, message.data))
        except DecodeError:
            continue
    return found
