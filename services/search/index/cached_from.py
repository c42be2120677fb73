"""What marks an object of the index."""

from __future__ import annotations

from typing import Final

CACHED_FROM: Final = "resource.karmada.io/cached-from-cluster"
"""The annotation that names the member of an object."""
