"""Opens a client to a member from its Cluster object and the Secret it names (reference 03 §6.3)."""

from __future__ import annotations

import base64
from typing import Any

from services._kit.kube import KubeClient, resource_path

Manifest = dict[str, Any]


async def open_member(control: KubeClient, spec: Manifest) -> KubeClient:
    """A client of the member that a Cluster spec describes (reference 03 §6.3).

    Raises ValueError where the spec or its Secret lacks something, ApiError and Unreachable from the control plane.
    """
    endpoint = spec.get("apiEndpoint")
    ref = spec.get("secretRef") or {}
    if not endpoint:
        raise ValueError("spec.apiEndpoint of the Cluster is empty; join it again")
    if not ref.get("name"):
        raise ValueError("spec.secretRef of the Cluster is empty; join it again")
    secret = await control.get(resource_path("", "v1", "secrets", ref.get("namespace", ""), ref["name"]))
    data = {key: base64.b64decode(value).decode() for key, value in (secret.get("data") or {}).items()}
    insecure = bool(spec.get("insecureSkipTLSVerification"))
    place = f"Secret {ref.get('namespace', '')}/{ref['name']}"
    if not data.get("token") and not data.get("clientCert"):
        raise ValueError(f"{place} has neither token nor clientCert; join the cluster again")
    if not insecure and endpoint.startswith("https") and not data.get("caBundle"):
        raise ValueError(f"{place} has no caBundle; set insecureSkipTLSVerification or add it")
    return KubeClient.from_token(
        endpoint,
        data.get("token", ""),
        ca_pem="" if insecure else data.get("caBundle", ""),
        insecure=insecure,
        client_pem=(data["clientCert"], data["clientKey"]) if not data.get("token") else None,
    )
