"""The audit log of writes: one JSON line per change, with the user, the object and whether its content changed."""

import io
from pathlib import Path

import msgspec

from schemas.manifest import Manifest
from services.apiserver.core.request_context import Call, now
from services.apiserver.store.store_port import Entry

_OWN = ("resourceVersion", "managedFields", "generation")


class Audit:
    """Appends to a file; without a path it only counts."""

    def __init__(self, path: Path | None = None) -> None:
        self.writes = 0
        self._out: io.BufferedWriter | None = None
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._out = path.open("ab")

    def write(self, call: Call, verb: str, new: Entry, old: Entry | None, subresource: str = "") -> None:
        """Record a write that the store confirmed."""
        self.writes += 1
        if self._out is None:
            return
        key = new.key
        record = {
            "time": now().isoformat(timespec="microseconds"),
            "user": call.user.name,
            "manager": call.manager,
            "verb": verb,
            "group": key.group,
            "resource": key.resource,
            "subresource": subresource,
            "namespace": key.namespace,
            "name": key.name,
            "resourceVersion": str(new.revision),
            "changed": old is None or verb == "delete" or _content(new.obj) != _content(old.obj),
        }
        self._out.write(msgspec.json.encode(record) + b"\n")
        self._out.flush()

    def close(self) -> None:
        """Finish the file."""
        if self._out is not None:
            self._out.close()
            self._out = None


def _content(obj: Manifest) -> Manifest:
    """What a client means by an object: everything but the server's own bookkeeping."""
    meta = {k: v for k, v in obj["metadata"].items() if k not in _OWN}
    return {**obj, "metadata": meta}
