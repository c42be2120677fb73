"""The Scale view of objects with replicas."""

from typing import Any

from schemas.manifest import Manifest
from services.apiserver.core import status_errors as status
from services.apiserver.kinds.kind_model import Kind
from services.apiserver.tables.human import NONE, labels
from services.apiserver.tables.human import selector as selector_text

_SHOWN = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def scale_of(kind: Kind, obj: Manifest, *, strict: bool = True) -> Manifest:
    """The autoscaling/v1 Scale of an object; raises 500 where a custom object lacks the declared field."""
    meta = {k: obj["metadata"][k] for k in _SHOWN if k in obj["metadata"]}
    spec_path, status_path, selector_path = _paths(kind)
    replicas = _get(obj, spec_path)
    if replicas is None and strict and kind.custom:
        text = f'the spec replicas field "{spec_path}" does not exist'
        error = status.internal(f"Internal error occurred: {text}")
        error.reason, error.details = "InternalError", {"causes": [{"message": text}]}
        raise error
    shown: Manifest = {"replicas": _get(obj, status_path) or 0}
    selector = _get(obj, selector_path) if selector_path else None
    if isinstance(selector, dict):
        structured = "matchLabels" in selector or "matchExpressions" in selector
        selector = selector_text(selector) if structured else labels(selector)
    if selector and selector != NONE:
        shown["selector"] = selector
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": meta,
        "spec": {"replicas": replicas} if replicas else {},
        "status": shown,
    }


def set_replicas(kind: Kind, obj: Manifest, replicas: int) -> Manifest:
    """Set the replicas field of an object the caller owns."""
    path = _paths(kind)[0].strip(".").split(".")
    node: Any = obj
    for part in path[:-1]:
        node = node.setdefault(part, {})
    node[path[-1]] = replicas
    return obj


def _paths(kind: Kind) -> tuple[str, str, str]:
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
