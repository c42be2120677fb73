"""A kubeconfig as commands and services are given it."""

from __future__ import annotations

from typing import Any


def kubeconfig(server: str, user: dict[str, Any] | None = None, **cluster: Any) -> dict[str, Any]:
    """One context `ctx` of the cluster `c` and the user `me`; `_` in names of the cluster's fields stands for `-`."""
    fields = {name.replace("_", "-"): value for name, value in cluster.items()}
    return {
        "current-context": "ctx",
        "contexts": [{"name": "ctx", "context": {"cluster": "c", "user": "me"}}],
        "clusters": [{"name": "c", "cluster": {"server": server, **fields}}],
        "users": [{"name": "me", "user": user or {}}],
    }
