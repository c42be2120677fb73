"""The ResourceQuotas of one member by namespace, with only what an estimate reads (docs/sources.md#estimators)."""

from __future__ import annotations

from collections.abc import Iterable

from schemas.manifest import Manifest
from services._rules.kubernetes.quantity import QuantityError, parse


class MemberQuotas:
    """Quotas of one member; `version` grows with everything that may change an answer."""

    def __init__(self) -> None:
        self.version = 0
        self.known = False
        """Whether a complete list was seen, or the member does not let us see one."""
        self._by_namespace: dict[str, dict[str, Manifest]] = {}

    @property
    def size(self) -> int:
        """Number of quotas."""
        return sum(len(found) for found in self._by_namespace.values())

    def of(self, namespace: str) -> list[Manifest]:
        """The quotas of a namespace."""
        return list(self._by_namespace.get(namespace, {}).values())

    def refused(self) -> None:
        """The member does not show quotas: they limit no answer."""
        self.known = True
        self.version += 1

    def list_quotas(self, manifests: Iterable[Manifest]) -> None:
        """Take a complete list."""
        self.known = True
        self.version += 1
        self._by_namespace.clear()
        for manifest in manifests:
            self.put(manifest)

    def put(self, manifest: Manifest) -> None:
        """Take one quota, new or changed."""
        metadata = manifest["metadata"]
        kept = _kept(manifest)
        quotas = self._by_namespace.setdefault(metadata.get("namespace", ""), {})
        if quotas.get(metadata["name"]) != kept:
            quotas[metadata["name"]] = kept
            self.version += 1

    def drop(self, namespace: str, name: str) -> None:
        """Forget a quota."""
        quotas = self._by_namespace.get(namespace, {})
        if quotas.pop(name, None) is not None:
            self.version += 1
        if not quotas:
            self._by_namespace.pop(namespace, None)


def _kept(manifest: Manifest) -> Manifest:
    """Scopes, hard limits and usage; an amount that cannot be read limits nothing."""
    metadata, spec, status = manifest["metadata"], manifest.get("spec") or {}, manifest.get("status") or {}
    return {
        "metadata": {"namespace": metadata.get("namespace", ""), "name": metadata["name"]},
        "spec": {name: spec[name] for name in ("scopes", "scopeSelector") if spec.get(name)},
        "status": {part: _readable(status.get(part) or {}) for part in ("hard", "used")},
    }


def _readable(amounts: Manifest) -> Manifest:
    found = {}
    for name, text in amounts.items():
        try:
            parse(text)
        except QuantityError:
            continue
        found[name] = text
    return found
