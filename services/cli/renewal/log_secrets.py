"""Hands accounts and passwords of the log to an installation in a cluster, whose pods read them out of Secrets."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Final

from services._kit.kube.client import ApiError, KubeClient, Unreachable, resource_path
from services.cli.common.running import Failed

ACCOUNTS_SECRET: Final = "fleetlog-nats-accounts"
"""The Secret with the accounts that the log's servers know."""
ACCOUNTS_KEY: Final = "accounts.conf"


async def check_accounts(host: KubeClient, namespace: str, password: str) -> None:
    """Raises Failed where the cluster is not reached, or its accounts are not those with this password of the hub."""
    path = resource_path("", "v1", "secrets", namespace, ACCOUNTS_SECRET)
    try:
        found = (await host.get(path)).get("data") or {}
    except Unreachable as error:
        raise Failed(f"{error}; nothing was changed") from None
    except ApiError as error:
        if error.status == 404:
            return
        raise Failed(f"Secret {ACCOUNTS_SECRET} cannot be read: {error.message}; nothing was changed") from None
    if password not in base64.b64decode(found.get(ACCOUNTS_KEY, "")).decode():
        raise Failed(
            f"Secret {ACCOUNTS_SECRET} of namespace {namespace} was not made from this directory; give the --out of "
            "that installation. Nothing was changed"
        )


async def write_secret(host: KubeClient, namespace: str, name: str, texts: Mapping[str, str]) -> str:
    """Create a Secret, or give it these keys, others stay; what was done. Raises Failed."""
    place = resource_path("", "v1", "secrets", namespace)
    try:
        try:
            await host.patch(f"{place}/{name}", {"stringData": dict(texts)})
        except ApiError as error:
            if error.status != 404:
                raise
            metadata = {"name": name, "namespace": namespace}
            await host.create(
                place,
                {
                    "apiVersion": "v1",
                    "kind": "Secret",
                    "metadata": metadata,
                    "type": "Opaque",
                    "stringData": dict(texts),
                },
            )
            return "created"
    except (ApiError, Unreachable) as error:
        why = error.message if isinstance(error, ApiError) else str(error)
        raise Failed(f"Secret {name} of namespace {namespace} cannot be written: {why}") from None
    return "written"
