"""The kind CustomResourceDefinition itself: v1 and v1beta1, defaults, stored versions, checks."""

from typing import Final

from schemas.manifest import Manifest
from services._rules.kubernetes.patch.go_text import go_syntax
from services._rules.kubernetes.validation.field_errors import FieldError, Raw, forbidden, invalid
from services.apiserver.crds.checks.schema_formats import format_warnings
from services.apiserver.crds.definition import check_definition, check_definition_status, check_definition_update
from services.apiserver.kinds.builtin import BuiltinKind
from services.apiserver.kinds.decoding import field_tables as schemas
from services.apiserver.kinds.kind_model import DecodeError

_PLACES: Final = (
    ("schema", "validation", "schemas"),
    ("subresources", "subresources", "subresources"),
    ("additionalPrinterColumns", "additionalPrinterColumns", "additionalPrinterColumns"),
)
_PER_VERSION: Final = (("schema", "validation"), ("subresources", "subresources"))


def to_v1(crd: Manifest) -> Manifest:
    """Return a v1beta1 definition in v1; what stands at the top of its spec goes into every version."""
    spec = dict(crd["spec"])
    spec.pop("version", None)
    shared: Manifest = {}
    for name, top in _PER_VERSION:
        if (value := spec.pop(top, None)) is not None:
            shared[name] = value
    columns = spec.pop("additionalPrinterColumns", None)
    versions = []
    for version in spec.get("versions") or ():
        merged = {**shared, **version}
        own = version.get("additionalPrinterColumns") or columns
        if own:
            merged["additionalPrinterColumns"] = [_renamed(column, "JSONPath", "jsonPath") for column in own]
        versions.append(merged)
    spec["versions"] = versions
    if "conversion" in spec:
        spec["conversion"] = _conversion_to_v1(spec["conversion"])
    if not spec.get("preserveUnknownFields"):
        spec.pop("preserveUnknownFields", None)
    return {**crd, "apiVersion": "apiextensions.k8s.io/v1", "spec": spec}


def to_v1beta1(crd: Manifest) -> Manifest:
    """Return a v1 definition in v1beta1; what is equal in all versions goes to the top of its spec."""
    spec = dict(crd["spec"])
    versions = [dict(version) for version in spec.get("versions") or ()]
    if versions:
        spec["version"] = versions[0]["name"]
    for version in versions:
        if columns := version.get("additionalPrinterColumns"):
            version["additionalPrinterColumns"] = [_renamed(column, "jsonPath", "JSONPath") for column in columns]
    for name, top in (*_PER_VERSION, ("additionalPrinterColumns", "additionalPrinterColumns")):
        values = [version.get(name) for version in versions]
        if values and all(value == values[0] for value in values):
            for version in versions:
                version.pop(name, None)
            if values[0] is not None:
                spec[top] = values[0]
    spec["versions"] = versions
    if "conversion" in spec:
        spec["conversion"] = _conversion_to_v1beta1(spec["conversion"])
    spec.setdefault("preserveUnknownFields", False)
    return {**crd, "apiVersion": "apiextensions.k8s.io/v1beta1", "spec": spec}


def _renamed(column: Manifest, old: str, new: str) -> Manifest:
    return {new if name == old else name: value for name, value in column.items()}


def _conversion_to_v1(conversion: Manifest) -> Manifest:
    result = {"strategy": conversion.get("strategy", "None")}
    client, reviews = conversion.get("webhookClientConfig"), conversion.get("conversionReviewVersions")
    if client is not None or reviews:
        webhook: Manifest = {"conversionReviewVersions": reviews or []}
        if client is not None:
            webhook["clientConfig"] = client
        result["webhook"] = webhook
    return result


def _conversion_to_v1beta1(conversion: Manifest) -> Manifest:
    result: Manifest = {"strategy": conversion.get("strategy", "None")}
    webhook = conversion.get("webhook") or {}
    if webhook.get("clientConfig") is not None:
        result["webhookClientConfig"] = webhook["clientConfig"]
    if webhook.get("conversionReviewVersions"):
        result["conversionReviewVersions"] = webhook["conversionReviewVersions"]
    return result


_HTTPS_PORT = 443
_WARNS_SINCE: Final = 34
"""The first release that warns of formats that it does not know."""


def _normalise_below(name: str, schema: Manifest, path: list[str]) -> None:
    """Normalise the schemas that stand where other things may stand, too: the field table leaves those alone."""
    for key in ("items", "additionalProperties"):
        inner = schema.get(key)
        if isinstance(inner, dict):
            schemas.normalise(name, inner, [*path, key])
            _normalise_below(name, inner, [*path, key])
        elif isinstance(inner, list) and key == "items":
            for index, item in enumerate(inner):
                schemas.normalise(name, item, [*path, f"items[{index}]"])
        elif key == "items" and key in schema:
            schema[key] = None  # Kubernetes reads any other value as items without a schema.
        elif inner is not None and not isinstance(inner, bool):
            raise schemas.ShapeError([*path, key], "a schema", inner)
    for key in ("properties", "patternProperties"):
        for field, inner in (schema.get(key) or {}).items():
            _normalise_below(name, inner, [*path, f"{key}[{field}]"])
    for key in ("allOf", "anyOf", "oneOf"):
        for index, inner in enumerate(schema.get(key) or ()):
            _normalise_below(name, inner, [*path, f"{key}[{index}]"])
    if isinstance(schema.get("not"), dict):
        _normalise_below(name, schema["not"], [*path, "not"])


