"""Makes `fields.json.gz`, the field numbers of Kubernetes' types, from the type descriptors inside a Go client binary.

Run by hand when types are added: `python -m services.apiserver.protobuf.extract PATH_OF_KUBECTL`.
"""

import gzip
import json
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from services.apiserver.kinds.decoding import field_tables as schemas
from services.apiserver.protobuf.wire import fields, text

_SCALARS = {1: "d", 2: "d", 3: "i", 4: "i", 5: "i", 8: "b", 9: "s", 12: "y", 13: "i", 17: "i", 18: "i"}
_MESSAGE, _REPEATED = 11, 3


def descriptors(binary: bytes) -> Iterator[bytes]:
    """Every file descriptor embedded in a binary."""
    position = 0
    while (position := binary.find(b"\x1f\x8b\x08", position)) >= 0:
        try:
            found = zlib.decompressobj(31).decompress(binary[position : position + (1 << 20)])
        except zlib.error:
            found = b""
        if b"generated.proto" in found[:200] and b"k8s" in found[:200]:
            yield found
        position += 3


def messages(descriptor: bytes) -> dict[str, list[Any]]:
    """Full message names and their fields: [number, JSON name, type code, message name]."""
    package = ""
    out: dict[str, list[Any]] = {}
    for number, value in fields(descriptor):
        if number == 2 and isinstance(value, memoryview):
            package = text(value)
    for number, value in fields(descriptor):
        if number == 4 and isinstance(value, memoryview):
            _message(package, value, out)
    return out


def _message(prefix: str, raw: memoryview, out: dict[str, list[Any]]) -> None:
    name, found, nested = "", [], []
    for number, value in fields(raw):
        if not isinstance(value, memoryview):
            continue
        if number == 1:
            name = text(value)
        elif number == 2:
            found.append(_field(value))
        elif number == 3:
            nested.append(value)
    full = f"{prefix}.{name}"
    out[full] = found
    for value in nested:
        _message(full, value, out)


def _field(raw: memoryview) -> list[Any]:
    name, number, label, kind, target = "", 0, 0, 0, ""
    for tag, value in fields(raw):
        if tag == 1 and isinstance(value, memoryview):
            name = text(value)
        elif tag == 3 and isinstance(value, int):
            number = value
        elif tag == 4 and isinstance(value, int):
            label = value
        elif tag == 5 and isinstance(value, int):
            kind = value
        elif tag == 6 and isinstance(value, memoryview):
            target = text(value).lstrip(".")
    code = "m" if kind == _MESSAGE else _SCALARS.get(kind, "i")
    return [number, name, ("[" if label == _REPEATED else "") + code, target]


_INLINE = {
    "ephemeralContainerCommon",
    "handler",
    "ingressRuleValue",
    "localObjectReference",
    "persistentVolumeSource",
    "rule",
    "volumeSource",
}


def _mark_inline(name: str, found: list[Any]) -> None:
    """Mark messages whose fields JSON shows in the parent: the JSON type does not have them by name."""
    shown = "io.k8s." + name.removeprefix("k8s.io.").replace("_", "-")
    if not schemas.is_known(shown):
        return
    known = schemas.definition(shown).fields
    for field in found:
        if field[2] == "m" and field[1] in _INLINE and field[1] not in known:
            field[2] = "<"


def main() -> None:
    """Write the table beside this file."""
    table: dict[str, list[Any]] = {}
    for descriptor in descriptors(Path(sys.argv[1]).read_bytes()):
        table.update(messages(descriptor))
    # Maps are lists of Entry messages with a key and a value; lists of objects are never bodies.
    kept = {k: v for k, v in sorted(table.items()) if not (k.endswith("List") and k[:-4] in table)}
    for name, found in kept.items():
        _mark_inline(name, found)
    raw = json.dumps(kept, separators=(",", ":")).encode()
    target = Path(__file__).with_name("fields.json.gz")
    target.write_bytes(gzip.compress(raw, 9, mtime=0))
    sys.stdout.write(f"{len(kept)} types\n")


if __name__ == "__main__":
    main()
