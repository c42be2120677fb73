"""A ground that holds a thousand templates, delivered to every member at its start and kept across rounds."""

from __future__ import annotations

import asyncio
from typing import Final

from services._kit.kube.client import KubeClient, resource_path
from tests.e2e.space import propagation
from tests.faults.ground import Ground, Unavailable
from tests.faults.rounds import Eyes, settled

NAMESPACE: Final = "thousand"
COUNT: Final = 1000
NAMES: Final = tuple(f"template-{number:04d}" for number in range(COUNT))
_AT_ONCE: Final = 32
_PATIENCE: Final = 120.0


def path(name: str = "", namespace: str = NAMESPACE) -> str:
    """URL path of the templates, or of one."""
    return resource_path("", "v1", "configmaps", namespace, name)


def policies(plural: str) -> str:
    """URL path of policies of a kind beside the templates."""
    return resource_path("policy.karmada.io", "v1alpha1", plural, NAMESPACE)


class Thousand(Ground):
    """Three members, a thousand ConfigMaps that all of them hold; some are poison while a round lasts."""

    def start(self) -> None:
        """Start it and wait until every member holds every template; raises Unavailable when they do not get there."""
        super().start()
        asyncio.run(self._fill())

    async def _fill(self) -> None:
        async with Eyes(self.fleet) as eyes:
            await _create(eyes.control)

            async def look() -> list[str]:
                return [
                    f"{member} holds {len(held)} of {COUNT} templates"
                    for member, held in (await contents(eyes)).items()
                    if len(held) < COUNT
                ]

            missing = await settled(look, _PATIENCE)
            if missing:
                raise Unavailable("; ".join(missing))

    def expected(self, line: str) -> bool:
        """What is poison on purpose."""
        return f"/{NAMESPACE}/" in line or f".{NAMESPACE}." in line


async def _create(control: KubeClient) -> None:
    await control.create(
        "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    )
    policy = propagation("everywhere", [{"apiVersion": "v1", "kind": "ConfigMap"}], {})
    await control.create(policies("propagationpolicies"), policy)
    free = asyncio.Semaphore(_AT_ONCE)

    async def create(name: str) -> None:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"round": "none"}}
        async with free:
            await control.create(path(), body)

    async with asyncio.TaskGroup() as group:
        for name in NAMES:
            group.create_task(create(name))


async def contents(eyes: Eyes) -> dict[str, dict[str, str]]:
    """By member: the round that each of its templates was changed in last."""

    async def one(client: KubeClient) -> dict[str, str]:
        items = (await client.get(path()))["items"]
        return {
            item["metadata"]["name"]: (item.get("data") or {}).get("round", "")
            for item in items
            if item["metadata"]["name"] in _KNOWN
        }

    found = await asyncio.gather(*(one(client) for client in eyes.members.values()))
    return dict(zip(eyes.members, found, strict=True))


_KNOWN: Final = frozenset(NAMES)
