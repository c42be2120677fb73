"""Prints objects of members: as a table with the member of each, as a list for programs, or as names."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from msgspec import Struct

from schemas.manifest import Manifest
from services.cli.common.printing import as_json, as_yaml, ending_of, table
from services.cli.common.running import complain
from services.search.index.object_shapes import images_of
from services.search.querying.query_matches import values_of


class FoundObject(Struct, frozen=True):
    """An object and the member that has it."""

    cluster: str
    manifest: Manifest


def show(found: list[FoundObject], output: str) -> None:
    """Print objects in the form that was chosen."""
    if output in ("json", "yaml"):
        whole: dict[str, Any] = {"apiVersion": "v1", "kind": "List", "metadata": {}}
        whole["items"] = [each.manifest for each in found]
        print((as_json if output == "json" else as_yaml)(whole), end="")
        return
    if not found:
        complain("no object was found; docs/search.md says what is searched")
        return
    if output == "name":
        for each in found:
            place = (each.cluster, each.manifest["metadata"].get("namespace"), ending_of(each.manifest))
            print("/".join(filter(None, place)))
        return
    now = datetime.now(UTC)  # noqa: TID251 - a command
    headers = ["cluster", "namespace", "kind", "name", "status", "age"]
    wide = output == "wide"
    if wide:
        headers += ["node", "images"]
    print(table(headers, (_row(each, now, wide=wide) for each in found)), end="")


def _row(each: FoundObject, now: datetime, *, wide: bool) -> list[object]:
    manifest = each.manifest
    metadata = manifest["metadata"]
    row = [each.cluster, metadata.get("namespace"), manifest.get("kind"), metadata.get("name")]
    row += [_status(manifest), _age(metadata.get("creationTimestamp"), now)]
    if wide:
        row += [next(iter(values_of(manifest, "node")), ""), ",".join(images_of(manifest))]
    return row


def _status(manifest: Manifest) -> str:
    """The phase; else how many replicas are ready; else whether it is ready."""
    phase = next(iter(values_of(manifest, "phase")), "")
    if phase:
        return phase
    wanted, ready = (next(iter(values_of(manifest, path)), "") for path in (".spec.replicas", ".status.readyReplicas"))
    if wanted:
        return f"{ready or 0}/{wanted} ready"
    return {"true": "ready", "false": "not ready"}.get(next(iter(values_of(manifest, "ready")), ""), "")


def _age(created: object, now: datetime) -> str:
    try:
        seconds = (now - datetime.fromisoformat(str(created))).total_seconds()
    except (ValueError, TypeError):
        return ""
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * size:
            return f"{int(seconds // size)}{unit}"
    return f"{max(0, int(seconds))}s"
