"""Finds the control plane of a command: kubeconfig, context and namespace as kubectl chooses them."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from schemas.manifest import Manifest
from services._kit.kube.client import KubeClient
from services.cli.common.installation_search import find_kubeconfig
from services.cli.common.karmadactl_options import DEFAULT_NAMESPACE, ControlPlaneOptions
from services.cli.common.running import Failed


class NoKubeconfig(Failed):
    """None was named, and none is where one is looked for."""


class Control:
    """An open control plane; `namespace` is the context's, or `default`."""

    def __init__(self, client: KubeClient, namespace: str) -> None:
        self.client = client
        self.namespace = namespace


def kubeconfig_path(chosen: str) -> Path:
    """The kubeconfig to use; raises Failed when there is none.

    The option comes first; for the rest see find_kubeconfig.
    """
    if chosen:
        path = Path(chosen).expanduser()
        if not path.is_file():
            why = "is no file" if path.exists() else "does not exist"
            raise Failed(f"kubeconfig {path} {why}; give another one with --kubeconfig")
        return path
    found, looked = find_kubeconfig()
    if found is None:
        raise NoKubeconfig(f"no kubeconfig found (looked at {looked}); give the control plane's with --kubeconfig")
    return found


def read_kubeconfig(path: Path) -> Manifest:
    """A kubeconfig with the files it names made absolute; raises Failed where it is none."""
    try:
        loaded = _decoded(path.expanduser().read_text(encoding="utf-8"))
    except OSError as error:
        raise Failed(f"kubeconfig {path}: {error.strerror or error}") from None
    except ValueError as error:
        raise Failed(f"kubeconfig {path} is no YAML: {error}") from None
    if not isinstance(loaded, dict) or not isinstance(loaded.get("clusters"), list):
        raise Failed(f"{path} is no kubeconfig: it has no list of clusters")
    for section, part, fields in (
        ("clusters", "cluster", ("certificate-authority",)),
        ("users", "user", ("client-certificate", "client-key", "tokenFile")),
    ):
        for entry in loaded.get(section) or ():
            body = entry.get(part) or {}
            for field in fields:
                if body.get(field):
                    body[field] = str(path.expanduser().parent / body[field])
    return loaded


def _decoded(text: str) -> Any:
    """What a text in JSON or YAML says; raises ValueError."""
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        # Ours are JSON, and loading what reads YAML takes a moment.
        import yaml

    try:
        return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from None


def namespace_of(kubeconfig: Manifest, context: str = "") -> str:
    """The namespace that a context names, or `default`; raises Failed for a context that is not there."""
    chosen = context or kubeconfig.get("current-context") or ""
    for entry in kubeconfig.get("contexts") or ():
        if entry.get("name") == chosen:
            return str((entry.get("context") or {}).get("namespace") or DEFAULT_NAMESPACE)
    if context:
        names = ", ".join(str(entry.get("name")) for entry in kubeconfig.get("contexts") or ()) or "none"
        raise Failed(f"the kubeconfig has no context {context!r}; it has {names}")
    return DEFAULT_NAMESPACE


async def client_of(path: Path, source: Path | Manifest, context: str) -> KubeClient:
    """A client of what a kubeconfig (its file, or decoded) names; raises Failed for one that cannot be used."""
    try:
        return await KubeClient.from_kubeconfig(source, context=context or None)
    except ssl.SSLError as error:
        raise Failed(f"kubeconfig {path}: certificate, key or authority cannot be read: {error}") from None
    except Exception as error:
        # The loader has errors of its own, one per thing a kubeconfig can lack.
        raise Failed(f"kubeconfig {path}: {error}") from error


@asynccontextmanager
async def open_control(target: ControlPlaneOptions) -> AsyncIterator[Control]:
    """The control plane that the options name, closed afterwards; raises Failed when there is none."""
    path = kubeconfig_path(target.kubeconfig)
    namespace = namespace_of(read_kubeconfig(path), target.context)
    client = await client_of(path, path, target.context)
    try:
        yield Control(client, namespace)
    finally:
        await client.close()
