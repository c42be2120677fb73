"""Checks CustomResourceDefinition objects: names, group, versions, columns, subresources, conversion, approval.

Definitions come in the shape of apiextensions.k8s.io/v1. Fields that are equal in all versions are reported at the top
of the spec (`spec.validation`, `spec.subresources`, …), as an API server does, which folds them before checking.
"""

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from typing import Any, Final

import msgspec

from schemas.manifest import Manifest
from services._rules.kubernetes.patch.go_text import go_syntax
from services._rules.kubernetes.validation import name_formats as names
from services._rules.kubernetes.validation.field_errors import (
    ErrorType,
    FieldError,
    Raw,
    go_strings,
    invalid,
    not_supported,
    required,
)
from services.apiserver.crds.approval import check_approval
from services.apiserver.crds.checks import demands as demanded
from services.apiserver.crds.checks.conversion_webhooks import check_conversion
from services.apiserver.crds.checks.demands import Demands
from services.apiserver.crds.checks.selectable_fields import check_selectable_fields
from services.apiserver.crds.schema_rules import check_schema
from services.apiserver.crds.structural import any_schema

FINALIZER: Final = "customresourcecleanup.apiextensions.k8s.io"
_PER_VERSION: Final = frozenset({"schema", "subresources", "additionalPrinterColumns", "selectableFields"})
_LONGEST_WARNING: Final = 256
_COLUMN_TYPES: Final = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS: Final = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")
_EXTENSIONS: Final = (
    "x-kubernetes-embedded-resource",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-int-or-string",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-list-type",
    "x-kubernetes-validations",
)
"""Extensions that only structural schemas may use."""


def check_definition(crd: Manifest) -> list[FieldError]:
    """Return what is wrong with a new, defaulted definition."""
    spec, meta = crd["spec"], crd["metadata"]
    wanted = f"{spec['names'].get('plural', '')}.{spec.get('group', '')}"
    found = [
        invalid(f"metadata.{name}", meta[name], 'must be spec.names.plural+"."+spec.group')
        for name in ("generateName", "name")
        if meta.get(name) and meta[name] != wanted
    ]
    found += _spec(spec, Demands())
    found += _stored_versions(crd)
    return [*found, *check_approval(crd, None), *_preserve(spec)]


def check_definition_update(new: Manifest, old: Manifest) -> list[FieldError]:
    """Return what is wrong with replacing a definition, which keeps what was let through before."""
    spec, before = new["spec"], old["spec"]
    established = is_true(old, "Established")
    found = list(_spec(spec, demanded.of_changed(new, old, established=established)))
    if established:
        found += _immutable("spec.scope", spec.get("scope"), before.get("scope"))
        found += _immutable("spec.names.kind", spec["names"].get("kind"), before["names"].get("kind"))
    found += _immutable("spec.group", spec.get("group"), before.get("group"))
    found += _immutable("spec.names.plural", spec["names"].get("plural"), before["names"].get("plural"))
    found += _stored_versions(new)
    found += check_approval(new, old)
    return found if before.get("preserveUnknownFields") else [*found, *_preserve(spec)]


def check_definition_status(new: Manifest) -> list[FieldError]:
    """Return what is wrong with a write to the status subresource."""
    status = new.get("status") or {}
    return [*_names(status.get("acceptedNames") or {}, "status.acceptedNames"), *_stored_versions(new)]


def is_true(crd: Manifest, condition: str) -> bool:
    """Return whether a condition of the definition is True."""
    conditions = (crd.get("status") or {}).get("conditions") or ()
    return any(item.get("type") == condition and item.get("status") == "True" for item in conditions)


def _immutable(field: str, new: Any, old: Any) -> list[FieldError]:
    return [] if new == old else [invalid(field, new, "field is immutable")]


def _preserve(spec: Manifest) -> Iterator[FieldError]:
    if spec.get("preserveUnknownFields"):
        name = "x-kubernetes-preserve-unknown-fields"
        text = f"cannot set to true, set {name} to true in spec.versions[*].schema instead"
        yield invalid("spec.preserveUnknownFields", True, text)


