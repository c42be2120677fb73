"""Opens the cluster that a command runs in, or the one of a kubeconfig."""

from __future__ import annotations

import base64
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from schemas.manifest import Manifest
from services._kit.kube.client import KubeClient
from services.cli.common.control_plane import client_of, kubeconfig_path
from services.cli.common.running import Failed

ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where a pod finds the token of its ServiceAccount."""


@asynccontextmanager
async def opened_host(kubeconfig: str, context: str = "") -> AsyncIterator[KubeClient]:
    """A client of a kubeconfig's cluster, or of the one around this pod if empty; raises Failed where there is none."""
    if kubeconfig:
        path = kubeconfig_path(kubeconfig)
        client = await client_of(path, path, context)
    else:
        client = await client_of(ACCOUNT, of_pod(os.environ, ACCOUNT), "")
    try:
        yield client
    finally:
        await client.close()


def of_pod(environment: Mapping[str, str], account: Path) -> Manifest:
    """A kubeconfig with the token of a pod's ServiceAccount; raises Failed outside of a pod."""
    host, port = environment.get("KUBERNETES_SERVICE_HOST", ""), environment.get("KUBERNETES_SERVICE_PORT", "443")
    try:
        token = (account / "token").read_text(encoding="ascii").strip()
        authority = (account / "ca.crt").read_bytes()
    except OSError as error:
        raise Failed(
            f"this is no pod with a ServiceAccount's token ({error.strerror}); name the cluster with --kubeconfig"
        ) from None
    if not host:
        raise Failed("KUBERNETES_SERVICE_HOST is not set; name the cluster with --kubeconfig")
    address = f"[{host}]" if ":" in host else host
    bundle = base64.b64encode(authority).decode()
    return {
        "clusters": [
            {"name": "pod", "cluster": {"server": f"https://{address}:{port}", "certificate-authority-data": bundle}}
        ],
        "users": [{"name": "pod", "user": {"token": token}}],
        "contexts": [{"name": "pod", "context": {"cluster": "pod", "user": "pod"}}],
        "current-context": "pod",
    }
