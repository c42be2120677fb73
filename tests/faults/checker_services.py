"""What must hold of exported Services, by the facts about their endpoints and by the audit log of the control plane."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Final

from schemas.events.endpoints import EndpointsCollected, EndpointsEvent, EndpointsReleased
from schemas.manifest import Manifest

Content = Mapping[str, bool]
"""Addresses of endpoints, and whether they are ready."""
_USER: Final = "fleetlog:networking"


def content(manifest: Manifest) -> dict[str, bool]:
    """What an EndpointSlice offers."""
    return {
        address: (endpoint.get("conditions") or {}).get("ready") is not False
        for endpoint in manifest.get("endpoints") or ()
        for address in endpoint["addresses"]
    }


def differences(where: str, wanted: Mapping[str, Content], found: Mapping[str, Content]) -> list[str]:
    """Slices that are missing, left over, or other than they should be."""
    complaints = [f"{where}: slice {name} is lost" for name in sorted(wanted.keys() - found.keys())]
    complaints += [f"{where}: slice {name} is left over" for name in sorted(found.keys() - wanted.keys())]
    for name in sorted(wanted.keys() & found.keys()):
        if wanted[name] != found[name]:
            complaints.append(f"{where}: slice {name} has {dict(found[name])}, it should have {dict(wanted[name])}")
    return complaints


def facts(events: Sequence[EndpointsEvent], wanted: Content | None) -> list[str]:
    """Every fact about one slice says something new with a reason, and the last one is what its cluster has now.

    `events` are all facts of one slice in their order, `wanted` is its content in the cluster, None where it is gone.
    """
    complaints = []
    for before, event in pairwise(events):
        if _said(before) == _said(event):
            complaints.append(f"{_title(event)} says what the fact before it said")
    complaints += [
        f"{_title(event)} has no reason"
        for event in events
        if isinstance(event, EndpointsReleased) and not event.reason
    ]
    if not events:
        return [*complaints, "no fact tells of a slice"] if wanted is not None else complaints
    last = events[-1]
    found = _offered(last) if isinstance(last, EndpointsCollected) else None
    if found != (dict(wanted) if wanted is not None else None):
        complaints.append(f"{_title(last)} is the last fact: {found}, the cluster has {wanted}")
    return complaints


def rewritten(audit: Iterable[Manifest], namespace: str, given: Mapping[str, int]) -> list[str]:
    """No imported slice is written more often with other content than there are facts (`given`, by its name) of it."""
    written: dict[str, int] = {}
    for record in audit:
        place = record["resource"], record["namespace"], record["user"]
        if place == ("endpointslices", namespace, _USER) and record["verb"] != "delete" and record["changed"]:
            written[record["name"]] = written.get(record["name"], 0) + 1
    return [
        f"control plane: {name} was written {count} times with other content, {given.get(name, 0)} facts say so"
        for name, count in sorted(written.items())
        if count > given.get(name, 0)
    ]


def _said(event: EndpointsEvent) -> tuple[object, ...]:
    if isinstance(event, EndpointsReleased):
        return (event.reason, event.gated)
    return (event.service, event.address_type, event.endpoints, event.ports, event.kept)


def _offered(event: EndpointsCollected) -> dict[str, bool]:
    return {
        address: endpoint.conditions.ready is not False
        for endpoint in event.endpoints
        for address in endpoint.addresses
    }


def _title(event: EndpointsEvent) -> str:
    return f"{type(event).__name__} of {event.cluster}/{event.name}"
