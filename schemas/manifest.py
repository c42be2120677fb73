"""A Kubernetes object as decoded JSON, and how large one may be inside an event."""

from typing import Any, Final

Manifest = dict[str, Any]

INLINE_BYTES: Final = 4096
"""Larger manifests are blobs, stored once for all clusters with the same content."""
