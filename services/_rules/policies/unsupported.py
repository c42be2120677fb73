"""Lists the parts of Karmada's API that are accepted and stored, but not acted on in this version."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

KINDS: Final[Mapping[str, str]] = {
    "MultiClusterIngress": "no route is made of it",
    "MultiClusterService": "no Service is made of it in members",
}
"""What does not happen for objects of these kinds."""


def unsupported_kind(kind: str) -> list[str]:
    """That an object of one of Karmada's kinds has no effect; empty for one that has."""
    return [f"{kind} is kept, but not acted on yet: {KINDS[kind]}"] if kind in KINDS else []
