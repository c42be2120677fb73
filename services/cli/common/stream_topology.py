"""The command `fleetlog topology`: streams of the log, and who writes and reads which subject."""

from __future__ import annotations

import os
from typing import Final

import msgspec

from schemas.topology import DAY, MIB, STREAMS, SUBJECTS, WITHOUT_LOG, Stream
from services._rules.log.stream_limits import RoomError, sizes
from services.cli.common.printing import as_json, as_yaml, table
from services.cli.common.running import Failed

TOPOLOGY_BYTES: Final = "FLEETLOG_TOPOLOGY_BYTES"


def asked_sizes() -> dict[str, int]:
    """The sizes of streams that the environment asks for; raises Failed."""
    texts = [part.strip() for part in os.environ.get(TOPOLOGY_BYTES, "").split(",") if part.strip()]
    try:
        return sizes(texts)
    except RoomError as error:
        raise Failed(f"{TOPOLOGY_BYTES}: {error}") from None


def topology(output: str = "") -> str:
    """Everything as text for people, or as JSON or YAML."""
    if output:
        return (as_json if output == "json" else as_yaml)(
            {
                "streams": msgspec.to_builtins(STREAMS),
                "subjects": msgspec.to_builtins(SUBJECTS),
                "withoutLog": sorted(WITHOUT_LOG),
            }
        )
    streams = [(stream.name, _subjects(stream), _keeps(stream), stream.purpose) for stream in STREAMS]
    subjects = [
        (item.pattern, item.stream, item.writer, ", ".join(item.readers), ", ".join(item.events)) for item in SUBJECTS
    ]
    return (
        table(("stream", "subjects", "keeps", "purpose"), streams)
        + "\n"
        + table(("subject", "stream", "writer", "readers", "events"), subjects)
        + f"\nservices that read and write nothing of it: {', '.join(sorted(WITHOUT_LOG))}\n"
    )


def _subjects(stream: Stream) -> str:
    return " ".join(stream.subjects) or f"all of {', '.join(stream.sources)}"


def _keeps(stream: Stream) -> str:
    """What the stream holds on to, and for how long."""
    parts = []
    if stream.max_per_subject > 0:
        parts.append(f"{stream.max_per_subject} per subject")
    if stream.max_age:
        parts.append(f"{stream.max_age / DAY:g} days")
    if stream.max_bytes > 0:
        parts.append(f"{stream.max_bytes // MIB} MiB")
    text = ", ".join(parts) or "everything"
    return f"{text}; refuses when full" if stream.discard == "new" else text