def _spec(spec: Manifest, demands: Demands) -> Iterator[FieldError]:
    group = spec.get("group", "")
    if not group:
        yield required("spec.group")
    elif texts := names.subdomain(group):
        yield invalid("spec.group", group, ",".join(texts))
    elif "." not in group:
        yield invalid("spec.group", group, "should be a domain with at least one dot")
    yield from _enum("spec.scope", spec.get("scope", ""), ("Cluster", "Namespaced"))
    versions, schemas = spec.get("versions") or [], list(demanded.schemas_of(spec))
    folded = {field for field in _PER_VERSION if _same(versions, field)}
    yield from _missing_schemas(spec, demands)
    if any(any_schema(schema, lambda part: "default" in part) for schema in schemas):
        demands = _structural(demands)
        if spec.get("preserveUnknownFields"):
            text = "must be false in order to use defaults in the schema"
            yield invalid("spec.preserveUnknownFields", True, text)
    if not spec.get("preserveUnknownFields") or any(map(_extended, schemas)):
        demands = _structural(demands)
    yield from _versions(versions, _PER_VERSION - folded, folded, demands)
    yield from _required_names(spec["names"])
    yield from _names(spec["names"], "spec.names")
    if versions:
        yield from _shared(versions, folded, demands)
    conversion = spec.get("conversion") or {"strategy": "None"}
    if conversion.get("strategy") != "None" and spec.get("preserveUnknownFields"):
        text = "must be None if spec.preserveUnknownFields is true"
        yield invalid("spec.conversion.strategy", conversion.get("strategy", ""), text)
    yield from check_conversion(conversion, known_reviews=demands.known_reviews, sound_bundle=demands.sound_bundle)


def _structural(demands: Demands) -> Demands:
    return msgspec.structs.replace(demands, structural=True)


def _missing_schemas(spec: Manifest, demands: Demands) -> Iterator[FieldError]:
    for index, version in enumerate(spec.get("versions") or ()):
        field = f"spec.versions[{index}].schema.openAPIV3Schema"
        if _schema(version) is not None:
            continue
        if demands.schemas:
            yield required(field)
        elif version.get("served") and not spec.get("preserveUnknownFields"):
            yield required(field, "because otherwise all fields are pruned")


def _same(versions: list[Manifest], field: str) -> bool:
    return all(version.get(field) == versions[0].get(field) for version in versions)


def _schema(version: Manifest) -> Manifest | None:
    return (version.get("schema") or {}).get("openAPIV3Schema")


def _has_status(version: Manifest) -> bool:
    return (version.get("subresources") or {}).get("status") is not None


def _extended(schema: Manifest) -> bool:
    """Return whether a schema uses extensions that only structural schemas may."""
    return any_schema(schema, lambda part: any(name in part for name in _EXTENSIONS))


def _versions(
    versions: list[Manifest], own: AbstractSet[str], folded: AbstractSet[str], demands: Demands
) -> Iterator[FieldError]:
    """Check the versions; `own` are the fields in which they differ, `folded` those in which they do not."""
    for index, version in enumerate(versions):
        here = f"spec.versions[{index}]"
        name = version.get("name", "")
        if texts := names.dns1035(name):
            yield invalid(f"{here}.name", name, ",".join(texts))
        yield from _deprecation_warning(version, here)
        if "schema" in own:
            yield from _checked_schema(version, f"{here}.schema", demands, status=_has_status(version))
        yield from _columns(version, here, own)
        if "selectableFields" in own and version.get("selectableFields"):
            schema = None if "schema" in folded else _schema(version)
            yield from _selectable(version, schema, here, any_number=name in demands.any_selectable)
    shown = Raw(go_syntax(versions))
    if len({version.get("name") for version in versions}) < len(versions):
        yield invalid("spec.versions", shown, "must contain unique version names")
    if sum(bool(version.get("storage")) for version in versions) != 1:
        yield invalid("spec.versions", shown, "must have exactly one version marked as storage version")
    if versions and (first := versions[0].get("name", "")) and (texts := names.dns1035(first)):
        yield invalid("spec.version", first, ",".join(texts))


def _shared(versions: list[Manifest], folded: AbstractSet[str], demands: Demands) -> Iterator[FieldError]:
    """Check what is the same in all versions, under the names that it has at the top of the spec."""
    first = versions[0]
    if "schema" in folded:
        yield from _checked_schema(first, "spec.validation", demands, status=any(map(_has_status, versions)))
    yield from _columns(first, "spec", folded)
    if "selectableFields" in folded and first.get("selectableFields"):
        schema = _schema(first) if "schema" in folded else None
        yield from _selectable(first, schema, "spec", any_number="" in demands.any_selectable)


def _checked_schema(version: Manifest, path: str, demands: Demands, *, status: bool) -> list[FieldError]:
    schema = _schema(version)
    return [] if schema is None else check_schema(schema, f"{path}.openAPIV3Schema", demands, status=status)


def _columns(version: Manifest, path: str, fields: AbstractSet[str]) -> Iterator[FieldError]:
    """Check those of a version's subresources and columns that are in `fields`."""
    subresources = version.get("subresources") or {}
    if "subresources" in fields and subresources.get("scale") is not None:
        yield from _scale(subresources["scale"], f"{path}.subresources.scale")
    if "additionalPrinterColumns" in fields:
        for index, column in enumerate(version.get("additionalPrinterColumns") or ()):
            yield from _column(column, f"{path}.additionalPrinterColumns[{index}]")


