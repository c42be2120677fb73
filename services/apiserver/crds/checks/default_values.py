"""Checks the defaults of a structural schema: each has to be a valid value that loses nothing when it is pruned."""

from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

from services._rules.kubernetes.patch.go_text import go_syntax
from services._rules.kubernetes.patch.json_patch import same_json
from services._rules.kubernetes.validation.field_errors import FieldError, Raw, aggregate, invalid
from services.apiserver.crds.lists import compile_embedded, compile_embedded_shapes
from services.apiserver.crds.objectmeta import metadata_error
from services.apiserver.crds.rules import compile_rules
from services.apiserver.crds.shape import compile_prune
from services.apiserver.crds.validate import compile_validate
from services.apiserver.crds.values.value_complaints import NO_FIELD

Schema = dict[str, Any]
Wrap = Callable[[Any], Any]

_RESOURCE_FIELDS: Final = ("metadata", "apiVersion", "kind")
_TYPE: Final = {"apiVersion": "validation/v1", "kind": "Validation"}
"""What an object is that a default within metadata is tried in."""
_EMBEDDED: Final = "x-kubernetes-embedded-resource"


class _Place(msgspec.Struct, frozen=True):
    """Where a default stands: in which resource, how to make that resource of it, and whether in its metadata."""

    resource: Schema
    wrap: Wrap
    in_metadata: bool = False


def check_defaults(schema: Schema, path: str, *, pruned: bool = True) -> list[FieldError]:
    """Return what is wrong with the defaults of a structural schema; `pruned`: they hold no unknown fields."""
    root = schema if schema.get(_EMBEDDED) else {**schema, _EMBEDDED: True}
    return list(_walk(root, path, _Place(root, _itself), _Trial(pruned)))


def has_unpruned_defaults(schema: Schema) -> bool:
    """Return whether a default of a structural schema holds unknown fields."""
    return any("default" in part and not _is_pruned(part) for part in _every(schema))


class _Trial(msgspec.Struct, frozen=True):
    pruned: bool

    def errors(self, schema: Schema, path: str, place: _Place) -> Iterator[FieldError]:
        """Yield what is wrong with the default of a schema."""
        value = schema["default"]
        if place.in_metadata:
            if text := _bad_metadata(place.wrap(value), place.resource):
                yield invalid(path, _shown(value), f"must result in valid metadata: {text}")
                return
        else:
            if self.pruned and not _is_pruned(schema):
                yield invalid(path, _shown(value), "must not have unknown fields")
            if found := _resource_errors(schema, value, path):
                yield from found
                return
        found = [_placed(error, path) for error in compile_validate(schema, structural=True)(value)]
        if not found and (rules := compile_rules(schema)) is not None:
            # As an update of itself, and as a new value, in which rules on transitions have nothing to compare.
            found = rules.validate(value, value) or rules.validate(value, None)
            found = [_placed(error, path) for error in found]
        yield from found


def _walk(schema: Schema, path: str, place: _Place, trial: _Trial) -> Iterator[FieldError]:
    embedded = bool(schema.get(_EMBEDDED))
    if embedded:
        place = _Place(schema, _itself)
    if schema.get("default") is not None:
        yield from trial.errors(schema, f"{path}.default", place)
    items = schema.get("items")
    if isinstance(items, dict):
        yield from _walk(items, f"{path}.items", _below(place, lambda value: [value]), trial)
    for name, field in schema.get("properties", {}).items():
        inner = _below(place, _in_field(name))
        if embedded and name in _RESOURCE_FIELDS:
            inner = msgspec.structs.replace(inner, in_metadata=True)
        yield from _walk(field, f"{path}.properties[{name}]", inner, trial)


def _every(schema: Schema) -> Iterator[Schema]:
    yield schema
    inner = [*schema.get("properties", {}).values(), schema.get("items")]
    for part in inner:
        if isinstance(part, dict):
            yield from _every(part)


def _itself(value: Any) -> Any:
    return value


def _in_field(name: str) -> Wrap:
    return lambda value: {name: value}


def _below(place: _Place, wrap: Wrap) -> _Place:
    return msgspec.structs.replace(place, wrap=lambda value: place.wrap(wrap(value)))


def _is_pruned(schema: Schema) -> bool:
    prune = compile_prune(schema, root=bool(schema.get(_EMBEDDED)))
    return prune is None or same_json(prune(schema["default"]), schema["default"])


def _bad_metadata(obj: Any, resource: Schema) -> str:
    """Return what is wrong with an object in whose metadata a default stands; empty if nothing is."""
    whole = {**_TYPE, **obj}
    if text := metadata_error(whole.get("metadata")):
        return text
    errors = _resource_errors(resource, whole, "")
    return aggregate(errors) if errors else ""


def _resource_errors(schema: Schema, value: Any, path: str) -> list[FieldError]:
    """Return what is wrong with a value as an embedded resource, and with those within it."""
    found: list[FieldError] = []
    for compiled in (compile_embedded_shapes, compile_embedded):
        if not found and (check := compiled(schema)) is not None:
            check(value, path, found)
    return found


def _placed(error: FieldError, path: str) -> FieldError:
    if error.field == NO_FIELD:
        return msgspec.structs.replace(error, field=path)
    return msgspec.structs.replace(error, field=f"{path}.{error.field}")


def _shown(value: Any) -> Raw:
    return Raw(go_syntax(value))