class CustomResourceDefinition(BuiltinKind):
    """Definitions of custom kinds; stored in v1."""

    generation = True
    has_status = True
    unconditional_update = False

    @property
    def _beta(self) -> bool:
        return self.resource.version == "v1beta1"

    def _v1(self, crd: Manifest) -> Manifest:
        return to_v1(crd) if crd["apiVersion"].endswith("/v1beta1") else crd

    def to_store(self, obj: Manifest) -> Manifest:
        """Return the definition in v1."""
        return self._v1(obj)

    def from_store(self, obj: Manifest) -> Manifest:
        """Return a stored definition in this kind's version."""
        return to_v1beta1(obj) if self._beta else obj

    def decode(self, obj: Manifest, raw: bytes | None = None) -> None:
        """Bring a body into canonical form, schemas below `items` and the like, too; raises DecodeError."""
        super().decode(obj, raw)
        spec, name = obj.get("spec") or {}, self.schema_name.replace(self.resource.kind, "JSONSchemaProps")
        places = [(spec.get("validation"), ["spec", "validation"])]
        for index, version in enumerate(spec.get("versions") or ()):
            places.append((version.get("schema"), ["spec", f"versions[{index}]", "schema"]))
        try:
            for holder, path in places:
                _normalise_below(name, (holder or {}).get("openAPIV3Schema") or {}, [*path, "openAPIV3Schema"])
        except schemas.ShapeError as error:
            raise DecodeError(str(error)) from None

    def default(self, obj: Manifest) -> None:
        """Fill in singular and list names, the conversion strategy, the port of a webhook, and v1beta1's versions."""
        spec = obj["spec"]
        names = spec.setdefault("names", {})
        if kind := names.get("kind"):
            names.setdefault("singular", kind.lower())
            names.setdefault("listKind", f"{kind}List")
        if self._beta:
            spec.setdefault("scope", "Namespaced")
            spec.setdefault("preserveUnknownFields", True)
            if not spec.get("versions") and spec.get("version"):
                spec["versions"] = [{"name": spec["version"], "served": True, "storage": True}]
            if spec.get("versions") and not spec.get("version"):
                spec["version"] = spec["versions"][0].get("name", "")
        conversion = spec.setdefault("conversion", {"strategy": "None"})
        client = conversion.get("webhookClientConfig") or (conversion.get("webhook") or {}).get("clientConfig") or {}
        if service := client.get("service"):
            service.setdefault("port", _HTTPS_PORT)

    def prepare_create(self, obj: Manifest) -> None:
        """Begin with an empty status that names the storage version."""
        super().prepare_create(obj)
        stored = [version["name"] for version in obj["spec"].get("versions") or () if version.get("storage")][:1]
        obj["status"] = {
            "conditions": None,
            "acceptedNames": {"plural": "", "kind": ""},
            "storedVersions": stored or None,
        }

    def prepare_update(self, new: Manifest, old: Manifest) -> None:
        """Keep the status and add a new storage version to the stored ones."""
        super().prepare_update(new, old)
        status = new.get("status") or {}
        stored = status.get("storedVersions") or []
        for version in new["spec"].get("versions") or ():
            if version.get("storage") and version["name"] not in stored:
                new["status"] = {**status, "storedVersions": [*stored, version["name"]]}
                return

    def check(self, obj: Manifest) -> list[FieldError]:
        """Return what is wrong with a new definition outside its metadata."""
        return [*self._misplaced(obj), *check_definition(self._v1(obj), beta=self._beta, release=self.release)]

    def check_update(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """Return what is wrong with an update of a definition."""
        found = check_definition_update(self._v1(new), self._v1(old), beta=self._beta, release=self.release)
        return [*self._misplaced(new), *found]

    def _misplaced(self, crd: Manifest) -> list[FieldError]:
        """Return what the beta has both at the top and in versions, or the same in all versions."""
        if not self._beta:
            return []
        spec, found = crd["spec"], []
        versions = spec.get("versions") or []
        for name, top, shown in _PLACES:
            values = [version.get(name) for version in versions if version.get(name)]
            if spec.get(top) and values:
                text = f"top-level and per-version {shown} are mutually exclusive"
                found.append(forbidden(f"spec.{top}", text))
            if values and len(values) == len(versions) and all(value == values[0] for value in values):
                text = f"per-version {shown} may not all be set to identical values "
                text += f"(top-level {top} should be used instead)"
                found.append(invalid("spec.versions", Raw(go_syntax(versions)), text))
        if spec.get("version") and versions and versions[0].get("name") != spec["version"]:
            found.append(invalid("spec.version", spec["version"], "must match the first version in spec.versions"))
        return found

    def warnings(self, obj: Manifest) -> list[str]:
        """Return a warning for each format of the schemas that is not known."""
        return format_warnings(obj) if self.release >= _WARNS_SINCE else []

    def change_warnings(self, new: Manifest, old: Manifest) -> list[str]:
        """Return a warning for each format that is not known and new."""
        return format_warnings(new, old) if self.release >= _WARNS_SINCE else []

    def validate_status(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """Return what is wrong with a write to the status subresource."""
        return check_definition_status(self._v1(new))
