"""Shows how everything about one object stood at a moment: each facet's event then, and the story up to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from schemas.keys import ObjectKey
from services._kit.log.fact_history import facts_of, told
from services._rules.history.facet_states import Standing, standing
from services._rules.history.timeline import Entry, line
from services.cli.common.logbook import LogAccess, open_log, streams
from services.cli.common.moments import stamp
from services.cli.common.printing import as_json, as_yaml, table
from services.cli.common.running import Failed, patience
from services.cli.queries.history_output import render_history


async def state_at(access: LogAccess, key: ObjectKey, at: float, output: str = "") -> int:
    """Print the state of an object at a moment (seconds since 1970); raises Failed when there was none."""
    async with patience("reading the log"), open_log(access) as connection:
        logs = streams(connection)
        facts = await facts_of(logs, key, at)
        entries = await told(logs, facts) if facts else []
        began = "" if facts else min((stamp(fact.time) for fact in await facts_of(logs, key)), default="")
    if not facts:
        later = f"; its story begins at {began}" if began else ", nor does it now"
        raise Failed(f"at {stamp(at)} the log held no fact about {key}{later}")
    facets = standing(facts)
    if output in ("json", "yaml"):
        encode = as_json if output == "json" else as_yaml
        print(encode(document(key, at, facets, entries)), end="")
    else:
        print(text(key, at, facets, entries, wide=output == "wide"), end="")
    return 0


def document(key: ObjectKey, at: float, facets: Sequence[Standing], entries: Sequence[Entry]) -> dict[str, Any]:
    """The state as a document; every facet holds its whole event under `data`."""
    return {
        "kind": "State",
        "apiVersion": "fleetlog/v1",
        "object": {"resource": key.group_resource, "namespace": key.namespace, "name": key.name},
        "at": stamp(at),
        "facets": [msgspec.json.decode(msgspec.json.encode(facet)) for facet in facets],
        "entries": [{**msgspec.to_builtins(entry), "line": line(entry)} for entry in entries],
    }


def text(key: ObjectKey, at: float, facets: Sequence[Standing], entries: Sequence[Entry], *, wide: bool = False) -> str:
    """The state as a table for people, and the story up to then below it."""
    rows = [
        (
            facet.facet + (f" {facet.cluster}" if facet.cluster else ""),
            f"#{facet.position}",
            stamp(facet.time),
            facet.event,
            facet.summary,
        )
        for facet in facets
    ]
    head = f"{key} at {stamp(at)}\n\n"
    return (
        f"{head}{table(('facet', 'position', 'since', 'event', 'state'), rows)}\n{render_history(entries, wide=wide)}"
    )
