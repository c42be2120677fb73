"""Tracks field managers: metadata.managedFields after creates, updates and patches, and server-side apply.

Pure: objects given are never changed and may share parts with what is returned. Managers of plain writes are
identified by name and API version, those of applies by name. An object without managed fields is not tracked until the
first apply, whose predecessors then count as one manager, `before-first-apply`.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from schemas.manifest import Manifest
from services._rules.kubernetes.managed_fields.field_sets import (
    Fields,
    Path,
    Paths,
    minus,
    path_text,
    read_fields,
    union,
    write_fields,
)
from services._rules.kubernetes.managed_fields.typed_values import IsAtomic, Schema, ShapeError, Types
from services._rules.kubernetes.patch.go_text import go_format
from services._rules.kubernetes.patch.json_patch import PatchError

Entries = list[Manifest]

BEFORE_FIRST_APPLY: Final = "before-first-apply"
ANCIENT: Final = "ancient-changes"
MOST_UPDATERS: Final = 10
_FREE: Final = "x-kubernetes-preserve-unknown-fields"
_SYSTEM: Final = frozenset(
    {("f:apiVersion",), ("f:kind",), ("f:metadata",)}
    | {
        ("f:metadata", f"f:{name}")
        for name in (
            "clusterName",
            "creationTimestamp",
            "generation",
            "managedFields",
            "name",
            "namespace",
            "resourceVersion",
            "selfLink",
            "uid",
        )
    }
)

_SYSTEM_METADATA: Final = (".", *(path[1] for path in _SYSTEM if len(path) > 1))


class Id(NamedTuple):
    """A manager: its name, `Apply` or `Update`, and for updates the API version."""

    manager: str
    operation: str
    version: str


class _Owned:
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


_Managers = dict[Id, _Owned]


class Writer(NamedTuple):
    """The writer: the manager's name, the API version of the request, and the time (RFC 3339, whole seconds)."""

    manager: str
    version: str
    time: str


