"""Write schemas/api/kubernetes.json.gz: names, types and merge marks of fields of built-in kinds.

Facts come from the installed kubernetes_asyncio models (what current releases know) and, where a source tree of a
Kubernetes release is given, from its API types (order, pointers, omitted zero values, merge keys, beta versions).
No descriptions are read. Usage: fields_from_client.py SOURCE_TREE [OUTPUT]
"""

from __future__ import annotations

import gzip
import json
import pkgutil
import re
import sys
from pathlib import Path
from typing import Any

OUTPUT = Path(__file__).parents[2] / "schemas/api/kubernetes.json.gz"
SCALARS = {"str": "s", "int": "i", "float": "d", "bool": "b", "datetime": "t", "object": "o"}
SPECIAL = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": "q",
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": "x",
    "io.k8s.apimachinery.pkg.apis.meta.v1.Time": "t",
    "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime": "m",
    "io.k8s.apimachinery.pkg.runtime.RawExtension": "o",
    "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1": "o",
    "io.k8s.apimachinery.pkg.apis.meta.v1.Patch": "o",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON": "o",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1beta1.JSON": "o",
}
_UNION = re.compile(r"JSONSchemaPropsOr")
FIELD = re.compile(r'^\t(?:(\w+)\s+)?(\S+)\s+`json:"([^"]*)"')
MARKS = (
    "x-kubernetes-patch-merge-key",
    "x-kubernetes-patch-strategy",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
)
# Kinds that became stable after the source tree, with the beta whose field traits they share.
NEW_ROOTS = {
    "io.k8s.api.batch.v1.CronJob": "v1beta1",
    "io.k8s.api.policy.v1.PodDisruptionBudget": "v1beta1",
    "io.k8s.api.policy.v1.Eviction": "v1beta1",
    "io.k8s.api.autoscaling.v2.HorizontalPodAutoscaler": "v2beta2",
    "io.k8s.api.discovery.v1.EndpointSlice": "v1beta1",
    "io.k8s.api.storage.v1.CSIStorageCapacity": "v1alpha1",
}


def type_of(prop: dict[str, Any]) -> str:
    """Return the type code of an OpenAPI v2 property."""
    if "$ref" in prop:
        name = prop["$ref"].rpartition("/")[2]
        return SPECIAL.get(name) or ("o" if _UNION.search(name) else "@" + name)
    kind = prop.get("type")
    if kind == "array":
        return "[]" + type_of(prop["items"])
    if kind == "object":
        return "{}" + type_of(prop["additionalProperties"]) if "additionalProperties" in prop else "o"
    if kind == "string":
        return {"byte": "y", "date-time": "t"}.get(prop.get("format", ""), "s")
    if kind == "integer":
        return "l" if prop.get("format") == "int64" else "i"
    return {"boolean": "b", "number": "d"}.get(kind or "", "o")


def go_package(path: Path) -> str:
    """Return the OpenAPI prefix of the package that a Go file belongs to."""
    parts = path.parent.parts
    return "io.k8s." + ".".join(parts[parts.index("k8s.io") + 1 :])


def go_structs(tree: Path) -> dict[str, list[tuple[str, str, str]]]:
    """Return struct fields (Go name, Go type, json tag) in source order, by OpenAPI name."""
    found: dict[str, list[tuple[str, str, str]]] = {}
    for path in sorted((tree / "staging/src/k8s.io").rglob("*types*.go")):
        current: list[tuple[str, str, str]] | None = None
        for line in path.read_text().splitlines():
            if match := re.match(r"^type (\w+) struct \{", line):
                current = found.setdefault(f"{go_package(path)}.{match[1]}", [])
            elif line.startswith("}"):
                current = None
            elif current is not None and (match := FIELD.match(line)):
                current.append((match[1] or "", match[2], match[3]))
    return found


def flatten(
    name: str, structs: dict[str, list[tuple[str, str, str]]], trail: str = ""
) -> list[tuple[str, str, str, str]]:
    """Return (json name, Go path, Go type, tag options) of a struct with embedded structs spread out."""
    rows = []
    for go_name, go_type, tag in structs.get(name, []):
        json_name, _, options = tag.partition(",")
        label = go_name or go_type.lstrip("*").rpartition(".")[2]
        if "inline" in options:
            package, _, short = go_type.lstrip("*").rpartition(".")
            inner = f"{name.rpartition('.')[0]}.{short}"
            if package == "metav1" or short in ("TypeMeta", "ListMeta"):
                inner = f"io.k8s.apimachinery.pkg.apis.meta.v1.{short}"
            elif package == "v1":
                inner = f"io.k8s.api.core.v1.{short}"
            rows += flatten(inner, structs, f"{trail}{label}: ")
        elif json_name and json_name != "-":
            rows.append((json_name, trail + label, go_type, options))
    return rows


