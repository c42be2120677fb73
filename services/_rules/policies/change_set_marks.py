"""The annotation that makes objects members of one change set: the detector takes them together (docs/foresight.md)."""

from __future__ import annotations

import re
from typing import Final

from schemas.manifest import Manifest

CHANGE_SET: Final = "fleetlog.io/change-set"
"""`<id>/<count>`: which set an object was written with last, and how many members of it the detector watches."""
_MARK: Final = re.compile(r"([A-Za-z0-9-]{1,64})/([1-9][0-9]{0,3})")


def marked(manifest: Manifest, set_id: str, count: int) -> Manifest:
    """The manifest as a member of a set."""
    metadata = manifest["metadata"]
    annotations = {**(metadata.get("annotations") or {}), CHANGE_SET: f"{set_id}/{count}"}
    return {**manifest, "metadata": {**metadata, "annotations": annotations}}


def mark_of(manifest: Manifest | None) -> tuple[str, int] | None:
    """Id and count of the set that an object was written with; None for none that can be read."""
    value = (((manifest or {}).get("metadata") or {}).get("annotations") or {}).get(CHANGE_SET)
    found = _MARK.fullmatch(value) if isinstance(value, str) else None
    return (found[1], int(found[2])) if found is not None else None
