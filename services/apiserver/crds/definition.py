"""Checks CustomResourceDefinition objects: names, group, versions, columns, subresources, conversion, approval.

Definitions come in the shape of apiextensions.k8s.io/v1. Fields that are equal in all versions are reported at the top
of the spec (`spec.validation`, `spec.subresources`, …), as an API server does, which folds them before checking.
"""

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from typing import Any, Final
from urllib.parse import urlsplit

from schemas.manifest import Manifest
from services._rules.kubernetes.patch.go_text import go_syntax
from services._rules.kubernetes.validation import name_formats as names
from services._rules.kubernetes.validation.field_errors import (
    ErrorType,
    FieldError,
    Raw,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)
from services.apiserver.crds.approval import check_approval
from services.apiserver.crds.rule_checks import field_at
from services.apiserver.crds.schema_rules import check_schema
from services.apiserver.crds.structural import any_schema

FINALIZER: Final = "customresourcecleanup.apiextensions.k8s.io"
_PER_VERSION: Final = frozenset({"schema", "subresources", "additionalPrinterColumns", "selectableFields"})
_MOST_SELECTABLE: Final = 8
_SELECTABLE_TYPES: Final = ("string", "boolean", "integer")
_LONGEST_WARNING: Final = 256
_COLUMN_TYPES: Final = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS: Final = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")


def check_definition(crd: Manifest, *, beta: bool = False) -> list[FieldError]:
    """Return what is wrong with a new, defaulted definition; `beta` for requests in v1beta1, which allow more."""
    spec = crd["spec"]
    found: list[FieldError] = []
    name, wanted = crd["metadata"].get("name", ""), f"{spec['names'].get('plural', '')}.{spec.get('group', '')}"
    if name != wanted:
        found.append(invalid("metadata.name", name, 'must be spec.names.plural+"."+spec.group'))
    found += _spec(spec, beta=beta)
    found += _stored_versions(crd)
    if not beta:
        found += check_approval(crd, None)
        found += _preserve(spec)
    return found


def check_definition_update(new: Manifest, old: Manifest, *, beta: bool = False) -> list[FieldError]:
    """Return what is wrong with replacing a definition."""
    spec, before = new["spec"], old["spec"]
    found = list(_spec(spec, beta=beta or bool(before.get("preserveUnknownFields"))))
    if is_true(old, "Established"):
        found += _immutable("spec.scope", spec.get("scope"), before.get("scope"))
        found += _immutable("spec.names.kind", spec["names"].get("kind"), before["names"].get("kind"))
    found += _immutable("spec.group", spec.get("group"), before.get("group"))
    found += _immutable("spec.names.plural", spec["names"].get("plural"), before["names"].get("plural"))
    found += _stored_versions(new)
    if not beta:
        found += check_approval(new, old)
        if not before.get("preserveUnknownFields"):
            found += _preserve(spec)
    return found


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
        text = "cannot set to true, set x-preserve-unknown-fields to true in spec.versions[*].schema instead"
        yield invalid("spec.preserveUnknownFields", True, text)


def _spec(spec: Manifest, *, beta: bool) -> Iterator[FieldError]:
    group = spec.get("group", "")
    if not group:
        yield required("spec.group")
    elif texts := names.subdomain(group):
        yield invalid("spec.group", group, ",".join(texts))
    elif "." not in group:
        yield invalid("spec.group", group, "should be a domain with at least one dot")
    yield from _enum("spec.scope", spec.get("scope", ""), ("Cluster", "Namespaced"))
    versions = spec.get("versions") or []
    folded = {field for field in _PER_VERSION if _same(versions, field)}
    if not beta:
        for index, version in enumerate(versions):
            if _schema(version) is None:
                yield required(f"spec.versions[{index}].schema.openAPIV3Schema", "schemas are required")
    elif not spec.get("preserveUnknownFields"):
        for index, version in enumerate(versions):
            if version.get("served") and _schema(version) is None:
                yield required(
                    f"spec.versions[{index}].schema.openAPIV3Schema", "because otherwise all fields are pruned"
                )
    if not beta and spec.get("preserveUnknownFields") and any(_has_defaults(version) for version in versions):
        text = "must be false in order to use defaults in the schema"
        yield invalid("spec.preserveUnknownFields", True, text)
    structural = not spec.get("preserveUnknownFields") or any(_extended(version) for version in versions)
    yield from _versions(versions, folded, structural=structural, defaults=not beta)
    yield from _required_names(spec["names"])
    yield from _names(spec["names"], "spec.names")
    if versions:
        paths = {"schema": "spec.validation", "subresources": "spec.subresources"}
        yield from _version(versions[0], "spec", paths, folded, structural=structural, defaults=not beta)
    conversion = spec.get("conversion") or {"strategy": "None"}
    if conversion.get("strategy") != "None" and spec.get("preserveUnknownFields"):
        text = "must be None if spec.preserveUnknownFields is true"
        yield invalid("spec.conversion.strategy", conversion.get("strategy", ""), text)
    yield from _conversion(conversion)


