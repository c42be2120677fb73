"""Admission by ServiceAccounts: every pod has one that exists, its pull secrets, and a volume with its token."""

from __future__ import annotations

import asyncio
import random
from typing import Final

from schemas.manifest import Manifest
from services.apiserver.admission.chain import Attributes, forbidden
from services.apiserver.store.store_port import Key, Store

DEFAULT: Final = "default"
MOUNT_PATH: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
VOLUME_PREFIX: Final = "kube-api-access-"
_MIRROR: Final = "kubernetes.io/config.mirror"
_SUFFIX: Final = "bcdfghjklmnpqrstvwxz2456789"
_TOKEN_SECONDS: Final = 3607
_TRIES: Final = 10
_PAUSE_SECONDS: Final = 0.1
"""How often and in what steps the default account of a namespace is waited for: a new namespace gets it in a moment."""


class ServiceAccountPods:
    """Completes new pods; for clusters that run them, not for a control plane in which pods are templates."""

    resources = frozenset({"/pods"})
    operations = frozenset({"CREATE"})

    def __init__(self, store: Store) -> None:
        self._store = store

    async def mutate(self, attributes: Attributes) -> None:
        """Name the account and mount its token; raises ApiError 403 for an account that does not exist."""
        new = attributes.new
        if new is None or attributes.subresource or _MIRROR in (new["metadata"].get("annotations") or {}):
            return
        spec = new["spec"]
        name = spec.get("serviceAccountName") or DEFAULT
        spec["serviceAccountName"] = spec["serviceAccount"] = name
        account = await self._account(attributes.namespace, name)
        if account is None:
            text = f"error looking up service account {attributes.namespace}/{name}: "
            raise forbidden(attributes, f'{text}serviceaccount "{name}" not found')
        wanted = spec.get("automountServiceAccountToken")
        if wanted is None:
            wanted = account.get("automountServiceAccountToken")
        if wanted is not False:
            _mount(spec)
        if not spec.get("imagePullSecrets") and account.get("imagePullSecrets"):
            spec["imagePullSecrets"] = [dict(one) for one in account["imagePullSecrets"]]

    async def _account(self, namespace: str, name: str) -> Manifest | None:
        for number in range(_TRIES if name == DEFAULT else 1):
            if number:
                await asyncio.sleep(_PAUSE_SECONDS)
            entry = self._store.get(Key("", "serviceaccounts", namespace, name))
            if entry is not None:
                return entry.obj
        return None

    async def validate(self, attributes: Attributes) -> None:
        """Refuse a mirror of a static pod with an account, whose token nothing could give it; raises ApiError 403."""
        new = attributes.new
        if new is None or attributes.subresource or _MIRROR not in (new["metadata"].get("annotations") or {}):
            return
        if new["spec"].get("serviceAccountName"):
            raise forbidden(attributes, "a mirror pod may not reference service accounts")


def _mount(spec: Manifest) -> None:
    """Mount the token where a container has nothing at its place."""
    containers = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    bare = [
        container
        for container in containers
        if not any(mount.get("mountPath") == MOUNT_PATH for mount in container.get("volumeMounts") or ())
    ]
    if not bare:
        return
    volumes = list(spec.get("volumes") or ())
    name = next((one["name"] for one in volumes if one.get("name", "").startswith(VOLUME_PREFIX)), "")
    if not name:
        name = VOLUME_PREFIX + "".join(random.choices(_SUFFIX, k=5))
        spec["volumes"] = [*volumes, _volume(name)]
    for container in bare:
        mount = {"name": name, "readOnly": True, "mountPath": MOUNT_PATH}
        container["volumeMounts"] = [*(container.get("volumeMounts") or ()), mount]


def _volume(name: str) -> Manifest:
    namespace = {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
    sources = [
        {"serviceAccountToken": {"expirationSeconds": _TOKEN_SECONDS, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [namespace]}},
    ]
    return {"name": name, "projected": {"sources": sources, "defaultMode": 420}}