def _selectable(version: Manifest, schema: Manifest | None, path: str, *, any_number: bool) -> Iterator[FieldError]:
    where = f"{path}.selectableFields"
    if schema is None:
        # Kubernetes wants the fields and the schema at the same place: both in each version, or both the same in all.
        at_top = "may only be set when validations.schema is included"
        in_version = "may only be set when `version.schema.openAPIV3Schema` is not included"
        yield invalid(where, "", at_top if path == "spec" else in_version)
    else:
        yield from check_selectable_fields(version["selectableFields"], schema, where, any_number=any_number)


def _deprecation_warning(version: Manifest, path: str) -> Iterator[FieldError]:
    given, field = version.get("deprecationWarning"), f"{path}.deprecationWarning"
    if given is None:
        return
    if not version.get("deprecated"):
        yield invalid(field, given, "can only be set for deprecated versions")
        return
    if len(given.encode()) > _LONGEST_WARNING:
        yield invalid(field, given, f"must be <= {_LONGEST_WARNING} characters long")
    if not given:
        yield invalid(field, given, "must not be an empty string")
    for at, sign in enumerate(given):
        if not sign.isprintable():
            index = len(given[:at].encode())
            text = "must only contain printable UTF-8 characters; non-printable character found at index"
            yield invalid(field, given, f"{text} {index}")
            return


def _scale(scale: Manifest, path: str) -> Iterator[FieldError]:
    for name, root in (("specReplicasPath", ".spec."), ("statusReplicasPath", ".status.")):
        value = scale.get(name, "")
        if not value:
            yield required(f"{path}.{name}")
        elif text := _simple_path(value):
            yield invalid(f"{path}.{name}", value, text)
        elif not value.startswith(root):
            yield invalid(f"{path}.{name}", value, f"should be a json path under {root[:-1]}")
    selector = scale.get("labelSelectorPath")
    if selector:
        if text := _simple_path(selector):
            yield invalid(f"{path}.labelSelectorPath", selector, text)
        elif not selector.startswith((".spec.", ".status.")):
            yield invalid(f"{path}.labelSelectorPath", selector, "should be a json path under either .spec or .status")


def _simple_path(path: str) -> str:
    return "" if path.startswith(".") else "must be a simple json path starting with ."


def _column(column: Manifest, path: str) -> Iterator[FieldError]:
    kind, json_path, form = column.get("type", ""), column.get("jsonPath", ""), column.get("format", "")
    if not column.get("name"):
        yield required(f"{path}.name")
    allowed = f"must be one of {','.join(_COLUMN_TYPES)}"
    if not kind:
        yield required(f"{path}.type", allowed)
    elif kind not in _COLUMN_TYPES:
        yield invalid(f"{path}.type", kind, allowed)
    if form and form not in _COLUMN_FORMATS:
        yield invalid(f"{path}.format", form, f"must be one of {','.join(_COLUMN_FORMATS)}")
    if not json_path:
        yield required(f"{path}.JSONPath")
    elif text := _simple_path(json_path):
        yield invalid(f"{path}.JSONPath", json_path, text)


def _required_names(given: Manifest) -> Iterator[FieldError]:
    for name in ("plural", "singular", "kind", "listKind"):
        if not given.get(name):
            yield required(f"spec.names.{name}")


def _names(given: Manifest, path: str) -> Iterator[FieldError]:
    for name in ("plural", "singular", "kind", "listKind"):
        value = given.get(name, "")
        mixed = name in ("kind", "listKind")
        if value and (texts := names.dns1035(value.lower() if mixed else value)):
            prefix = "may have mixed case, but should otherwise match: " if mixed else ""
            yield invalid(f"{path}.{name}", value, prefix + ",".join(texts))
    for name in ("shortNames", "categories"):
        for index, value in enumerate(given.get(name) or ()):
            if texts := names.dns1035(value):
                yield invalid(f"{path}.{name}[{index}]", value, ",".join(texts))
    if given.get("kind") and given.get("kind") == given.get("listKind"):
        yield invalid(f"{path}.listKind", given["listKind"], "kind and listKind may not be the same")


def _enum(field: str, value: str, allowed: tuple[str, ...]) -> Iterator[FieldError]:
    if not value:
        yield required(field)
    elif value not in allowed:
        yield not_supported(field, value, allowed)


def _stored_versions(crd: Manifest) -> Iterator[FieldError]:
    stored = (crd.get("status") or {}).get("storedVersions") or []
    known = {version.get("name"): version for version in crd["spec"].get("versions") or ()}
    field = "status.storedVersions"
    if not stored:
        yield FieldError(ErrorType.INVALID, field, "must have at least one stored version", Raw("[]string(nil)"))
        return
    for name, version in known.items():
        if version.get("storage") and name not in stored:
            yield invalid(field, go_strings(stored), f"must have the storage version {name}")
    for index, name in enumerate(stored):
        if name not in known:
            text = (
                f"missing from spec.versions; {name} was previously a storage version, and must remain in "
                f"spec.versions until a storage migration ensures no data remains persisted in {name} and removes "
                f"{name} from status.storedVersions"
            )
            yield invalid(f"{field}[{index}]", name, text)
