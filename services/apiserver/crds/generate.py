"""Generates the CustomResourceDefinitions of the karmada.io API from the committed table of its fields.

`python -m services.apiserver.crds.generate k8s/crds` writes one YAML file per kind, and into `optional/` those of the
kinds that the aggregated API serves otherwise (for installations without aggregation). Nothing newer than Kubernetes
1.20 is used. The older version of bindings is served without conversion: it shows the same object without what only the
newer one has, replicas among it, which it would have elsewhere.
"""

import sys
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

import msgspec

from schemas.manifest import Manifest

Schema = dict[str, Any]

OPTIONAL: Final = frozenset({"Cluster", "ClusterResourceBinding", "ResourceBinding", "ResourceRegistry", "Work"})
_NOT_SCHEMA: Final = frozenset({"path", "required", "x-kubernetes-group-version-kind"})
_SUBRESOURCES: Final = frozenset({"status", "scale"})
_COLUMNS: Final[dict[str, list[Manifest]]] = {
    # The aggregated API prints these itself, so the table of fields has no columns for it.
    "Cluster": [
        {"name": "Version", "type": "string", "jsonPath": ".status.kubernetesVersion"},
        {"name": "Mode", "type": "string", "jsonPath": ".spec.syncMode"},
        {"name": "Ready", "type": "string", "jsonPath": '.status.conditions[?(@.type=="Ready")].status'},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        {"name": "Zones", "type": "string", "jsonPath": ".spec.zones", "priority": 1},
        {"name": "Region", "type": "string", "jsonPath": ".spec.region", "priority": 1},
        {"name": "Provider", "type": "string", "jsonPath": ".spec.provider", "priority": 1},
        {"name": "API-Endpoint", "type": "string", "jsonPath": ".spec.apiEndpoint", "priority": 1},
        {"name": "Proxy-URL", "type": "string", "jsonPath": ".spec.proxyURL", "priority": 1},
    ]
}
# The aggregated API describes its quantities, times and conditions only as objects, and its defaults are zero values.
_QUANTITIES: Final = (
    ".spec.resourceModels[].ranges[].max",
    ".spec.resourceModels[].ranges[].min",
    ".status.resourceSummary.allocatable{}",
    ".status.resourceSummary.allocated{}",
    ".status.resourceSummary.allocating{}",
)
_TIMES: Final = (".spec.taints[].timeAdded",)
_CONDITIONS: Final = ".status.conditions[]"
_SYNC_MODES: Final = ("Push", "Pull")


def facts() -> list[Manifest]:
    """Return the table of kinds and fields, one entry per kind and version."""
    lines = files("schemas.api").joinpath("fields.jsonl").read_bytes().splitlines()
    found: list[Manifest] = [msgspec.json.decode(line) for line in lines if line]
    by_kind = {fact["kind"]: fact for fact in found}
    by_kind["Cluster"]["fields"] = _refined(by_kind["Cluster"]["fields"], by_kind)
    registries = by_kind["ResourceRegistry"]
    registries["fields"] = [_without_default(field) for field in registries["fields"]]
    return found


def _without_default(field: Manifest) -> Manifest:
    return {name: value for name, value in field.items() if name != "default"}


def _refined(fields: list[Manifest], by_kind: dict[str, Manifest]) -> list[Manifest]:
    """Return the fields of Cluster with the types that its API leaves open, taken from other kinds."""
    quantity = next(
        field for field in by_kind["FederatedResourceQuota"]["fields"] if field["path"] == ".spec.overall{}"
    )
    result: list[Manifest] = []
    for field in fields:
        path, common = field["path"], {"path": field["path"], "required": field["required"]}
        if path in _QUANTITIES:
            result.append(quantity | common)
        elif path in _TIMES:
            result.append({"type": "string", "format": "date-time"} | common)
        elif path == _CONDITIONS:
            result += [item for item in by_kind["Work"]["fields"] if item["path"].startswith(_CONDITIONS)]
        else:
            plain = _without_default(field)
            result.append(plain | {"enum": list(_SYNC_MODES)} if path == ".spec.syncMode" else plain)
    return result


def definitions(*, optional: bool) -> list[Manifest]:
    """Return the definitions that are always installed, or the optional ones, sorted by name."""
    by_name: dict[str, list[Manifest]] = {}
    for fact in facts():
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
    columns = fact.get("printerColumns") or _COLUMNS.get(fact["kind"])
    if columns:
        version["additionalPrinterColumns"] = columns
    version["schema"] = {"openAPIV3Schema": schema_of(fact["fields"])}
    return version


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
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        **root.get("properties", {}),
    }
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
