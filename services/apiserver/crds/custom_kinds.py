"""The kinds that a CustomResourceDefinition makes: one per served version, with its schema compiled once."""

import re
from collections.abc import Callable
from functools import cached_property
from typing import Any, Final

from schemas.manifest import Manifest
from services._rules.kubernetes.jsonpath import simple_fields
from services._rules.kubernetes.validation.field_errors import FieldError, invalid
from services.apiserver.crds.lists import compile_embedded, compile_embedded_types, compile_lists
from services.apiserver.crds.objectmeta import metadata_error, pruned_metadata
from services.apiserver.crds.rules import RuleNode, blocked, compile_rules, incomplete
from services.apiserver.crds.shape import Change, compile_default, compile_prune
from services.apiserver.crds.validate import compile_validate
from services.apiserver.kinds.decoding import field_tables as schemas
from services.apiserver.kinds.kind_model import DecodeError, Kind, Resource, Schema, Subresource

VERBS: Final = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
_ANYTHING: Final[Schema] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_FRACTION: Final = re.compile(rb"[0-9][.eE]")
_RESOURCE_FIELDS: Final = frozenset({"apiVersion", "kind", "metadata"})
_MAX_INT32: Final = 2**31 - 1

Convert = Callable[[Manifest, str], Manifest]


class Version:
    """One version of a definition: its schema and what is compiled from it (on first use)."""

    def __init__(self, raw: Manifest, *, preserve: bool) -> None:
        self.name: str = raw["name"]
        self.raw = raw
        self.schema: Schema = (raw.get("schema") or {}).get("openAPIV3Schema") or _ANYTHING
        self._preserve = preserve

    @cached_property
    def prune(self) -> Change | None:
        """Drops unspecified fields."""
        return None if self._preserve else compile_prune(self.schema, root=True)

    @cached_property
    def default(self) -> Change | None:
        """Fills in defaults, drops nulls that stand for nothing."""
        return compile_default(self.schema)

    @cached_property
    def validate(self) -> Callable[[Any], list[FieldError]]:
        """Validates an object against the schema."""
        return compile_validate(self.schema)

    @cached_property
    def unique(self) -> Any:
        """Finds duplicates in set and map lists."""
        return compile_lists(self.schema)

    @cached_property
    def rules(self) -> RuleNode | None:
        """Evaluates the rules of the schema; None if it has none."""
        return compile_rules(self.schema)

    @cached_property
    def embedded(self) -> Any:
        """Checks embedded resources."""
        return compile_embedded(self.schema)

    @cached_property
    def embedded_types(self) -> Callable[[Any], str] | None:
        """Checks the JSON types of embedded metadata."""
        return compile_embedded_types(self.schema)


class Definition:
    """What the versions of one definition share; `convert` is called where the strategy is Webhook."""

    def __init__(self, crd: Manifest, convert: Convert | None = None) -> None:
        spec = crd["spec"]
        preserve = bool(spec.get("preserveUnknownFields"))
        self.group: str = spec["group"]
        self.names: Manifest = {**spec["names"], **((crd.get("status") or {}).get("acceptedNames") or {})}
        self.namespaced: bool = spec["scope"] == "Namespaced"
        self.versions = {raw["name"]: Version(raw, preserve=preserve) for raw in spec["versions"]}
        self.storage: str = next(raw["name"] for raw in spec["versions"] if raw.get("storage"))
        self.convert = convert if (spec.get("conversion") or {}).get("strategy") == "Webhook" else None
        # Nothing stored can be older than the schema while the definition's spec has never changed.
        self.unchanged = crd["metadata"].get("generation", 1) == 1

    def converted(self, obj: Manifest, version: str) -> Manifest:
        """Return an object in another version, pruned by that version's schema."""
        api_version = f"{self.group}/{version}"
        if obj["apiVersion"] == api_version:
            return obj
        obj = self.convert(obj, api_version) if self.convert is not None else {**obj, "apiVersion": api_version}
        prune = self.versions[version].prune
        return obj if prune is None else prune(obj)


def custom_kinds(crd: Manifest, convert: Convert | None = None) -> "list[CustomKind]":
    """Return the kinds of a definition, one for each served version.

    `convert(object, api_version)` calls the conversion webhook of definitions that have one.
    """
    definition = Definition(crd, convert)
    return [CustomKind(definition, version) for version in definition.versions.values() if version.raw.get("served")]


