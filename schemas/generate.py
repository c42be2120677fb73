"""Writes the JSON Schema of every event and an AsyncAPI document of the log from the Structs and the topology.

`python -m schemas.generate [DIRECTORY]` (default: schemas/json beside this file).
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, get_args

import msgspec

from schemas.codec import UNIONS
from schemas.explained import PlacementExplained
from schemas.topology import STREAMS, SUBJECTS

_REF = "#/$defs/{name}"


def _members() -> list[type]:
    found: list[type] = [PlacementExplained]
    for union in UNIONS.values():
        found.extend(get_args(union) or (union,))
    return found


def events_schema() -> dict[str, Any]:
    """One JSON Schema document with a definition per event and per part of one."""
    members = _members()
    _, components = msgspec.json.schema_components(members, ref_template=_REF)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Fleetlog events",
        "oneOf": [{"$ref": _REF.format(name=member.__name__)} for member in members],
        "$defs": dict(sorted(components.items())),
    }


def asyncapi() -> dict[str, Any]:
    """An AsyncAPI 3 document: channels are subjects, operations are their writers and readers."""
    channels: dict[str, Any] = {}
    operations: dict[str, Any] = {}
    messages: dict[str, Any] = {}
    for subject in SUBJECTS:
        name = subject.pattern.split(".", 1)[0]
        channels[name] = {
            "address": subject.pattern.replace("<", "{").replace(">", "}"),
            "description": f"stream {subject.stream}",
            "messages": {event: {"$ref": f"#/components/messages/{event}"} for event in subject.events},
        }
        for event in subject.events:
            messages[event] = {"payload": {"$ref": f"events.json#/$defs/{event}"}}
        channel = {"$ref": f"#/channels/{name}"}
        operations[f"{name}.write"] = {"action": "send", "channel": channel, "summary": f"written by {subject.writer}"}
        readers = ", ".join(subject.readers)
        operations[f"{name}.read"] = {"action": "receive", "channel": channel, "summary": f"read by {readers}"}
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "Fleetlog",
            "version": "1",
            "description": "; ".join(f"{stream.name}: {stream.purpose}" for stream in STREAMS),
        },
        "channels": channels,
        "operations": operations,
        "components": {"messages": messages},
    }


def documents() -> dict[str, bytes]:
    """File name to content of everything that is generated."""
    made = {"events.json": events_schema(), "asyncapi.json": asyncapi()}
    return {name: msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n" for name, content in made.items()}


def main(arguments: list[str]) -> int:
    """Write all documents."""
    directory = Path(arguments[0]) if arguments else Path(__file__).parent / "json"
    directory.mkdir(parents=True, exist_ok=True)
    for name, content in documents().items():
        (directory / name).write_bytes(content)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
