"""Reads MultiClusterServices of the control plane."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Struct

from schemas.manifest import Manifest
from services.networking.dispatching.provided_endpoints import SharedObject
from services.networking.dispatching.sharing_state import Ingress


class _LoadBalancer(Struct, frozen=True):
    ingress: tuple[Ingress, ...] | None = None


class _Status(Struct, frozen=True, rename="camel"):
    conditions: tuple[Manifest, ...] | None = None
    load_balancer: _LoadBalancer | None = None


_NO_STATUS: Final = _Status()


def read_shared(manifest: Manifest) -> SharedObject:
    """One of them with the status that it shows; raises ValueError for one that cannot be read."""
    metadata = manifest["metadata"]
    try:
        status = msgspec.convert(manifest.get("status"), _Status | None) or _NO_STATUS
    except msgspec.ValidationError as error:
        raise ValueError(f"MultiClusterService {metadata.get('name')}: {error}") from error
    balancer = status.load_balancer or _LoadBalancer()
    return SharedObject(
        str(metadata.get("uid") or ""),
        int(metadata.get("generation") or 0),
        status.conditions or (),
        balancer.ingress or (),
    )
