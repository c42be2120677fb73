"""Tracks field managers: metadata.managedFields after creates, updates and patches, and server-side apply.

Pure: objects given are never changed and may share parts with what is returned. Managers of plain writes are
identified by name and API version, those of applies by name. An object without managed fields is not tracked until the
first apply, whose predecessors then count as one manager, `before-first-apply`.
"""

from collections.abc import Iterator
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
from services._rules.kubernetes.managed_fields.last_applied import KUBECTL, last_applied, with_last_applied
from services._rules.kubernetes.managed_fields.manager_entries import (
    Entries,
    Id,
    Managers,
    Owned,
    cap,
    read,
    write,
)
from services._rules.kubernetes.managed_fields.typed_values import IsAtomic, KeyDefaults, Schema, ShapeError, Types
from services._rules.kubernetes.patch.go_text import go_format
from services._rules.kubernetes.patch.json_patch import PatchError

BEFORE_FIRST_APPLY: Final = "before-first-apply"
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


class Writer(NamedTuple):
    """The writer: the manager's name, the API version of the request, and the time (RFC 3339, whole seconds).

    `subresource` is what is written to; `reset` are top elements (`f:status`) that such a write does not change.
    """

    manager: str
    version: str
    time: str
    subresource: str = ""
    reset: tuple[str, ...] = ()


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
        key_defaults: KeyDefaults | None = None,
    ) -> None:
        self._schema = schema
        self._empty = _bare(empty)
        self._types = Types(schema, is_atomic, key_defaults or {})

    def created(self, obj: Manifest, writer: Writer) -> Entries:
        """Return the managedFields of a new, defaulted object."""
        managers = read(obj, stored=False)
        if managers:
            return self._written(managers, self._empty, obj, writer)
        try:
            fields = self._types.new_fields(self._empty, _bare(obj))
        except ShapeError:
            return []
        _without_system(fields)
        for element in writer.reset:
            fields.pop(element, None)
        me = Id(writer.manager, "Update", writer.version, writer.subresource)
        return write({me: Owned(writer.version, writer.time, fields)})

    def updated(self, new: Manifest, old: Manifest, writer: Writer) -> Entries:
        """Return the managedFields after replacing `old` by `new` (defaulted).

        Those in `new` count if it has any; a list of one empty item resets them; otherwise those of `old` go on.
        """
        given = (new.get("metadata") or {}).get("managedFields")
        if given == [{}]:
            return []
        before = (old.get("metadata") or {}).get("managedFields")
        managers = read(new, stored=False) if given and given != before else {}
        managers = managers or read(old)
        return self._written(managers, _bare(old), new, writer) if managers else []

    def _written(self, managers: Managers, old: Manifest, new: Manifest, writer: Writer) -> Entries:
        try:
            difference = self._types.difference(old, _bare(new))
        except ShapeError:
            # Such an object is refused by validation, or its kind decodes it otherwise: no managed fields change.
            return write(managers)
        me = Id(writer.manager, "Update", writer.version, writer.subresource)
        touched, removed = difference
        for element in writer.reset:
            touched.pop(element, None)
            removed.pop(element, None)
        for who, owned in managers.items():
            owned.fields = minus(owned.fields, removed)
            if who != me:
                owned.fields = minus(owned.fields, touched)
        _without_system(touched)
        _without_system(removed)
        if touched:
            mine = managers.setdefault(me, Owned(writer.version, writer.time, {}))
            mine.fields = union(mine.fields, touched)
            mine.time = writer.time
        elif me in managers and removed:
            managers[me].time = writer.time
        cap(managers)
        return write(managers)

    def applied(
        self, live: Manifest | None, config: Manifest, writer: Writer, *, force: bool = False
    ) -> tuple[Manifest, Entries]:
        """Return the object that applying `config` makes of `live` (None: it does not exist), and its managedFields.

        The object is not defaulted and has no managedFields. Raises PatchError: 409 with one cause per conflicting
        field unless `force`, 500 for a configuration that does not fit the schema.
        """
        config = _bare(config)
        self._check(live, config)
        managers = read(live) if live is not None else {}
        before = _bare(live) if live is not None else self._empty
        me = Id(writer.manager, "Apply", "", writer.subresource)
        try:
            if live is not None and not managers:
                first = Id(BEFORE_FIRST_APPLY, "Update", writer.version)
                present = self._types.difference(self._empty, before)
                _without_system(present.touched)
                managers[first] = Owned(writer.version, "", present.touched)
            configured = self._types.fields(config)
            fields = {path for path in configured if path not in _SYSTEM and path[0] not in writer.reset}
            merged = self._types.merged(before, config)
            last = managers.get(me)
            managers[me] = Owned(writer.version, last.time if last else writer.time, write_fields(fields))
            if last is not None:
                merged = self._types.without(
                    merged, _given_up(self._types.with_parents(last.paths), configured, managers)
                )
            touched, removed = self._types.difference(before, merged)
        except ShapeError as error:
            raise PatchError(f"failed to create typed patch object: {error}") from error
        for element in writer.reset:
            touched.pop(element, None)
            removed.pop(element, None)
        upgrades = writer.manager == KUBECTL and live is not None
        known = self._applied_before(before) if upgrades and not force else set()
        self._take(managers, me, touched, removed, known, force=force)
        _without_system(touched)
        _without_system(removed)
        if touched or removed or last is None or last.paths != fields:
            managers[me].time = writer.time
        return with_last_applied(merged, config) if upgrades else merged, write(managers)

    def _applied_before(self, live: Manifest) -> Paths:
        """What the annotation of a client-side apply says, and is still so: what of it conflicts is handed over."""
        config = last_applied(live)
        if config is None or config.get("apiVersion") != live.get("apiVersion"):
            return set()
        try:
            if self._schema and next(_misfits(self._schema, config, ""), None) is not None:
                return set()
            touched, removed = self._types.difference(config, live)
            return self._types.fields(config) - read_fields(touched) - read_fields(removed)
        except ShapeError:
            return set()

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
    def _take(managers: Managers, me: Id, touched: Fields, removed: Fields, known: Paths, *, force: bool) -> None:
        """Take the touched fields from other managers.

        Raises PatchError if any has them, unless `force`, for those that are not `known` from an earlier way to apply.
        """
        conflicts: list[tuple[Id, Path]] = []
        wanted = read_fields(touched) - known
        for who, owned in managers.items():
            if who != me and wanted:
                conflicts += [(who, path) for path in sorted(owned.paths & wanted)]
        if conflicts and not force:
            raise _conflict(conflicts)
        for who, owned in managers.items():
            if who != me:
                owned.fields = minus(minus(owned.fields, touched), removed)


def _given_up(last: Paths, configured: Paths, managers: Managers) -> Paths:
    """Return the fields of the last configuration without a manager, now that the new one is in force.

    A field that leads to them goes with all that is left in it, unless the configuration or a manager has some of it.
    """
    kept: Paths = set()
    for paths in (configured, *(owned.paths for owned in managers.values())):
        for path in paths:
            kept.update(path[:at] for at in range(1, len(path) + 1))
    return last - kept


def _conflict(conflicts: list[tuple[Id, Path]]) -> PatchError:
    causes = [
        {"reason": "FieldManagerConflict", "message": f"conflict with {who}", "field": path_text(path)}
        for who, path in conflicts
    ]
    if len(conflicts) == 1:
        text = f"{causes[0]['message']}: {causes[0]['field']}"
    else:
        lines: list[str] = []
        for who in sorted({who for who, _ in conflicts}):
            lines.append(f"conflicts with {who}:")
            lines += [f"- {path_text(path)}" for other, path in conflicts if other == who]
        text = "\n".join(lines)
    plural = "" if len(conflicts) == 1 else "s"
    return PatchError(
        f"Apply failed with {len(conflicts)} conflict{plural}: {text}",
        status=409,
        reason="Conflict",
        details={"causes": causes},
    )


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
