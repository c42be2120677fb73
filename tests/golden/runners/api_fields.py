"""Compares our definitions of karmada.io kinds with the recorded names, fields, constraints and columns of each."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import yaml

CRDS = Path(__file__).resolve().parents[3] / "k8s" / "crds"
_CONSTRAINTS = frozenset(
    {
        "type",
        "format",
        "enum",
        "default",
        "pattern",
        "minimum",
        "maximum",
        "minLength",
        "maxLength",
        "minItems",
        "maxItems",
        "anyOf",
        "x-kubernetes-int-or-string",
        "x-kubernetes-list-map-keys",
        "x-kubernetes-list-type",
        "x-kubernetes-map-type",
        "x-kubernetes-preserve-unknown-fields",
    }
)
_UNSAID = ({}, [], None, "", False)

Field = dict[str, Any]


@cache
def definitions() -> dict[tuple[str, str], dict[str, Any]]:
    """All definitions by group and plural."""
    files = sorted(CRDS.rglob("*.yaml"))
    loaded = [yaml.safe_load(path.read_text()) for path in files]
    specs = [crd["spec"] for crd in loaded if crd.get("kind") == "CustomResourceDefinition"]
    return {(spec["group"], spec["names"]["plural"]): spec for spec in specs}


def fields_of(schema: dict[str, Any], path: str = "", *, required: bool = False) -> Iterator[Field]:
    """Every field below a schema as the recording lists them: items as `[]`, values of maps as `{}`."""
    said = {name: value for name, value in schema.items() if name in _CONSTRAINTS}
    yield {"path": path or ".", "required": required, **said}
    needed = schema.get("required", ())
    for name, inner in schema.get("properties", {}).items():
        if path or name not in ("apiVersion", "kind"):
            yield from fields_of(inner, f"{path}.{name}", required=name in needed)
    if isinstance(schema.get("items"), dict):
        yield from fields_of(schema["items"], f"{path}[]")
    if isinstance(schema.get("additionalProperties"), dict):
        yield from fields_of(schema["additionalProperties"], f"{path}{{}}")


def differences(case: dict[str, Any]) -> list[str]:
    """What our definition says otherwise, one line each."""
    spec = definitions().get((case["group"], case["plural"]))
    if spec is None:
        return [f"{case['plural']}.{case['group']} is not defined"]
    version = next((one for one in spec["versions"] if one["name"] == case["version"]), None)
    if version is None:
        return [f"{case['plural']}.{case['group']} has no version {case['version']}"]
    names = spec["names"]
    ours = {
        "kind": names["kind"],
        "shortNames": names.get("shortNames", []),
        "categories": names.get("categories", []),
        "scope": spec["scope"],
        "served": version["served"],
        "storage": version["storage"],
        "deprecated": version.get("deprecated", False),
        "subresources": sorted(version.get("subresources", {})) if "categories" in case else case["subresources"],
        "scalePaths": version.get("subresources", {}).get("scale"),
        "printerColumns": version.get("additionalPrinterColumns", []),
    }
    found = [
        f"{name}: {value!r}, recorded {case[name]!r}"
        for name, value in ours.items()
        if name in case and _plain(value) != _plain(case[name])
    ]
    have = {field["path"]: field for field in fields_of(version["schema"]["openAPIV3Schema"])}
    want = {field["path"]: field for field in case["fields"]}
    found += [f"{path} is missing" for path in want.keys() - have.keys()]
    known = want.keys() if "categories" in case else want.keys() - {path for path in want if _opaque(path, want)}
    found += [f"{path} was not recorded" for path in have.keys() - want.keys() if _parent(path) in known]
    # Kinds of an aggregated API were recorded from its OpenAPI document, which writes constraints in its own way.
    own = "categories" in case
    for path in want.keys() & have.keys():
        # Their own server documents what a status has to hold and does not check it; a definition would.
        needed = frozenset() if not own and path.startswith(".status.") else frozenset({"required"})
        found += [
            f"{path} {name}: {have[path].get(name)!r}, recorded {want[path].get(name)!r}"
            for name in (_CONSTRAINTS | needed if own else needed)
            if _plain(want[path].get(name)) != _plain(have[path].get(name))
        ]
    return sorted(found)


def _parent(path: str) -> str:
    """The field that holds this one, its items or its values."""
    inner = path.removesuffix("[]").removesuffix("{}")
    return (inner if inner != path else path.rpartition(".")[0]) or "."


def _opaque(path: str, recorded: dict[str, Field]) -> bool:
    """Whether the recording refers to a type elsewhere instead of listing what is in it."""
    return not any(_parent(other) == path for other in recorded if other != path)


def _plain(value: Any) -> Any:
    """A value without what says nothing; descriptions of columns are free."""
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items() if name not in ("description", "priority")} or None
    if isinstance(value, list):
        return [_plain(item) for item in value] or None
    return None if value in _UNSAID else value


def run(case: dict[str, Any]) -> bool:
    """Whether our definition says the same."""
    return not differences(case)


FILES = {"api-fields": run}
