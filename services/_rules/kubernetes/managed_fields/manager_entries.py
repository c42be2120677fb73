"""The entries of metadata.managedFields: which manager has which fields of an object."""

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import msgspec

from schemas.manifest import Manifest
from services._rules.kubernetes.managed_fields.field_sets import Fields, Paths, read_fields, union

Entries = list[Manifest]

ANCIENT: Final = "ancient-changes"
MOST_UPDATERS: Final = 10
_FIELDS_TYPE: Final = "FieldsV1"
_OPERATIONS: Final = ("Apply", "Update")
_KEYS: Final = msgspec.json.Decoder(dict[str, Any])
_VALUE: Final = msgspec.json.Decoder()


class Id(NamedTuple):
    """A manager: its name, `Apply` or `Update`, for updates the API version, and the subresource it writes to."""

    manager: str
    operation: str
    version: str
    subresource: str = ""

    def __str__(self) -> str:
        text = f'"{self.manager}"'
        if self.subresource:
            text += f' with subresource "{self.subresource}"'
        return f"{text} using {self.version}" if self.operation == "Update" else text


class Owned:
    """The fields of one manager, and when it last changed something."""

    __slots__ = ("fields", "time", "version")

    def __init__(self, version: str, time: str, fields: Fields) -> None:
        self.version = version
        self.time = time
        self.fields = fields

    @property
    def paths(self) -> Paths:
        """All fields as paths."""
        return read_fields(self.fields)


Managers = dict[Id, Owned]


def read(obj: Manifest, *, stored: bool = True) -> Managers:
    """The managers of an object; none where an entry has a form that servers do not write.

    Of an object that is stored, the fields are known to be in order.
    """
    found: Managers = {}
    for entry in (obj.get("metadata") or {}).get("managedFields") or ():
        if not _is_entry(entry) or not (stored or _is_set(entry.get("fieldsV1"))):
            return {}
        operation, version = entry["operation"], entry["apiVersion"]
        who = Id(
            entry.get("manager", ""), operation, "" if operation == "Apply" else version, entry.get("subresource", "")
        )
        found[who] = Owned(version, entry.get("time") or "", entry.get("fieldsV1") or {})
    return found


def write(managers: Managers) -> Entries:
    """The entries of managers, in their order; those without fields have none."""
    kept = [(who, owned) for who, owned in managers.items() if owned.fields]
    if len(kept) > 1:
        kept.sort(key=_order)
    entries: Entries = []
    for who, owned in kept:
        entry: Manifest = {"manager": who.manager, "operation": who.operation, "apiVersion": owned.version}
        if owned.time:
            entry["time"] = owned.time
        entry |= {"fieldsType": _FIELDS_TYPE, "fieldsV1": owned.fields}
        if who.subresource:
            entry["subresource"] = who.subresource
        entries.append(entry)
    return entries


def _order(item: tuple[Id, Owned]) -> tuple[str, ...]:
    who, owned = item
    return who.operation, owned.time, who.manager, owned.version, who.subresource


def cap(managers: Managers) -> None:
    """Fold the oldest updaters into one, so that managedFields do not grow without end."""
    updaters = [(who, owned) for who, owned in managers.items() if who.operation == "Update" and owned.fields]
    if len(updaters) <= MOST_UPDATERS:
        return
    updaters.sort(key=lambda item: (item[1].time, item[0].manager))
    for who, owned in _oldest(updaters, len(updaters) - MOST_UPDATERS):
        bucket = Id(ANCIENT, "Update", who.version)
        del managers[who]
        kept = managers.setdefault(bucket, Owned(owned.version, owned.time, {}))
        kept.fields = union(kept.fields, owned.fields)
        kept.time = max(kept.time, owned.time)


def _oldest(updaters: Iterable[tuple[Id, Owned]], many: int) -> list[tuple[Id, Owned]]:
    # One more than too many: what they are folded into is a manager as well.
    return [item for item in updaters if item[0].manager != ANCIENT][: many + 1]


def _is_entry(entry: Any) -> bool:
    """Whether an entry can be read: what clients write is taken only if all of it makes sense."""
    if not isinstance(entry, dict) or entry.get("operation") not in _OPERATIONS:
        return False
    return bool(entry.get("apiVersion")) and entry.get("fieldsType") == _FIELDS_TYPE


def _is_set(fields: Any) -> bool:
    waiting = [{} if fields is None else fields]
    while waiting:
        node = waiting.pop()
        if not isinstance(node, dict) or not all(map(_is_element, node)):
            return False
        waiting += node.values()
    return True


def _is_element(element: str) -> bool:
    kind, value = element[:2], element[2:]
    if kind == "f:" or element == ".":
        return True
    try:
        if kind == "k:":
            return bool(_KEYS.decode(value))
        if kind == "v:":
            _VALUE.decode(value)
            return True
        return kind == "i:" and int(value) >= 0
    except (ValueError, RecursionError):
        return False