class FieldOwnership:
    """Ownership for objects of one kind.

    `empty` is an object of the kind in which nothing is set, as it is written: what is always there has no manager.
    `is_atomic` names struct schemas that are owned as a whole, `key_defaults` are values of keys of list items that the
    schema does not have.
    """

    def __init__(
        self,
        schema: Schema | None,
        empty: Manifest,
        is_atomic: IsAtomic = lambda _: False,
        key_defaults: Mapping[str, Any] | None = None,
    ) -> None:
        self._schema = schema
        self._empty = _bare(empty)
        self._types = Types(schema, is_atomic, key_defaults or {})

    def created(self, obj: Manifest, writer: Writer) -> Entries:
        """Return the managedFields of a new, defaulted object."""
        managers = _read(obj)
        if managers:
            return self._written(managers, self._empty, obj, writer)
        try:
            fields = self._types.new_fields(self._empty, _bare(obj))
        except ShapeError:
            return []
        _without_system(fields)
        me = Id(writer.manager, "Update", writer.version)
        return _write({me: _Owned(writer.version, writer.time, fields)})

    def updated(self, new: Manifest, old: Manifest, writer: Writer) -> Entries:
        """Return the managedFields after replacing `old` by `new` (defaulted).

        Those in `new` count if it has any; a list of one empty item resets them; otherwise those of `old` go on.
        """
        given = (new.get("metadata") or {}).get("managedFields")
        if given == [{}]:
            return []
        managers = _read(new) or _read(old)
        return self._written(managers, _bare(old), new, writer) if managers else []

    def _written(self, managers: _Managers, old: Manifest, new: Manifest, writer: Writer) -> Entries:
        try:
            difference = self._types.difference(old, _bare(new))
        except ShapeError:
            # Such an object is refused by validation, or its kind decodes it otherwise: no managed fields change.
            return _write(managers)
        me = Id(writer.manager, "Update", writer.version)
        touched, removed = difference
        for who, owned in managers.items():
            owned.fields = minus(owned.fields, removed)
            if who != me:
                owned.fields = minus(owned.fields, touched)
        _without_system(touched)
        _without_system(removed)
        if touched:
            mine = managers.setdefault(me, _Owned(writer.version, writer.time, {}))
            mine.fields = union(mine.fields, touched)
            mine.time = writer.time
        elif me in managers and removed:
            managers[me].time = writer.time
        _cap(managers)
        return _write(managers)

    def applied(
        self, live: Manifest | None, config: Manifest, writer: Writer, *, force: bool = False
    ) -> tuple[Manifest, Entries]:
        """Return the object that applying `config` makes of `live` (None: it does not exist), and its managedFields.

        The object is not defaulted and has no managedFields. Raises PatchError: 409 with one cause per conflicting
        field unless `force`, 500 for a configuration that does not fit the schema.
        """
        config = _bare(config)
        self._check(live, config)
        managers = _read(live) if live is not None else {}
        before = _bare(live) if live is not None else self._empty
        me = Id(writer.manager, "Apply", "")
        try:
            if live is not None and not managers:
                first = Id(BEFORE_FIRST_APPLY, "Update", writer.version)
                present = self._types.difference(self._empty, before)
                _without_system(present.touched)
                managers[first] = _Owned(writer.version, "", present.touched)
            fields = self._types.fields(config) - _SYSTEM
            merged = self._types.merged(before, config)
            last = managers.get(me)
            managers[me] = _Owned(writer.version, last.time if last else writer.time, write_fields(fields))
            if last is not None:
                merged = self._types.without(merged, _given_up(last.paths, managers))
            touched, removed = self._types.difference(before, merged)
        except ShapeError as error:
            raise PatchError(f"failed to create typed patch object: {error}") from error
        self._take(managers, me, touched, removed, force=force)
        _without_system(touched)
        _without_system(removed)
        if touched or removed or last is None or last.paths != fields:
            managers[me].time = writer.time
        return merged, _write(managers)

    def _check(self, live: Manifest | None, config: Manifest) -> None:
        kind = (live or self._empty).get("kind")
        if kind and config.get("kind") and config["kind"] != kind:
            raise PatchError(
                f"failed to merge config: expected objects of the same type, but got {{{kind} {{<nil> <nil> <nil>}}}} "
                f"and {{{config['kind']} {{<nil> <nil> <nil>}}}}"
            )
        errors = list(_misfits(self._schema, config, "")) if self._schema else []
        if errors:
            text = errors[0] if len(errors) == 1 else "errors:\n  " + "\n  ".join(errors)
            raise PatchError(f"failed to create typed patch object: {text}")

    @staticmethod
    def _take(managers: _Managers, me: Id, touched: Fields, removed: Fields, *, force: bool) -> None:
        """Take the touched fields from other managers; raises PatchError if any has them, unless `force`."""
        conflicts: list[tuple[Id, Path]] = []
        wanted = read_fields(touched)
        for who, owned in managers.items():
            if who != me and wanted:
                conflicts += [(who, path) for path in sorted(owned.paths & wanted)]
        if conflicts and not force:
            raise _conflict(conflicts)
        for who, owned in managers.items():
            if who != me:
                owned.fields = minus(minus(owned.fields, touched), removed)


def _given_up(last: Paths, managers: _Managers) -> Paths:
    """Return the fields of the last configuration without a manager, now that the new one is in force."""
    kept: Paths = set()
    for owned in managers.values():
        for path in owned.paths:
            kept.update(path[:at] for at in range(1, len(path) + 1))
    return last - kept


def _conflict(conflicts: list[tuple[Id, Path]]) -> PatchError:
    causes = [
        {"reason": "FieldManagerConflict", "message": f"conflict with {_named(who)}", "field": path_text(path)}
        for who, path in conflicts
    ]
    if len(conflicts) == 1:
        text = f"{causes[0]['message']}: {causes[0]['field']}"
    else:
        lines: list[str] = []
        for who in sorted({who for who, _ in conflicts}):
            lines.append(f"conflicts with {_named(who)}:")
            lines += [f"- {path_text(path)}" for other, path in conflicts if other == who]
        text = "\n".join(lines)
    plural = "" if len(conflicts) == 1 else "s"
    return PatchError(
        f"Apply failed with {len(conflicts)} conflict{plural}: {text}",
        status=409,
        reason="Conflict",
        details={"causes": causes},
    )


def _named(who: Id) -> str:
    return f'"{who.manager}" using {who.version}' if who.operation == "Update" else f'"{who.manager}"'