def from_tree(tree: Path) -> dict[str, dict[str, Any]]:
    """Return the definitions of a source tree: {name: {"f": {field: [type, flags, go name, marks]}, "g": [...]}}."""
    swagger = json.loads((tree / "api/openapi-spec/swagger.json").read_text())["definitions"]
    structs = go_structs(tree)
    result: dict[str, dict[str, Any]] = {}
    for name, definition in swagger.items():
        if name in SPECIAL or "properties" not in definition:
            continue
        order = {row[0]: row for row in flatten(name, structs)}
        fields: dict[str, list[Any]] = {}
        for field in sorted(definition["properties"], key=lambda f: list(order).index(f) if f in order else 99):
            prop = definition["properties"][field]
            code = type_of(prop)
            flags = "r" if field in definition.get("required", ()) else ""
            row = order.get(field)
            if row is None:
                flags += "p"
            else:
                flags += "p" if row[2].startswith("*") else ""
                flags += "" if "omitempty" in row[3] else "k"
            usual = field[:1].upper() + field[1:]
            go_name = row[1] if row and row[1] != usual else ""
            fields[field] = [code, flags, go_name, {key: prop[key] for key in MARKS if key in prop}]
        result[name] = {"f": fields}
        if gvk := definition.get("x-kubernetes-group-version-kind"):
            result[name]["g"] = [[item["group"], item["version"], item["kind"]] for item in gvk]
    return result


def client_models() -> dict[str, Any]:
    """Return the client's model classes by name."""
    from kubernetes_asyncio.client import models

    for module in pkgutil.iter_modules(models.__path__):
        __import__(f"{models.__name__}.{module.name}")
    return {name: value for name, value in vars(models).items() if hasattr(value, "openapi_types")}


class Merger:
    """Adds to the definitions of a source tree what the client knows beyond it."""

    def __init__(self, base: dict[str, dict[str, Any]], models: dict[str, Any]) -> None:
        self.base, self.models = base, models
        self.names: dict[str, str] = {}
        for name in base:
            if model := self.model_of(name):
                self.names.setdefault(model, name)

    def model_of(self, name: str) -> str | None:
        """Return the client's class name for a definition."""
        *_, group, version, kind = name.split(".")
        stem = version[0].upper() + version[1:] + kind
        for candidate in (group.capitalize() + stem, stem):
            if candidate in self.models:
                return candidate
        return None

    def define(self, model: str, near: str) -> str:
        """Return the definition name for a client class, adding the definition beside `near` if it is new."""
        if model in self.names:
            return self.names[model]
        prefix = near.rpartition(".")[0]
        version = prefix.rpartition(".")[2]
        match = re.match(r"^(?:[A-Z][a-z]+)?(V\d+(?:(?:alpha|beta)\d+)?)(\w+)$", model)
        assert match, model
        name = f"{prefix.removesuffix(version)}{match[1].lower()}.{match[2]}"
        self.names[model] = name
        self.base[name] = {"f": {}}
        self.extend(name, model)
        return name

    def code(self, text: str, near: str) -> str:
        """Return the type code of a client type such as list[V1Container] or dict(str, str)."""
        if match := re.match(r"^list\[(.*)\]$", text):
            return "[]" + self.code(match[1], near)
        if match := re.match(r"^dict\(str, (.*)\)$", text):
            return "{}" + self.code(match[1], near)
        if text in SCALARS:
            return SCALARS[text]
        return "o" if _UNION.search(text) else "@" + self.define(text, near)

    def traits(self, name: str, field: str) -> list[Any] | None:
        """Return the entry of the same field in an older version of the same kind."""
        group, version, kind = name.rsplit(".", 2)
        for older in ("v1beta1", "v2beta2", "v1alpha1", "v1"):
            fields = self.base.get(f"{group}.{older}.{kind}", {}).get("f", {})
            if older != version and field in fields:
                return list(fields[field])
        return None

    def extend(self, name: str, model: str) -> None:
        """Add the client's fields of one definition."""
        cls = self.models[model]
        fields = self.base[name]["f"]
        setters = Path(sys.modules[cls.__module__].__file__ or "").read_text()
        for attribute, text in cls.openapi_types.items():
            field = cls.attribute_map[attribute]
            if field in fields:
                continue
            needed = f"self.{attribute} = {attribute}\n" in setters and f"if {attribute} is not None:" not in setters
            code = self.code(text, name)
            older = self.traits(name, field)
            if older:
                same = older[0] if "@" not in older[0] else code
                fields[field] = [same, older[1].replace("r", "") + ("r" if needed else ""), older[2], older[3]]
            else:
                flags = "rk" if needed else ("" if code[0] in "s[{" else "p")
                fields[field] = [code, flags, "", {}]


def main() -> None:
    """Read the facts and write the data file."""
    base = from_tree(Path(sys.argv[1]))
    merger = Merger(base, client_models())
    for name in list(base):
        if model := merger.model_of(name):
            merger.extend(name, model)
    for root in NEW_ROOTS:
        for name in (root, root + "List"):
            model = merger.model_of(name)
            if model and name not in base:
                merger.define(model, name)
                group = next(
                    g
                    for d, v in base.items()
                    if d.rsplit(".", 2)[0] == root.rsplit(".", 2)[0]
                    for g, *_ in v.get("g", [])
                )
                *_, version, kind = name.split(".")
                base[name]["g"] = [[group, version, kind]]
    compact = {
        name: {
            "f": [[field, *_trim(entry)] for field, entry in definition["f"].items()],
            **({"g": definition["g"]} if "g" in definition else {}),
        }
        for name, definition in sorted(base.items())
    }
    output = Path(sys.argv[2]) if len(sys.argv) > 2 else OUTPUT
    data = json.dumps(compact, separators=(",", ":")).encode()
    output.write_bytes(gzip.compress(data, 9, mtime=0))
    sys.stdout.write(f"{len(compact)} definitions, {len(data)} bytes, {output.stat().st_size} compressed\n")


def _trim(entry: list[Any]) -> list[Any]:
    while entry and not entry[-1]:
        entry = entry[:-1]
    return entry


if __name__ == "__main__":
    main()
