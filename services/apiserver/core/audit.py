"""The audit log of writes and refusals: one JSON line each, with the user, the object, and whether it changed."""

import io
import time
from pathlib import Path

import msgspec

from schemas.manifest import Manifest
from services._rules.kubernetes.rbac.policy_rules import Access
from services.apiserver.core.request_context import Call, Identity, now
from services.apiserver.store.store_port import Entry

_MOST_REFUSALS = 200
"""In a minute: who is refused again and again fills no disk."""
_OWN = ("resourceVersion", "managedFields", "generation")


class Audit:
    """Appends to a file; without a path it only counts."""

    def __init__(self, path: Path | None = None) -> None:
        self.writes = 0
        self._refused: set[tuple[str, ...]] = set()
        self._minute = 0
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
        record: Manifest = {
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
        if call.annotations:
            record["annotations"] = call.annotations
        self._out.write(msgspec.json.encode(record) + b"\n")
        self._out.flush()

    def refusal(self, user: Identity, access: Access) -> None:
        """Record an access that authorization refused: each once in a minute, and not more than some of all."""
        minute = int(time.monotonic() / 60)
        if minute != self._minute:
            self._minute = minute
            self._refused.clear()
        key = (user.name, access.verb, access.group, access.kind_of_resource, access.namespace, access.path)
        if self._out is None or key in self._refused or len(self._refused) >= _MOST_REFUSALS:
            return
        self._refused.add(key)
        record = {
            "time": now().isoformat(timespec="microseconds"),
            "user": user.name,
            "refused": True,
            "verb": access.verb,
            "group": access.group,
            "resource": access.resource,
            "subresource": access.subresource,
            "namespace": access.namespace,
            "name": access.name,
            "path": access.path,
            "changed": False,
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
