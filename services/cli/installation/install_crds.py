"""Installs the definitions of our kinds into a control plane, and prints them: `fleetlog crds …`."""

from __future__ import annotations

import asyncio
from typing import Any

from schemas.manifest import Manifest
from services._kit.kube.client import ApiError, KubeClient, resource_path
from services.cli.common.control_plane import open_control
from services.cli.common.karmadactl_options import ControlPlaneOptions
from services.cli.common.printing import as_json, as_yaml
from services.cli.common.running import Failed, patience
from services.cli.common.waiting import condition, wait_until

_PATH = resource_path("apiextensions.k8s.io", "v1", "customresourcedefinitions")


async def apply(target: ControlPlaneOptions) -> int:
    """Create or update the definitions and wait until they are established."""
    async with open_control(target) as control, patience("waiting until the definitions are established"):
        print(f"definitions: {await apply_definitions(control.client, needed_definitions())}")
    return 0


async def show(output: str = "yaml") -> int:
    """Print the definitions as documents that `kubectl apply -f -` takes; raises Failed for an unknown output."""
    wanted = needed_definitions()
    if output == "json":
        print(as_json({"apiVersion": "v1", "kind": "List", "items": wanted}), end="")
    elif output == "yaml":
        print("---\n".join(map(as_yaml, wanted)), end="")
    else:
        raise Failed(f"unsupported output {output!r}; use yaml or json")
    return 0


def needed_definitions() -> list[Manifest]:
    """The CustomResourceDefinitions of a control plane: all our kinds but those the gateway serves from the log."""
    from services.apiserver.crds.generate import definitions

    clusters = [crd for crd in definitions(optional=True) if crd["spec"]["names"]["kind"] == "Cluster"]
    return [*definitions(optional=False), *clusters]


async def apply_definitions(client: KubeClient, wanted: list[Manifest]) -> str:
    """Create or update every definition and wait until it is established; says what was done."""
    listed = await client.get(_PATH)
    present = {item["metadata"]["name"]: item for item in listed.get("items") or ()}
    results = await asyncio.gather(*(_apply(client, crd, present.get(crd["metadata"]["name"])) for crd in wanted))
    await asyncio.gather(*(_until_established(client, crd["metadata"]["name"]) for crd in wanted))
    created, updated = results.count("created"), results.count("updated")
    return f"{created} created, {updated} updated, {len(wanted) - created - updated} unchanged"


async def _apply(client: KubeClient, crd: Manifest, present: Manifest | None) -> str:
    if present is None:
        try:
            await client.create(_PATH, crd)
            return "created"
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
            present = await client.get(f"{_PATH}/{crd['metadata']['name']}")
    if _covers(present["spec"], crd["spec"]):
        return "unchanged"
    metadata = {**crd["metadata"], "resourceVersion": present["metadata"]["resourceVersion"]}
    await client.update(f"{_PATH}/{crd['metadata']['name']}", {**crd, "metadata": metadata})
    return "updated"


def _covers(present: Any, wanted: Any) -> bool:
    """Whether everything wanted is there; servers add defaults."""
    if isinstance(wanted, dict):
        return isinstance(present, dict) and all(_covers(present.get(name), value) for name, value in wanted.items())
    if isinstance(wanted, list):
        return (
            isinstance(present, list)
            and len(present) == len(wanted)
            and all(_covers(one, other) for one, other in zip(present, wanted, strict=True))
        )
    return bool(present == wanted)


async def _until_established(client: KubeClient, name: str) -> None:
    async def look() -> str:
        crd = await client.get(f"{_PATH}/{name}")
        return "" if condition(crd, "Established").get("status") == "True" else "not established yet"

    await wait_until(f"definition {name}", look, 30.0)
