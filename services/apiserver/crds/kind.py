"""The kind CustomResourceDefinition itself: defaults, stored versions, checks, in v1 and v1beta1."""

import msgspec

from schemas.manifest import Manifest
from services._rules.kubernetes.validation.field_errors import FieldError
from services.apiserver.crds.beta import to_v1, to_v1beta1
from services.apiserver.crds.definition import check_definition, check_definition_status, check_definition_update
from services.apiserver.kinds.builtin import BuiltinKind
from services.apiserver.kinds.decoding import field_tables as schemas
from services.apiserver.kinds.kind_model import DecodeError

RULES = "x-kubernetes-validations"
_HTTPS_PORT = 443


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
        elif inner is not None and not (isinstance(inner, bool) and key == "additionalProperties"):
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

    def warnings(self, obj: Manifest) -> list[str]:
        """Warn about rules that are stored and not evaluated."""
        if RULES.encode() not in msgspec.json.encode(obj["spec"]):
            return []
        return [f"{RULES} in schemas are kept but not evaluated by this server: objects are not checked by them"]

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
        return check_definition(self._v1(obj), beta=self._beta)

    def check_update(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """Return what is wrong with an update of a definition."""
        return check_definition_update(self._v1(new), self._v1(old), beta=self._beta)

    def validate_status(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """Return what is wrong with a write to the status subresource."""
        return check_definition_status(self._v1(new))
