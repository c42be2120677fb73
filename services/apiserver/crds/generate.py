"""Generates the CustomResourceDefinitions of the karmada.io API from the committed table of its fields.

`python -m services.apiserver.crds.generate k8s/crds` writes one YAML file per kind, and into `optional/` those of the
kinds that the aggregated API serves otherwise (for installations without aggregation). Nothing newer than Kubernetes
1.20 is used. The older version of bindings is served without conversion here: it shows the same object without what
only the newer one has, replicas among it. `fleetlog crds print --all --webhook-url URL` adds the conversion.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from schemas.api.descriptions import karmada_description, kubernetes_description
from schemas.api.field_types import karmada_kinds
from schemas.manifest import Manifest

Schema = dict[str, Any]

OPTIONAL: Final = frozenset({"Cluster", "ClusterResourceBinding", "ResourceBinding", "Work"})
_UNCHECKED_STATUS: Final = frozenset({"Cluster", "ResourceRegistry"})
"""Kinds that Karmada serves itself and not by a definition: a status of theirs is checked for its types only."""
_TYPES: Final = frozenset({"path", "description", "type", "format"})
_AMOUNTS: Final = _TYPES | {"anyOf", "pattern", "x-kubernetes-int-or-string"}
_NOT_SCHEMA: Final = frozenset({"path", "required", "x-kubernetes-group-version-kind"})
_SUBRESOURCES: Final = frozenset({"status", "scale"})


def definitions(*, optional: bool) -> list[Manifest]:
    """Return the definitions that are always installed, or the optional ones, sorted by name."""
    by_name: dict[str, list[Manifest]] = {}
    for fact in karmada_kinds():
        kind = fact["kind"]
        if (kind in OPTIONAL) != optional:
            continue
        by_name.setdefault(f"{fact['plural']}.{fact['group']}", []).append(fact)
    return [_definition(name, versions) for name, versions in sorted(by_name.items())]


def _definition(name: str, versions: list[Manifest]) -> Manifest:
    first = versions[0]
    kind = first["kind"]
    names: Manifest = {
        "kind": kind,
        "listKind": f"{kind}List",
        "plural": first["plural"],
        "singular": kind.lower(),
    }
    if first.get("shortNames"):
        names["shortNames"] = first["shortNames"]
    categories = first.get("categories", ["karmada-io"])
    if categories:
        names["categories"] = categories
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": name},
        "spec": {
            "group": first["group"],
            "names": names,
            "scope": first["scope"],
            "versions": [_version(fact) for fact in versions],
        },
    }


def _version(fact: Manifest) -> Manifest:
    version: Manifest = {"name": fact["version"], "served": fact["served"], "storage": fact["storage"]}
    if fact.get("deprecated"):
        version["deprecated"] = True
    subresources: Manifest = {}
    for name in sorted(_SUBRESOURCES.intersection(fact["subresources"])):
        subresources[name] = fact["scalePaths"] if name == "scale" else {}
    if subresources:
        version["subresources"] = subresources
    columns = fact.get("printerColumns")
    if columns:
        version["additionalPrinterColumns"] = columns
    fields = [_described(fact["kind"], field) for field in fact["fields"]]
    if fact["kind"] in _UNCHECKED_STATUS:
        fields = [_type_alone(field) if field["path"].startswith(".status.") else field for field in fields]
    version["schema"] = {"openAPIV3Schema": schema_of(fields)}
    return version


def _described(kind: str, field: Manifest) -> Manifest:
    text = karmada_description(kind, field["path"])
    return {"path": field["path"], "description": text} | field if text else field


def _type_alone(field: Manifest) -> Manifest:
    """A field without what its value has to meet; the pattern of an amount is part of its type.

    A time may be null, as clients in Go write one that is not set.
    """
    kept = _AMOUNTS if field.get("x-kubernetes-int-or-string") else _TYPES
    open_time = {"nullable": True} if field.get("format") == "date-time" else {}
    return {"required": False} | {name: value for name, value in field.items() if name in kept} | open_time


def schema_of(fields: list[Manifest]) -> Schema:
    """Return the structural schema that a list of fields describes; parents come before their children."""
    root: Schema = {}
    for field in fields:
        node, parent, name = root, root, ""
        for step in _steps(field["path"]):
            parent, name = node, step
            if step == "[]":
                node = node.setdefault("items", {})
            elif step == "{}":
                node = node.setdefault("additionalProperties", {})
            else:
                node = node.setdefault("properties", {}).setdefault(step, {})
        node |= {key: value for key, value in field.items() if key not in _NOT_SCHEMA}
        if field["required"] and name not in ("", "[]", "{}"):
            parent.setdefault("required", []).append(name)
    root["properties"] = {
        "apiVersion": {"description": kubernetes_description("", "apiVersion"), "type": "string"},
        "kind": {"description": kubernetes_description("", "kind"), "type": "string"},
        **root.get("properties", {}),
    }
    # API servers refuse a definition that describes it.
    root["properties"].get("metadata", {}).pop("description", "")
    _close(root, "")
    return root


def _steps(path: str) -> Iterator[str]:
    """Split `.a.b[].c{}` into a, b, [], c, {}."""
    for part in path.split(".")[1:]:
        name = part.rstrip("[]{}")
        if name:
            yield name
        tail = part[len(name) :]
        for at in range(0, len(tail), 2):
            yield tail[at : at + 2]


def _close(schema: Schema, name: str) -> None:
    """Let objects of which nothing is known hold anything, so that pruning does not empty them."""
    if schema.get("type") == "object" and name != "metadata" and not _specified(schema):
        schema["x-kubernetes-preserve-unknown-fields"] = True
    if schema.get("type") == "array" and "items" not in schema:
        schema["items"] = {"x-kubernetes-preserve-unknown-fields": True}
    for field, child in schema.get("properties", {}).items():
        _close(child, field)
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            _close(schema[key], "")


def _specified(schema: Schema) -> bool:
    return any(key in schema for key in ("properties", "additionalProperties", "x-kubernetes-preserve-unknown-fields"))


def rendered() -> dict[str, str]:
    """Return all files by their path below the target folder."""
    import yaml

    texts: dict[str, str] = {}
    for folder, optional in (("", False), ("optional/", True)):
        for crd in definitions(optional=optional):
            name = f"{crd['spec']['group']}_{crd['spec']['names']['plural']}.yaml"
            texts[folder + name] = yaml.dump(crd, sort_keys=False, width=120, Dumper=_dumper())
    return texts


def _dumper() -> Any:
    import yaml

    class Plain(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
        def ignore_aliases(self, data: Any) -> bool:
            return True

    return Plain


def main(arguments: list[str]) -> int:
    """Write the files; returns the exit code."""
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m services.apiserver.crds.generate FOLDER\n")
        return 2
    target = Path(arguments[0])
    texts = rendered()
    for old in (*target.glob("*.yaml"), *target.glob("optional/*.yaml")):
        if str(old.relative_to(target)) not in texts and old.read_text().startswith("apiVersion: apiextensions.k8s.io"):
            old.unlink()
    for name, text in texts.items():
        path = target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    sys.stdout.write(f"{len(texts)} definitions in {target}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