def _same(versions: list[Manifest], field: str) -> bool:
    return all(version.get(field) == versions[0].get(field) for version in versions)


def _schema(version: Manifest) -> Manifest | None:
    return (version.get("schema") or {}).get("openAPIV3Schema")


def _extended(version: Manifest) -> bool:
    """Return whether a schema uses defaults or x-kubernetes extensions, which only structural schemas may."""
    schema = _schema(version)
    return schema is not None and any_schema(
        schema, lambda part: any(name == "default" or name.startswith("x-kubernetes-") for name in part)
    )


def _has_defaults(version: Manifest) -> bool:
    schema = _schema(version)
    return schema is not None and any_schema(schema, lambda part: "default" in part)


def _versions(versions: list[Manifest], folded: set[str], *, structural: bool, defaults: bool) -> Iterator[FieldError]:
    own = _PER_VERSION - folded
    for index, version in enumerate(versions):
        here = f"spec.versions[{index}]"
        name = version.get("name", "")
        if texts := names.dns1035(name):
            yield invalid(f"{here}.name", name, ",".join(texts))
        paths = {"schema": f"{here}.schema", "subresources": f"{here}.subresources"}
        yield from _version(version, here, paths, own, structural=structural, defaults=defaults)
        yield from _deprecation_warning(version, here)
    shown = Raw(go_syntax(versions))
    if len({version.get("name") for version in versions}) < len(versions):
        yield invalid("spec.versions", shown, "must contain unique version names")
    if sum(bool(version.get("storage")) for version in versions) != 1:
        yield invalid("spec.versions", shown, "must have exactly one version marked as storage version")
    if versions and (texts := names.dns1035(versions[0].get("name", ""))):
        yield invalid("spec.version", versions[0].get("name", ""), ",".join(texts))


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


def _version(
    version: Manifest, path: str, paths: dict[str, str], fields: AbstractSet[str], *, structural: bool, defaults: bool
) -> Iterator[FieldError]:
    """Check those of a version's schema, subresources and columns that are in `fields`."""
    subresources = version.get("subresources") or {}
    schema = _schema(version)
    if "schema" in fields and schema is not None:
        where = f"{paths['schema']}.openAPIV3Schema"
        status = subresources.get("status") is not None
        yield from check_schema(schema, where, status=status, structural=structural, defaults=defaults)
    if "subresources" in fields and subresources.get("scale") is not None:
        yield from _scale(subresources["scale"], f"{paths['subresources']}.scale")
    if "additionalPrinterColumns" in fields:
        for index, column in enumerate(version.get("additionalPrinterColumns") or ()):
            yield from _column(column, f"{path}.additionalPrinterColumns[{index}]")
    if "selectableFields" in fields and version.get("selectableFields"):
        yield from _selectable(version["selectableFields"], schema or {}, f"{path}.selectableFields")


def _selectable(fields: list[Manifest], schema: Manifest, path: str) -> Iterator[FieldError]:
    known: set[str] = set()
    for index, item in enumerate(fields):
        field, given = f"{path}[{index}].jsonPath", item.get("jsonPath", "")
        if not given:
            yield required(field)
            continue
        found, problem = (None, "array notation is not allowed") if "[" in given else field_at(given, schema)
        if problem:
            yield invalid(field, given, f"is an invalid path: {problem}")
            continue
        if given.startswith(".metadata"):
            yield invalid(field, given, "must not point to fields in metadata")
        if (found or {}).get("type") not in _SELECTABLE_TYPES:
            text = "must point to a field of type string, boolean or integer. "
            yield invalid(field, given, f"{text}Enum string fields and strings with formats are allowed.")
        if given in known:
            yield duplicate(field, given)
        known.add(given)
    if len(known) > _MOST_SELECTABLE:
        yield FieldError(ErrorType.TOO_MANY, path, f"must have at most {_MOST_SELECTABLE} items", len(known))


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


