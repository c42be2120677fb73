"""Which scripts answer for which kind and operation: all ResourceInterpreterCustomizations together.

Customizations of one target are ordered by name. The first script of an operation answers; scripts that find
dependencies all do (docs/sources.md#interpreters).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from schemas.manifest import Manifest
from services._rules.interpreter.common.interpretation import Operation

Key: TypeAlias = tuple[str, str, str]

# Members of spec.customizations and the operations they define.
MEMBERS: Final[Mapping[str, Operation]] = {
    "retention": Operation.RETAIN,
    "replicaResource": Operation.REPLICA,
    "componentResource": Operation.COMPONENT,
    "replicaRevision": Operation.REVISE,
    "statusReflection": Operation.STATUS,
    "statusAggregation": Operation.AGGREGATE,
    "healthInterpretation": Operation.HEALTH,
    "dependencyInterpretation": Operation.DEPENDENCY,
}


class Customizations:
    """Scripts by apiVersion, kind and operation."""

    def __init__(self, manifests: Iterable[Manifest] = ()) -> None:
        found: dict[Key, tuple[str, ...]] = {}
        authors: dict[Key, tuple[str, ...]] = {}
        for manifest in sorted(manifests, key=_name):
            for key, script in _scripts(manifest):
                if key not in found or key[2] == Operation.DEPENDENCY:
                    found[key] = (*found.get(key, ()), script)
                    authors[key] = (*authors.get(key, ()), _name(manifest))
        self._scripts = found
        self._authors = authors

    def scripts(self, api_version: str, kind: str, operation: Operation) -> tuple[str, ...]:
        """The scripts to run, in order; empty where no customization has the operation."""
        return self._scripts.get((api_version, kind, operation), ())

    def authors(self, api_version: str, kind: str, operation: Operation) -> tuple[str, ...]:
        """Names of the customizations that the scripts of an operation are from, in the same order."""
        return self._authors.get((api_version, kind, operation), ())

    def hook_enabled(self, api_version: str, kind: str, operation: Operation) -> bool:
        """Whether a script answers an operation for a kind."""
        return (api_version, kind, operation) in self._scripts

    def __len__(self) -> int:
        return len(self._scripts)


def _name(manifest: Manifest) -> str:
    return str((manifest.get("metadata") or {}).get("name") or "")


def _scripts(manifest: Manifest) -> Sequence[tuple[Key, str]]:
    spec: Any = manifest.get("spec") or {}
    target, rules = spec.get("target") or {}, spec.get("customizations") or {}
    api_version, kind = target.get("apiVersion"), target.get("kind")
    if not (api_version and kind):
        return ()
    return [
        ((api_version, kind, operation), script)
        for member, operation in MEMBERS.items()
        if (script := (rules.get(member) or {}).get("luaScript"))
    ]
