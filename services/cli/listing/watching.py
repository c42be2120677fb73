"""Follows the changes of one kind in the control plane and in members, until it is interrupted."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from schemas.manifest import Manifest
from services._kit.concurrency.tasks import all_of
from services._kit.kube.api import UNREADABLE, BadAnswer
from services._kit.kube.client import ApiError, Unreachable, WatchEvent
from services.cli.common.printing import as_json, as_yaml
from services.cli.common.running import Failed, complain
from services.cli.listing.answer_shapes import checked
from services.cli.listing.listing_options import Query
from services.cli.listing.merged_tables import GrowingTable, Look, Part
from services.cli.listing.object_reading import Asked, Found, accepted, path_of, prefix_of, selectors_of, trouble_of
from services.cli.listing.printers import printer_of
from services.cli.members.clusters import Endpoint

_EXPIRED: Final = 410
_LONGEST_PAUSE: Final = 10.0
_OBJECT: Final = msgspec.json.Decoder(dict[str, Any])
Show = Callable[[Sequence[Part]], None]


async def follow(asked: Asked, found: Sequence[Found], namespace: str, query: Query, look: Look) -> int:
    """Print what was found, unless only changes are wanted, and then every change; raises Failed.

    A watch that cannot be begun ends it. One that breaks off later is begun again, from where it was.
    """
    show = _shower(query, look)
    troubles = [trouble for one in found for trouble in one.troubles]
    for trouble in troubles:
        complain(trouble)
    if troubles:
        return 1
    if not query.watch_only:
        show(
            [
                Part(one.endpoint.name, answer, event="ADDED" if query.watch_events else "")
                for one in found
                for answer in one.answers
            ]
        )
    await all_of(
        _follow(one.endpoint, asked, _version(one.answers), path_of(asked, namespace), query, show) for one in found
    )
    return 0


def _version(answers: Sequence[Manifest]) -> str:
    """Version that a list was read at: that of its first chunk."""
    return str((answers[0].get("metadata") or {}).get("resourceVersion") or "") if answers else ""


async def _follow(endpoint: Endpoint, asked: Asked, version: str, path: str, query: Query, show: Show) -> None:
    params = selectors_of(query)
    if asked.names:
        params["fieldSelector"] = f"metadata.name={asked.names[0]}"
    begun, pause = False, 0.5
    columns: list[Manifest] = []
    while True:
        try:
            async for events in endpoint.client.watch(path, version, params=params, accept=accepted(query)):
                begun, pause = True, 0.5
                for event in events:
                    seen = _read(event)
                    version = _version_of(event, seen) or version
                    if event.type != "BOOKMARK":
                        # Only the first table of a watch says what its columns are.
                        columns = seen.get("columnDefinitions") or columns
                        if seen.get("kind") == "Table":
                            seen["columnDefinitions"] = columns
                        show([Part(endpoint.name, seen, event=event.type)])
        except (ApiError, Unreachable) as error:
            if isinstance(error, ApiError) and error.status == _EXPIRED:
                version = await _present(endpoint, path, params, query)
                continue
            if not begun or isinstance(error, ApiError | BadAnswer):
                raise Failed(trouble_of(endpoint, error, asked).removeprefix("error: ")) from None
            complain(f"warning: {prefix_of(endpoint)}the watch broke off and is begun again: {error}")
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)


async def _present(endpoint: Endpoint, path: str, params: dict[str, str], query: Query) -> str:
    """The version that a collection is at now."""
    listed = await endpoint.client.get(path, accept=accepted(query), params={**params, "limit": "1"})
    return _version((listed,))


def _read(event: WatchEvent) -> Manifest:
    """The object of an event; raises BadAnswer for what is none, ApiError for one that reports an error."""
    try:
        seen = _OBJECT.decode(event.object)
    except UNREADABLE as error:
        raise BadAnswer(f"a watch sent what is no object: {error}") from None
    if event.type == "ERROR":
        code = seen.get("code")
        refused = code if isinstance(code, int) else 500
        raise ApiError(refused, str(seen.get("reason") or ""), str(seen.get("message") or ""))
    return seen if event.type == "BOOKMARK" else checked(seen)


def _version_of(event: WatchEvent, seen: Manifest) -> str:
    """The version that a watch is at with an event."""
    if event.type == "BOOKMARK" and not seen.get("rows"):
        metadata = seen.get("metadata")
        return str(metadata.get("resourceVersion") or "") if isinstance(metadata, dict) else ""
    rows = seen.get("rows") or ()
    inner = (rows[0].get("object") or {}) if rows else seen
    return str((inner.get("metadata") or {}).get("resourceVersion") or "")


def _shower(query: Query, look: Look) -> Show:
    """What prints parts of a watch as they come."""
    if query.readable:
        growing = GrowingTable(msgspec.structs.replace(look, events=query.watch_events))
        return lambda parts: _write(growing.text(parts))
    printer = printer_of(query)
    as_document = as_yaml if query.output == "yaml" else as_json

    def show(parts: Sequence[Part]) -> None:
        for part in parts:
            for item in part.answer.get("items", (part.answer,)):
                if not query.show_managed_fields:
                    (item.get("metadata") or {}).pop("managedFields", None)
                if query.watch_events and query.output in ("json", "yaml"):
                    _write(as_document({"type": part.event, "object": item}))
                else:
                    text = printer([item])
                    _write(f"---\n{text}" if query.output == "yaml" else text)

    return show


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
