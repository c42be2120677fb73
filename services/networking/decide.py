"""Decides which endpoints of one Service count for other clusters, and what the control plane has to hold of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from schemas.endpoints import ServiceSlice
from schemas.events.endpoints import EndpointsCollected, EndpointsReleased
from schemas.manifest import Manifest
from services._rules.constants import EXPORTS, IMPORTS, MULTI_CLUSTER_SERVICES
from services._rules.decision import Decision
from services._rules.endpoints.derived_services import CLUSTER_SET_IP, differs, taken
from services._rules.endpoints.export_conditions import ClusterExport, export_conditions, import_problems, merged
from services._rules.endpoints.health_gates import NONE, OPEN, Gate, admitted, gate
from services._rules.endpoints.imported_slices import ImportedSlice, imported
from services._rules.endpoints.locality import EVERYWHERE, Locality, locality
from services._rules.endpoints.reported_slices import pieces
from services._rules.kubernetes.event_objects import note_about
from services.networking.dispatching.provided_endpoints import Shown, is_provider, provided, shown
from services.networking.service_objects import (
    ControlObjects,
    DropService,
    DropSlice,
    PutService,
    PutSlice,
    ReadManifest,
    ShowAddresses,
    ShowStatus,
    Tell,
    TellOf,
    involved,
    object_key,
    shared_service,
)
from services.networking.state import Export, ExportedService, NetworkingState, ServiceName

COMPONENT: Final = "networking"
_UNKNOWN: Final = ExportedService()

Collected = dict[tuple[str, str], EndpointsCollected]
"""What counts, by cluster and name of the slice there."""


def decide(state: NetworkingState, name: ServiceName, given: ControlObjects, now: float, patience: float) -> Decision:
    """What becomes of one Service; a cluster that is not ready for longer than `patience` seconds does not count.

    The objects of the control plane follow the facts: what is collected here is written once it is on the log.
    """
    found = state.services.get(name, _UNKNOWN)
    reasons = {cluster: _left_out(state, found, cluster, now, patience) for cluster in _clusters(found)}
    gates = _gates(state, name, reasons, now)
    offered = dict(_wanted(name, found, reasons))
    wanted = admitted(offered, gates)
    counting = {**dict(provided(state.shared, (name.namespace, name.name), found.collected)), **wanted}
    events: list[EndpointsCollected | EndpointsReleased] = []
    for place, event in counting.items():
        if not _same(found.collected.get(place), event):
            events.append(event)
    for (cluster, slice_name), before in found.collected.items():
        if (cluster, slice_name) not in counting:
            gated = (cluster, slice_name) in offered
            left = "" if is_provider(state.shared, (name.namespace, name.name), cluster) else reasons[cluster]
            reason = left or (gates[cluster].reason if gated else f"{cluster} has no such slice any more")
            events.append(
                EndpointsReleased(
                    cluster=cluster,
                    namespace=name.namespace,
                    name=slice_name,
                    service=before.service,
                    reason=reason,
                    gated=gated,
                )
            )
    offers = {
        cluster: _offer(cluster, report, reasons[cluster], gates.get(cluster, OPEN).reason, wanted)
        for cluster, report in found.reports.items()
        if cluster in found.asked and cluster in state.members
    }
    shows = shown(state.shared, (name.namespace, name.name), given.shared, now)
    importers = state.backing.importers(name.namespace, name.name)
    near = locality(wanted.values(), state.places, importers) if given.spreads else EVERYWHERE
    effects: list[object] = [*_slices(name, given, wanted, near), *_derived(name, given, offers)]
    effects += _exported(name, given, offers, now)
    effects += _shared(state, name, given, shows)
    effects += [ReadManifest(name, digest) for digest in _unread(state, name)]
    wakes = (_wake_at(state, found, gates, now, patience), shows.wake_at)
    return Decision(events, min((at for at in wakes if at is not None), default=None), effects)


def _clusters(found: ExportedService) -> set[str]:
    return {*found.asked, *found.reports, *(cluster for cluster, _ in found.collected)}


def _left_out(state: NetworkingState, found: ExportedService, cluster: str, now: float, patience: float) -> str:
    """Why the endpoints of a cluster do not count, in words; empty where they do."""
    reach = state.members.get(cluster)
    if reach is None:
        return f"{cluster} is no member any more"
    if cluster not in found.asked:
        return f"{cluster} does not export it any more"
    if not reach.ready and now >= reach.since + patience:
        return f"{cluster} is not ready for {patience:g} s"
    return ""


def _gates(state: NetworkingState, name: ServiceName, reasons: Mapping[str, str], now: float) -> dict[str, Gate]:
    """Which of the clusters that export it should not be used at present."""
    pressing = state.tainted or state.backing.evicts(name.namespace)
    backings = state.backing.backings(name.namespace, name.name) if pressing else NONE
    return {
        cluster: gate(cluster, state.members[cluster], backings, now)
        for cluster, reason in reasons.items()
        if not reason
    }


def _unread(state: NetworkingState, name: ServiceName) -> list[str]:
    """Manifests without which it is not known whose pods leave a cluster; none while nothing leaves."""
    if not (state.tainted or state.backing.evicts(name.namespace)):
        return []
    return state.backing.unread(name.namespace)


def _wake_at(
    state: NetworkingState, found: ExportedService, gates: Mapping[str, Gate], now: float, patience: float
) -> float | None:
    """When the next cluster that is not ready has been so for too long, or a gate opens or closes by itself."""
    silent = (state.members[cluster] for cluster in _clusters(found) if cluster in state.members)
    due = [reach.since + patience for reach in silent if not reach.ready and reach.since + patience > now]
    due += [item.until for item in gates.values() if item.until is not None and item.until > now]
    return min(due, default=None)


def _wanted(
    name: ServiceName, found: ExportedService, reasons: Mapping[str, str]
) -> Iterator[tuple[tuple[str, str], EndpointsCollected]]:
    """What counts now: as reported, and where a cluster has not listed its slices what was collected before."""
    for cluster in sorted(cluster for cluster, reason in reasons.items() if not reason):
        report = found.reports.get(cluster)
        if report is None or report.slices is None:
            for place, before in found.collected.items():
                if place[0] == cluster:
                    yield place, before
            continue
        for piece in pieces(report.slices):
            yield (
                (cluster, piece.name),
                EndpointsCollected(
                    cluster=cluster,
                    namespace=name.namespace,
                    name=piece.name,
                    service=name.name,
                    address_type=piece.address_type,
                    endpoints=piece.endpoints,
                    ports=piece.ports,
                    at=report.at,
                ),
            )


def _same(before: EndpointsCollected | None, now: EndpointsCollected) -> bool:
    """Whether a slice says what was collected of it last."""
    return before is not None and _content(before) == _content(now)


def _content(event: EndpointsCollected) -> tuple[object, ...]:
    return (event.service, event.address_type, event.endpoints, event.ports, event.kept)


def _offer(cluster: str, report: Export, reason: str, gated: str, wanted: Collected) -> ClusterExport:
    """What the status says of a cluster: what counts of it, or what it reported where that does not count."""
    counting = tuple(
        ServiceSlice(event.name, event.address_type, event.endpoints, event.ports)
        for (owner, _), event in wanted.items()
        if owner == cluster
    )
    if gated:
        reason = "" if counting else gated
        gated = f"no other cluster offers the same, or it would not be used: {gated}" if counting else gated
    problem = reason or gated or report.problem
    if report.slices is None:
        problem = problem or "it has not reported its endpoints; an agent of an earlier version does not"
    return ClusterExport(counting or report.slices or (), problem, counts=not reason)


def _slices(
    name: ServiceName, given: ControlObjects, wanted: Collected, near: Locality
) -> Iterator[PutSlice | DropSlice]:
    """The EndpointSlices of the control plane: one for each that counts."""
    expected: dict[str, ImportedSlice] = {}
    for event in wanted.values():
        item = imported(event, near)
        expected[item.name] = item
    for slice_name, item in expected.items():
        present = given.slices.get(slice_name)
        if present is not None and present.content.address_type != item.content.address_type:
            # What cannot be changed is made again, once it is gone.
            yield DropSlice(name, slice_name)
        elif present != item:
            yield PutSlice(name, item)
    for slice_name in given.slices.keys() - expected.keys():
        yield DropSlice(name, slice_name)


def _derived(
    name: ServiceName, given: ControlObjects, offers: Mapping[str, ClusterExport]
) -> Iterator[PutService | DropService | ShowAddresses | ShowStatus | Tell]:
    """The derived Service of an import, the clusters that its status names, and what is wrong with it."""
    asked, derived = given.asked, given.derived
    if asked is None or asked.type != CLUSTER_SET_IP:
        if derived is not None and derived.owner == name.name:
            yield DropService(name, derived.uid)
        if asked is None:
            yield Tell(object_key(IMPORTS, name), None)
            return
    problems = import_problems(asked, offers)
    if asked.type == CLUSTER_SET_IP:
        if refusal := taken(derived, asked):
            problems.insert(0, ("SyncDerivedServiceFailed", refusal))
        elif derived is None or differs(derived, asked):
            yield PutService(name, asked)
        elif derived.ips != asked.ips:
            yield ShowAddresses(name, asked.ips)
    offering = tuple(sorted(cluster for cluster, found in offers.items() if found.slices and found.counts))
    if asked.clusters != offering:
        status: Manifest = {"clusters": [{"cluster": cluster} for cluster in offering]}
        yield ShowStatus(name, IMPORTS, asked.uid, status)
    about = object_key(IMPORTS, name)
    if not problems:
        yield Tell(about, None)
    for reason, message in problems[:1]:
        yield Tell(about, note_about(involved(IMPORTS, name, asked.uid), reason, message, COMPONENT, warning=True))


def _exported(
    name: ServiceName, given: ControlObjects, offers: Mapping[str, ClusterExport], now: float
) -> Iterator[ShowStatus]:
    """The conditions of the ServiceExport."""
    if given.export is None:
        return
    conditions = merged(given.export.conditions, export_conditions(offers), given.export.generation, now)
    if conditions is not None:
        yield ShowStatus(name, EXPORTS, given.export.uid, {"conditions": conditions})


def _shared(
    state: NetworkingState, name: ServiceName, given: ControlObjects, shows: Shown
) -> Iterator[ShowStatus | TellOf]:
    """The status of the MultiClusterService, and the Events about it."""
    if given.shared is None and (name.namespace, name.name) not in state.shared.services:
        return
    if given.shared is None:
        yield TellOf(shared_service(name, "").key, ())
        return
    about = shared_service(name, given.shared.uid)
    if shows.status is not None:
        yield ShowStatus(name, MULTI_CLUSTER_SERVICES, given.shared.uid, shows.status)
    notes = (note_about(about, item.reason, item.message, COMPONENT, warning=item.warning) for item in shows.happenings)
    yield TellOf(about.key, tuple(notes))
