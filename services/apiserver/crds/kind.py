"""The kind CustomResourceDefinition itself: defaults, stored versions, checks."""

from schemas.manifest import Manifest
from services._rules.kubernetes.validation.field_errors import FieldError
from services.apiserver.crds.checks.schema_formats import format_warnings
from services.apiserver.crds.definition import check_definition, check_definition_status, check_definition_update
from services.apiserver.kinds.builtin import BuiltinKind
from services.apiserver.kinds.decoding import field_tables as schemas
from services.apiserver.kinds.kind_model import DecodeError

_HTTPS_PORT = 443


def _below(name: str, schema: Manifest, path: list[str]) -> list[str]:
    """Normalise the schemas that stand where other things may stand, too: the field table leaves those alone.

    Returns the paths of the unknown fields in them.
    """
    unknown: list[str] = []
    for key in ("items", "additionalProperties"):
        inner = schema.get(key)
        if isinstance(inner, dict):
            unknown += schemas.normalise(name, inner, [*path, key])
            unknown += _below(name, inner, [*path, key])
        elif isinstance(inner, list) and key == "items":
            for index, item in enumerate(inner):
                unknown += schemas.normalise(name, item, [*path, f"items[{index}]"])
        elif key == "items" and key in schema:
            schema[key] = None  # Kubernetes reads any other value as items without a schema.
        elif inner is not None and not isinstance(inner, bool):
            raise schemas.ShapeError([*path, key], "a schema", inner)
    for key in ("properties", "patternProperties"):
        for field, inner in (schema.get(key) or {}).items():
            unknown += _below(name, inner, [*path, f"{key}[{field}]"])
    for key in ("allOf", "anyOf", "oneOf"):
        for index, inner in enumerate(schema.get(key) or ()):
            unknown += _below(name, inner, [*path, f"{key}[{index}]"])
    if isinstance(schema.get("not"), dict):
        unknown += _below(name, schema["not"], [*path, "not"])
    return unknown


class CustomResourceDefinition(BuiltinKind):
    """Definitions of custom kinds."""

    generation = True
    has_status = True
    unconditional_update = False

    def decode(self, obj: Manifest, raw: bytes | None = None) -> list[str]:
        """Bring a body into canonical form, schemas below `items` and the like, too; raises DecodeError."""
        unknown = super().decode(obj, raw)
        spec, name = obj.get("spec") or {}, self.schema_name.replace(self.resource.kind, "JSONSchemaProps")
        try:
            for index, version in enumerate(spec.get("versions") or ()):
                path = ["spec", f"versions[{index}]", "schema", "openAPIV3Schema"]
                unknown += _below(name, (version.get("schema") or {}).get("openAPIV3Schema") or {}, path)
        except schemas.ShapeError as error:
            raise DecodeError(str(error)) from None
        return unknown

    def default(self, obj: Manifest) -> None:
        """Fill in singular and list names, the conversion strategy, and the port of a webhook."""
        spec = obj["spec"]
        names = spec.setdefault("names", {})
        if kind := names.get("kind"):
            names.setdefault("singular", kind.lower())
            names.setdefault("listKind", f"{kind}List")
        conversion = spec.setdefault("conversion", {"strategy": "None"})
        client = (conversion.get("webhook") or {}).get("clientConfig") or {}
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
        return check_definition(obj)

    def check_update(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """Return what is wrong with an update of a definition."""
        return check_definition_update(new, old)

    def warnings(self, obj: Manifest) -> list[str]:
        """Return a warning for each format of the schemas that is not known."""
        return format_warnings(obj)

    def change_warnings(self, new: Manifest, old: Manifest) -> list[str]:
        """Return a warning for each format that is not known and new."""
        return format_warnings(new, old)

    def validate_status(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """Return what is wrong with a write to the status subresource."""
        return check_definition_status(new)
