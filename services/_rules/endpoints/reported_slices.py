"""Bounds what one cluster may report of the endpoints of a Service, and divides it into slices of a size for all."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from schemas.endpoints import ServiceSlice, SliceEndpoint
from schemas.keys import ObjectKey
from services._rules.constants import EXPORTS, MULTICLUSTER_GROUP
from services._rules.endpoints.multi_cluster_services import is_marker

MOST_ENDPOINTS: Final = 10_000
"""Endpoints of one Service that a cluster may report."""
MOST_BYTES: Final = 1_500_000
"""Bytes of them on the log: a report has to fit into one message."""
SLICE_ENDPOINTS: Final = 100
"""Endpoints of one slice, as Kubernetes' own controller fills them: one change is then small for every reader."""
ADDRESS_TYPES: Final = frozenset({"IPv4", "IPv6", "FQDN"})
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")


def is_export(key: ObjectKey) -> bool:
    """Whether an object offers the Service of its name to other clusters."""
    return key.resource == EXPORTS and key.group == MULTICLUSTER_GROUP


def reports_endpoints(key: ObjectKey) -> bool:
    """Whether reports on an object carry the endpoints of the Service of its name."""
    return is_export(key) or is_marker(key)


def bounded(slices: Iterable[ServiceSlice]) -> tuple[tuple[ServiceSlice, ...], str]:
    """Slices by name, as far as they may be reported, and what was left out in words (empty: nothing)."""
    kept: list[ServiceSlice] = []
    room, size, given = MOST_ENDPOINTS, MOST_BYTES, 0
    for found in sorted(slices, key=lambda item: item.name):
        given += len(found.endpoints)
        size -= weight(replace(found, endpoints=()))
        taken = []
        for endpoint in found.endpoints:
            size -= weight(endpoint)
            if room <= 0 or size < 0:
                room = 0
                break
            taken.append(endpoint)
            room -= 1
        if taken or not found.endpoints:
            kept.append(replace(found, endpoints=tuple(taken)))
    left = given - sum(len(item.endpoints) for item in kept)
    if not left:
        return tuple(kept), ""
    return tuple(kept), (
        f"{left} of {given} endpoints are left out: a cluster may export {MOST_ENDPOINTS} of a Service, in "
        f"{MOST_BYTES} bytes; divide the Service"
    )


def refused(slices: Sequence[ServiceSlice]) -> str:
    """Why a report is not believed, in words; empty for one that is."""
    count = sum(len(item.endpoints) for item in slices)
    if count > MOST_ENDPOINTS:
        return f"{count} endpoints of one Service, at most {MOST_ENDPOINTS} are collected"
    if sum(map(weight, slices)) > MOST_BYTES + MOST_ENDPOINTS:
        return f"endpoints of more than {MOST_BYTES} bytes"
    names = {item.name for item in slices}
    if len(names) < len(slices):
        return "two slices of one name"
    for item in slices:
        if not _NAME.fullmatch(item.name):
            return f"{item.name[:64]!r} is no name of an EndpointSlice"
        if item.address_type not in ADDRESS_TYPES:
            return f"slice {item.name}: unknown address type {item.address_type[:32]!r}"
    return ""


def pieces(slices: Iterable[ServiceSlice]) -> Iterator[ServiceSlice]:
    """Slices of at most SLICE_ENDPOINTS endpoints; those that are divided get numbers behind their names from 2 on."""
    whole = sorted(slices, key=lambda item: item.name)
    taken = {item.name for item in whole}
    for found in whole:
        yield replace(found, endpoints=found.endpoints[:SLICE_ENDPOINTS])
        number = 1
        for start in range(SLICE_ENDPOINTS, len(found.endpoints), SLICE_ENDPOINTS):
            number += 1
            while f"{found.name}-{number}" in taken:
                number += 1
            name = f"{found.name}-{number}"
            taken.add(name)
            yield replace(found, name=name, endpoints=found.endpoints[start : start + SLICE_ENDPOINTS])


def weight(part: ServiceSlice | SliceEndpoint) -> int:
    """Bytes of a slice or an endpoint on the log."""
    return len(msgspec.json.encode(part))
