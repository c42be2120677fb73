"""The objects of the tests of verbs, where they are, and waiting for what they are answered."""

from __future__ import annotations

from typing import Any

from tests.support.waiting import NotYet, eventually

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

    async def look() -> bool:
        found, answer = await client("GET", path)
        if found != code:
            raise NotYet(f"{found} {answer}")
        return True

    await eventually(look, f"{path} is answered with {code}")


async def until_gone(client: Any, path: str) -> None:
    """Wait until an object is there no more."""
    await until_answered(client, path, 404)
