"""Sentences about kinds and fields, as `kubectl explain` shows them.

The tables hold them by the end of a place: `Work.spec` before `spec`, so that a sentence serves every place that it is
true of. A place is `Kind.field.field` for kinds of Karmada, and `Type` or `Type.field` for types of Kubernetes.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Final

import msgspec

_KARMADA: Final = "karmada_descriptions.json"
_KUBERNETES: Final = "kubernetes_descriptions.json"


def karmada_description(kind: str, path: str) -> str:
    """The sentence about a place in a kind of Karmada, by its path in the table of fields; empty for list items."""
    if path.endswith(("[]", "{}")):
        return ""
    place = f"{kind}{path.rstrip('.')}".replace("[]", "").replace("{}", "")
    parts = place.split(".")
    found = _sentences(_KARMADA)
    ends = (".".join(parts[start:]) for start in range(len(parts)))
    return next((found[end] for end in ends if end in found), "")


def kubernetes_description(name: str, field: str = "") -> str:
    """The sentence about a type of Kubernetes by its OpenAPI name, or about one of its fields; empty without any."""
    found, kind = _sentences(_KUBERNETES), name.rpartition(".")[2]
    if not field:
        return found.get(kind, "")
    return found.get(f"{kind}.{field}") or found.get(field, "")


@cache
def _sentences(file: str) -> dict[str, str]:
    return msgspec.json.decode(files(__package__).joinpath(file).read_bytes(), type=dict[str, str])