def _without_system(fields: Fields) -> None:
    """Drop from a set of no other manager, in place, what the server itself writes."""
    fields.pop("f:apiVersion", None)
    fields.pop("f:kind", None)
    meta = fields.get("f:metadata")
    if meta is not None:
        for element in _SYSTEM_METADATA:
            meta.pop(element, None)
        if not meta:
            del fields["f:metadata"]


def _bare(obj: Manifest) -> Manifest:
    """Return an object without its managedFields."""
    meta = obj.get("metadata")
    if not isinstance(meta, dict) or "managedFields" not in meta:
        return obj
    return {**obj, "metadata": {name: value for name, value in meta.items() if name != "managedFields"}}


def _read(obj: Manifest) -> _Managers:
    found: _Managers = {}
    for entry in (obj.get("metadata") or {}).get("managedFields") or ():
        if not isinstance(entry, dict) or not entry.get("operation"):
            continue
        operation, version = entry["operation"], entry.get("apiVersion", "")
        who = Id(entry.get("manager", ""), operation, "" if operation == "Apply" else version)
        fields = entry.get("fieldsV1")
        found[who] = _Owned(version, entry.get("time") or "", fields if isinstance(fields, dict) else {})
    return found


def _write(managers: _Managers) -> Entries:
    kept = [(who, owned) for who, owned in managers.items() if owned.fields]
    kept.sort(key=lambda item: (item[0].operation, item[1].time, item[0].manager, item[1].version))
    entries: Entries = []
    for who, owned in kept:
        entry: Manifest = {"manager": who.manager, "operation": who.operation, "apiVersion": owned.version}
        if owned.time:
            entry["time"] = owned.time
        entries.append(entry | {"fieldsType": "FieldsV1", "fieldsV1": owned.fields})
    return entries


def _cap(managers: _Managers) -> None:
    """Fold the oldest updaters into one, so that managedFields do not grow without end."""
    updaters = [(who, owned) for who, owned in managers.items() if who.operation == "Update" and owned.fields]
    if len(updaters) <= MOST_UPDATERS:
        return
    updaters.sort(key=lambda item: (item[1].time, item[0].manager))
    for who, owned in _oldest(updaters, len(updaters) - MOST_UPDATERS):
        bucket = Id(ANCIENT, "Update", who.version)
        del managers[who]
        kept = managers.setdefault(bucket, _Owned(owned.version, owned.time, {}))
        kept.fields = union(kept.fields, owned.fields)
        kept.time = max(kept.time, owned.time)


def _oldest(updaters: Iterable[tuple[Id, _Owned]], many: int) -> list[tuple[Id, _Owned]]:
    # One more than too many: what they are folded into is a manager as well.
    return [item for item in updaters if item[0].manager != ANCIENT][: many + 1]


def _misfits(schema: Schema, value: Any, path: str) -> Iterator[str]:
    """Yield what does not fit, in the words of an API server's typed converter; a field of no schema does not fit."""
    if value is None:
        return
    kind = schema.get("type", "object" if "properties" in schema else "")
    if schema.get("x-kubernetes-int-or-string") or schema.get("format") == "quantity":
        kind = ""
    match kind:
        case "object":
            yield from _object(schema, value, path)
        case "array":
            if not isinstance(value, list):
                yield f"{path}: expected list, got &{{{go_format(value)}}}"
            elif isinstance(schema.get("items"), dict):
                for index, item in enumerate(value):
                    yield from _misfits(schema["items"], item, f"{path}[{index}]")
        case "string" if not isinstance(value, str):
            yield f"{path}: expected string, got &{{{go_format(value)}}}"
        case "boolean" if not isinstance(value, bool):
            yield f"{path}: expected boolean, got &{{{go_format(value)}}}"
        case "integer" | "number" if not isinstance(value, int | float) or isinstance(value, bool):
            yield f"{path}: expected numeric (int or float), got *value.valueUnstructured"


def _object(schema: Schema, value: Any, path: str) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{path}: expected map, got &{{{go_format(value)}}}"
        return
    fields, more = schema.get("properties"), schema.get("additionalProperties")
    for name, item in value.items():
        here = f"{path}.{name}"
        field = (fields or {}).get(name)
        if field is not None:
            yield from _misfits(field, item, here)
        elif isinstance(more, dict):
            yield from _misfits(more, item, here)
        elif fields is not None and not schema.get(_FREE):
            yield f"{here}: field not declared in schema"
