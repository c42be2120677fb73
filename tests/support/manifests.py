"""Short manifests of Kubernetes' own kinds, as users write them."""

from __future__ import annotations

from typing import Any

from schemas.manifest import Manifest


def manifest(api_version: str, kind: str, name: str, namespace: str = "default", **parts: Any) -> Manifest:
    """An object; `labels` goes to its metadata, and an empty namespace is left out."""
    metadata: Manifest = {"name": name}
    if namespace:
        metadata["namespace"] = namespace
    if "labels" in parts:
        metadata["labels"] = parts.pop("labels")
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **parts}


def container(image: str = "web:1", **parts: Any) -> Manifest:
    """One container."""
    return {"name": "web", "image": image, **parts}


def pod_spec(image: str = "web:1", **parts: Any) -> Manifest:
    """The spec of a pod of one container."""
    return {"containers": [container(image)], **parts}


def workload(kind: str, name: str, replicas: int | None = 1, image: str = "web:1", **parts: Any) -> Manifest:
    """A Deployment, ReplicaSet, StatefulSet or DaemonSet (`replicas` None)."""
    labels = {"app": name}
    spec: Manifest = {
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": pod_spec(image)},
    }
    if replicas is not None:
        spec["replicas"] = replicas
    return manifest("apps/v1", kind, name, spec={**spec, **parts.pop("spec", {})}, **parts)
