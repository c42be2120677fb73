"""Interns parsed placements and resource requests that many bindings share.

A hundred thousand bindings come from a few policies. What is shared must never be changed in place.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

import msgspec
from msgspec import Raw

from schemas.manifest import Manifest

_SHARED: Final = frozenset({"placement", "replicaRequirements", "failover", "components", "suspension"})
"""Parts of a spec that many bindings have alike; everything else is their own."""
_parts: Final = msgspec.json.Decoder(dict[str, Raw]).decode
_any: Final = msgspec.json.Decoder().decode


def spec_of(text: Raw | bytes) -> Manifest:
    """A binding's spec, with parts that other bindings may share; raises msgspec.DecodeError for what is no object."""
    return {name: _shared(bytes(part)) if name in _SHARED else _any(part) for name, part in _parts(text).items()}


@lru_cache(maxsize=4096)
def _shared(text: bytes) -> Any:
    return _any(text)


def shared_raw(text: Raw) -> Raw:
    """The same text; of equal ones the same object, which keeps no message of the log alive."""
    return _raw(bytes(text))


@lru_cache(maxsize=4096)
def _raw(text: bytes) -> Raw:
    return Raw(text)
