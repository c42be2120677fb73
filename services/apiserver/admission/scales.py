"""The Scale of an object: what its subresource of that name shows, and where its replicas are."""

from __future__ import annotations

from typing import Any

from schemas.manifest import Manifest
from services.apiserver.core import status_errors as status
from services.apiserver.kinds.kind_model import Kind
from services.apiserver.tables.human import NONE, labels, selector

_SCALE_METADATA = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def scale_of(kind: Kind, obj: Manifest, *, strict: bool = True) -> Manifest:
    """The autoscaling/v1 Scale of an object; raises 500 where a custom object lacks the declared field."""
    meta = {k: obj["metadata"][k] for k in _SCALE_METADATA if k in obj["metadata"]}
    spec_path, status_path, selector_path = _replica_paths(kind)
    replicas = _get(obj, spec_path)
    if replicas is None and strict and kind.custom:
        text = f'the spec replicas field "{spec_path}" does not exist'
        error = status.internal(f"Internal error occurred: {text}")
        error.reason, error.details = "InternalError", {"causes": [{"message": text}]}
        raise error
    shown: Manifest = {"replicas": _get(obj, status_path) or 0}
    chosen = _get(obj, selector_path) if selector_path else None
    if isinstance(chosen, dict):
        structured = "matchLabels" in chosen or "matchExpressions" in chosen
        chosen = selector(chosen) if structured else labels(chosen)
    if chosen and chosen != NONE:
        shown["selector"] = chosen
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": meta,
        "spec": {"replicas": replicas} if replicas else {},
        "status": shown,
    }


def set_replicas(kind: Kind, obj: Manifest, replicas: int) -> Manifest:
    """Set the replicas field of an object the caller owns."""
    path = _replica_paths(kind)[0].strip(".").split(".")
    node: Any = obj
    for part in path[:-1]:
        node = node.setdefault(part, {})
    node[path[-1]] = replicas
    return obj


def _replica_paths(kind: Kind) -> tuple[str, str, str]:
    found = getattr(kind, "scale", None)
    if found is not None:
        if isinstance(found, dict):
            return found["specReplicasPath"], found["statusReplicasPath"], found.get("labelSelectorPath") or ""
        return found.spec_path, found.status_path, found.selector_path
    return ".spec.replicas", ".status.replicas", ".spec.selector"


def _get(obj: Manifest, path: str) -> Any:
    node: Any = obj
    for part in path.strip(".").split("."):
        if not isinstance(node, dict):
            return None
        node = node.get(part)
    return node
