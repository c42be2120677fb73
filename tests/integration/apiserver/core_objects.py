"""The objects of the tests of verbs, where they are, and waiting for what they are answered."""

from __future__ import annotations

import asyncio
from typing import Any

CM = "/api/v1/namespaces/default/configmaps"
DEPLOY = "/apis/apps/v1/namespaces/default/deployments"
APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"


def config(name: str, **data: str) -> dict[str, Any]:
    """A ConfigMap with these data."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def deployment(name: str, replicas: int = 1) -> dict[str, Any]:
    """A Deployment of one container."""
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


async def until_answered(client: Any, path: str, code: int) -> None:
    """Wait until reading is answered with this code."""
    async with asyncio.timeout(60):
        while (await client("GET", path))[0] != code:  # noqa: ASYNC110 - only reading shows it
            await asyncio.sleep(0.005)


async def until_gone(client: Any, path: str) -> None:
    """Wait until an object is there no more."""
    await until_answered(client, path, 404)
