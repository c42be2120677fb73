"""Writes the kubeconfig that kubectl is run with: one context, of the control plane or a proxied member."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from schemas.manifest import Manifest
from services._kit.base.private_files import private_text
from services.cli.common.running import Failed

NAME = "karmadactl"


def one_context(source: Path, kubeconfig: Manifest, context: str, below: str = "") -> Manifest:
    """What a kubeconfig says of one context, with a path of its server that leads to a member; raises Failed."""
    chosen = context or str(kubeconfig.get("current-context") or "")
    entry = _named(kubeconfig, "contexts", "context", chosen, source)
    server = dict(_named(kubeconfig, "clusters", "cluster", entry.get("cluster"), source))
    user = dict(_named(kubeconfig, "users", "user", entry.get("user"), source)) if entry.get("user") else {}
    if not isinstance(server.get("server"), str):
        raise Failed(f"kubeconfig {source}: cluster {entry.get('cluster')} names no server")
    if below:
        server["server"] = server["server"].rstrip("/") + below
    plugin = user.get("exec")
    if isinstance(plugin, dict) and "/" in str(plugin.get("command")):
        user["exec"] = {**plugin, "command": str(source.expanduser().parent.absolute() / plugin["command"])}
    view = {"cluster": NAME, "user": NAME, "namespace": entry.get("namespace") or "default"}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": NAME,
        "contexts": [{"name": NAME, "context": view}],
        "clusters": [{"name": NAME, "cluster": server}],
        "users": [{"name": NAME, "user": user}],
    }


@contextmanager
def written(kubeconfig: Manifest) -> Iterator[Path]:
    """A file with a kubeconfig in a directory of its own, which only this user may read; removed afterwards."""
    directory = Path(tempfile.mkdtemp(prefix="karmadactl-"))
    try:
        path = directory / "kubeconfig"
        private_text(path, msgspec.json.encode(kubeconfig).decode())
        yield path
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _named(kubeconfig: Manifest, section: str, part: str, name: Any, source: Path) -> Manifest:
    for entry in kubeconfig.get(section) or ():
        if isinstance(entry, dict) and entry.get("name") == name and isinstance(entry.get(part), dict):
            found: Manifest = entry[part]
            return found
    raise Failed(f"kubeconfig {source} has no {part} {name!r}; choose a context with --karmada-context")
