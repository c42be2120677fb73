"""Reads from the log which objects members were given at a moment: the last work of each, with its last status."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Final

import msgspec
from msgspec import Raw, UnsetType

from schemas.codec import decode
from schemas.events.observed import WorkObserved
from schemas.events.work import WorkRendered, WorkWithdrawn
from schemas.keys import ObjectKey
from schemas.manifest import Manifest
from schemas.topology import OBSERVED
from services._kit.base.log_errors import Refused
from services._kit.content.blobs import Blobs
from services._kit.log.fact_history import stored_at, walk
from services._kit.log.stream_port import Log
from services.cli.common.running import complain
from services.cli.search.found_objects import FoundObject
from services.search.index.cached_from import CACHED_FROM
from services.search.querying.query_matches import means, means_kind
from services.search.querying.query_syntax import Query
from services.search.registries.member_facts import Gvr

_WORKS: Final = ("work.>",)
_Place = tuple[str, ObjectKey]


async def past_objects(logs: Mapping[str, Log], query: Query, at: float) -> AsyncIterator[FoundObject]:
    """Objects that a query means, as they were delivered; Secrets are left out."""
    works = await _works(logs, query, at)
    statuses = await _statuses(logs, set(works), at)
    blobs, lost = Blobs(logs["BLOBS"]), 0
    for place, work in sorted(works.items(), key=lambda item: (item[0][0], str(item[0][1]))):
        try:
            data = await blobs.get(work.digest) if isinstance(work.manifest, UnsetType) else bytes(work.manifest)
        except Refused:
            lost += 1
            continue
        manifest: Manifest = msgspec.json.decode(data)
        status = statuses.get(place)
        if status is not None:
            manifest["status"] = msgspec.json.decode(status)
        metadata = manifest["metadata"]
        metadata["annotations"] = {**(metadata.get("annotations") or {}), CACHED_FROM: work.cluster}
        if means(query, work.cluster, manifest):
            yield FoundObject(work.cluster, manifest)
    if lost:
        complain(f"{lost} manifests of that time cannot be read from the log any more; they are left out")


async def _works(logs: Mapping[str, Log], query: Query, at: float) -> dict[_Place, WorkRendered]:
    """The works in force at a moment whose kind, member and name a query can mean."""
    found: dict[_Place, WorkRendered] = {}
    async for place in walk(logs, _WORKS):
        message = place.message
        if stored_at(message) > at:
            # Later positions may be of an imported log and older.
            continue
        event = decode(message.subject, message.data)
        if isinstance(event, WorkWithdrawn):
            found.pop((event.cluster, event.key), None)
        elif isinstance(event, WorkRendered) and _possible(query, event):
            found[event.cluster, event.key] = event
    return found


def _possible(query: Query, work: WorkRendered) -> bool:
    if not work.key.group and work.key.resource == "secrets":
        return False
    group, _, version = work.api_version.rpartition("/")
    return means_kind(query, Gvr(group, version, work.key.resource), work.kind)


async def _statuses(logs: Mapping[str, Log], places: set[_Place], at: float) -> dict[_Place, Raw]:
    found: dict[_Place, Raw] = {}
    if not places:
        return found
    async for message in logs[OBSERVED.name].read(("observed.>",)):
        if stored_at(message) > at:
            continue
        event = decode(message.subject, message.data)
        if isinstance(event, WorkObserved) and (event.cluster, event.key) in places:
            if isinstance(event.status, UnsetType):
                found.pop((event.cluster, event.key), None)
            else:
                found[event.cluster, event.key] = event.status
    return found