class CustomKind(Kind):
    """A kind defined by a CustomResourceDefinition, in one of its versions."""

    custom = True
    generation = True
    unconditional_update = False

    def __init__(self, definition: Definition, version: Version) -> None:
        subresources = version.raw.get("subresources") or {}
        self.has_status = subresources.get("status") is not None
        self.scale: Manifest | None = subresources.get("scale")
        """The paths of the scale subresource, as the definition has them."""
        self.columns: list[Manifest] = version.raw.get("additionalPrinterColumns") or []
        """The additional printer columns, as the definition has them."""
        super().__init__(_resource(definition, version, status=self.has_status, scale=self.scale is not None))
        self.store_version = definition.storage
        self.definition = definition
        self.version = version
        self.deprecation = _deprecation(definition, version)
        """Text of the Warning header for every request of this version; empty if it is not deprecated."""

    @cached_property
    def schema(self) -> Schema:
        """The schema of the version, with the fields that every object has."""
        given = self.version.schema
        common: dict[str, Schema] = {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": schemas.linked(schemas.OBJECT_META),
        }
        return {**given, "properties": {**given.get("properties", {}), **common}}

    def to_store(self, obj: Manifest) -> Manifest:
        """Return the object in the storage version, defaulted by it, as reading takes it to be."""
        stored = self.definition.converted(obj, self.definition.storage)
        default = self.definition.versions[self.definition.storage].default
        return stored if stored is obj or default is None else default(stored)

    def from_store(self, obj: Manifest) -> Manifest:
        """Return a stored object as this version shows it: defaulted by the version it was stored in, converted."""
        stored = self.definition.versions.get(obj["apiVersion"].rpartition("/")[2])
        if stored is not None and not (self.definition.unchanged and stored is self.version):
            if not self.definition.unchanged and stored.prune is not None:
                obj = stored.prune(obj)
            if stored.default is not None:
                obj = stored.default(obj)
        return self.definition.converted(obj, self.version.name)

    def decode(self, obj: Manifest, raw: bytes | None = None) -> list[str]:
        """Check the types of metadata, here and in embedded resources; raises DecodeError."""
        if text := metadata_error(obj.get("metadata")):
            raise DecodeError(text)
        if self.version.embedded_types is not None and (text := self.version.embedded_types(obj)):
            raise DecodeError(text)
        if raw is None or _FRACTION.search(raw):
            _replace(obj, _whole(obj))
        if obj.get("metadata"):
            obj["metadata"] = pruned_metadata(obj["metadata"])
        return []

    def unknown_fields(self, obj: Manifest) -> list[str]:
        """Return the paths of fields that the schema does not specify."""
        return unknown_fields(self.version.schema, obj)

    def prune(self, obj: Manifest) -> None:
        """Drop the fields that the schema does not specify."""
        if self.version.prune is not None:
            _replace(obj, self.version.prune(obj))

    def default(self, obj: Manifest) -> None:
        """Fill in the defaults of the schema."""
        if self.version.default is not None:
            _replace(obj, self.version.default(obj))

    def prepare_status(self, new: Manifest, old: Manifest) -> None:
        """Keep everything of `old` but the status and managedFields."""
        status = {"status": new["status"]} if "status" in new else {}
        meta = {**old["metadata"], "resourceVersion": new["metadata"].get("resourceVersion")}
        meta.pop("managedFields", None)
        if "managedFields" in new["metadata"]:
            meta["managedFields"] = new["metadata"]["managedFields"]
        _replace(new, {**{name: value for name, value in old.items() if name != "status"}, "metadata": meta, **status})

    def spec_changed(self, new: Manifest, old: Manifest) -> bool:
        """Return whether anything outside metadata differs; the status counts only where it has no subresource."""
        outside = (
            {"apiVersion", "kind", "metadata", "status"} if self.has_status else {"apiVersion", "kind", "metadata"}
        )
        return any(new.get(name) != old.get(name) for name in {*new, *old} - outside)

    def check(self, obj: Manifest) -> list[FieldError]:
        """Return what is wrong with an object outside its metadata."""
        found = self._check(obj)
        if self.version.unique is not None:
            self.version.unique(obj, "", found)
        return self._obey(obj, None, found)

    def check_update(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """Return what is wrong with an update; duplicates in lists only where the old object had none."""
        found = self._check(new)
        if self.version.unique is not None:
            before: list[FieldError] = []
            self.version.unique(old, "", before)
            if not before:
                self.version.unique(new, "", found)
        return self._obey(new, old, found)

    def _obey(self, obj: Manifest, old: Manifest | None, found: list[FieldError]) -> list[FieldError]:
        """Return the errors with those that the rules of the schema find, which need an object of the right form."""
        rules = self.version.rules
        if rules is None:
            return found
        return [*found, incomplete()] if blocked(found) else found + rules.validate(obj, old)

    def validate_status(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """Return what is wrong with a write to the status subresource."""
        return self.check_update(new, old)

    def _check(self, obj: Manifest) -> list[FieldError]:
        found = self.version.validate(obj)
        if self.scale is not None:
            found += _replicas(obj, self.scale["specReplicasPath"])
            found += _replicas(obj, self.scale["statusReplicasPath"])
        if self.version.embedded is not None:
            self.version.embedded(obj, "", found)
        return found

    def field_selectors(self, obj: Manifest) -> dict[str, str]:
        """Return name, namespace and the fields that the definition makes selectable."""
        found = super().field_selectors(obj)
        for item in self.version.raw.get("selectableFields") or ():
            path = item["jsonPath"].removeprefix(".")
            value: Any = obj
            for name in path.split("."):
                value = value.get(name) if isinstance(value, dict) else None
            shown = str(value).lower() if isinstance(value, bool) else str(value)
            found[path] = "" if value is None else shown
        return found

    def warnings(self, obj: Manifest) -> list[str]:
        """Return the deprecation of this version, if it is deprecated."""
        del obj
        return [self.deprecation] if self.deprecation else []


def _resource(definition: Definition, version: Version, *, status: bool, scale: bool) -> Resource:
    names = definition.names
    subresources = [Subresource("status")] if status else []
    if scale:
        subresources.append(Subresource("scale", kind="Scale", group="autoscaling", version="v1"))
    return Resource(
        group=definition.group,
        version=version.name,
        kind=names["kind"],
        plural=names["plural"],
        list_kind=names.get("listKind", ""),
        singular=names.get("singular", ""),
        short_names=tuple(names.get("shortNames") or ()),
        namespaced=definition.namespaced,
        verbs=VERBS,
        categories=tuple(names.get("categories") or ()),
        subresources=tuple(subresources),
    )


def _deprecation(definition: Definition, version: Version) -> str:
    if not version.raw.get("deprecated"):
        return ""
    given = version.raw.get("deprecationWarning")
    return given or f"{definition.group}/{version.name} {definition.names['kind']} is deprecated"


def _replace(obj: Manifest, new: Manifest) -> None:
    """Make `obj` equal to `new` without changing what is inside either."""
    if new is not obj:
        obj.clear()
        obj.update(new)


def _whole(value: Any) -> Any:
    """Return the value with floats that are whole numbers as integers, which is how JSON writes them."""
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) < 1e21 else value
    if isinstance(value, dict):
        return {name: _whole(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_whole(item) for item in value]
    return value


def _replicas(obj: Manifest, path: str) -> list[FieldError]:
    value: Any = obj
    for name in simple_fields(path) or ():
        value = value.get(name) if isinstance(value, dict) else None
    if not isinstance(value, int) or isinstance(value, bool):
        return []
    if value < 0:
        return [invalid(path, value, "should be a non-negative integer")]
    if value > _MAX_INT32:
        return [invalid(path, value, f"should be less than or equal to {_MAX_INT32}")]
    return []


def unknown_fields(schema: Schema, value: Any, *, root: bool = True) -> list[str]:
    """Return the paths of unspecified fields, in document order."""
    found: list[str] = []
    _walk(schema, value, "", found, resource=root)
    return found


def _walk(schema: Schema, value: Any, path: str, found: list[str], *, resource: bool = False) -> None:
    if isinstance(value, dict):
        fields, more = schema.get("properties", {}), schema.get("additionalProperties")
        preserve = bool(schema.get("x-kubernetes-preserve-unknown-fields")) or more is True
        implied = resource or bool(schema.get("x-kubernetes-embedded-resource"))
        for name, item in value.items():
            here = f"{path}.{name}" if path else name
            if implied and name in _RESOURCE_FIELDS:
                continue
            if name in fields:
                _walk(fields[name], item, here, found)
            elif isinstance(more, dict):
                _walk(more, item, here, found)
            elif not preserve:
                found.append(here)
    elif isinstance(value, list) and not schema.get("x-kubernetes-preserve-unknown-fields"):
        # The items of what should be no list have no fields that are known.
        items = schema.get("items")
        for index, item in enumerate(value):
            _walk(items if isinstance(items, dict) else {}, item, f"{path}[{index}]", found)