def _conversion(conversion: Manifest) -> Iterator[FieldError]:
    strategy, webhook = conversion.get("strategy", ""), conversion.get("webhook") or {}
    yield from _enum("spec.conversion.strategy", strategy, ("None", "Webhook"))
    client, reviews = webhook.get("clientConfig"), webhook.get("conversionReviewVersions") or []
    client_field, review_field = "spec.conversion.webhookClientConfig", "spec.conversion.conversionReviewVersions"
    if strategy != "Webhook":
        text = "should not be set when strategy is not set to Webhook"
        if client is not None:
            yield forbidden(client_field, text)
        if reviews:
            yield forbidden(review_field, text)
        return
    if client is None:
        yield required(client_field, "required when strategy is set to Webhook")
    elif bool(client.get("url")) == bool(client.get("service")):
        yield required(client_field, "exactly one of url or service is required")
    elif url := client.get("url"):
        yield from _webhook_url(url, f"{client_field}.url")
    else:
        yield from _webhook_service(client["service"], f"{client_field}.service")
    if not reviews:
        yield required(review_field)
        return
    for index, name in enumerate(reviews):
        if name in reviews[:index]:
            yield invalid(f"{review_field}[{index}]", name, "duplicate version")
        else:
            for text in names.dns1035(name):
                yield invalid(f"{review_field}[{index}]", name, text)
    if not {"v1", "v1beta1"}.intersection(reviews):
        yield invalid(review_field, Raw(go_syntax(reviews)), "must include at least one of v1, v1beta1")


_URL_FORM: Final = "; desired format: https://host[/path]"


def _webhook_url(url: str, field: str) -> Iterator[FieldError]:
    try:
        parts = urlsplit(url)
    except ValueError as error:
        yield required(field, f"url must be a valid URL: {error}{_URL_FORM}")
        return
    if parts.scheme != "https":
        yield invalid(field, parts.scheme, f"'https' is the only allowed URL scheme{_URL_FORM}")
    if not parts.netloc:
        yield invalid(field, parts.netloc, f"host must be specified{_URL_FORM}")
    if "@" in parts.netloc:
        yield invalid(field, parts.netloc.rpartition("@")[0], "user information is not permitted in the URL")
    if parts.fragment:
        yield invalid(field, parts.fragment, "fragments are not permitted in the URL")
    if parts.query:
        yield invalid(field, parts.query, "query parameters are not permitted in the URL")


def _webhook_service(service: Manifest, field: str) -> Iterator[FieldError]:
    for name in ("name", "namespace"):
        if not service.get(name):
            yield required(f"{field}.{name}", f"service {name} is required")
    port = service.get("port", 443)
    if not 1 <= port <= 65535:
        yield invalid(f"{field}.port", port, "port is not valid: must be between 1 and 65535, inclusive")
    path = service.get("path")
    if path in (None, "/"):
        return
    where = f"{field}.path"
    if path == "//":
        yield invalid(where, path, "segment[0] may not be empty")
        return
    if not path.startswith("/"):
        yield invalid(where, path, "must start with a '/'")
    segments = path.removeprefix("/").removesuffix("/").split("/")
    for index, segment in enumerate(segments):
        if not segment:
            yield invalid(where, path, f"segment[{index}] may not be empty")
        else:
            for text in names.subdomain(segment):
                yield invalid(where, path, f"segment[{index}]: {text}")


def _stored_versions(crd: Manifest) -> Iterator[FieldError]:
    stored = (crd.get("status") or {}).get("storedVersions") or []
    known = {version.get("name"): version for version in crd["spec"].get("versions") or ()}
    field = "status.storedVersions"
    if not stored:
        yield FieldError(ErrorType.INVALID, field, "must have at least one stored version", Raw("[]string(nil)"))
        return
    for name, version in known.items():
        if version.get("storage") and name not in stored:
            yield invalid(field, Raw(go_syntax(version)), f"must have the storage version {name}")
    for index, name in enumerate(stored):
        if name not in known:
            yield invalid(f"{field}[{index}]", name, "must appear in spec.versions")
