"""Installs the definitions of our kinds into a control plane, and prints them: `fleetlog crds …`."""

from __future__ import annotations

import asyncio
from typing import Any

from schemas.manifest import Manifest
from services._kit.kube.client import ApiError, KubeClient, resource_path
from services._rules.admission.webhook_configurations import KINDS as CONFIGURATIONS
from services._rules.admission.webhook_configurations import NAME, Target, webhook_configurations, with_conversion
from services._rules.binding_versions import KINDS
from services.cli.common.control_plane import open_control
from services.cli.common.karmadactl_options import ControlPlaneOptions
from services.cli.common.printing import as_json, as_yaml
from services.cli.common.running import Failed, patience
from services.cli.common.waiting import condition, wait_until
from services.cli.installation.webhook_options import WebhookOptions

_PATH = resource_path("apiextensions.k8s.io", "v1", "customresourcedefinitions")


async def apply(target: ControlPlaneOptions, webhook: WebhookOptions, *, everything: bool = False) -> int:
    """Create or update the definitions and wait until they are established; then make it ask the webhook."""
    asked = webhook.target()
    async with open_control(target) as control, patience("waiting until the definitions are established"):
        wanted = wanted_definitions(asked, everything=everything)
        print(f"definitions: {await apply_definitions(control.client, wanted)}")
        if asked is not None:
            print(f"webhooks: {await apply_webhooks(control.client, asked)}")
    return 0


async def show(output: str, webhook: WebhookOptions, *, everything: bool = False) -> int:
    """Print the same as documents that `kubectl apply -f -` takes; raises Failed for an unknown output."""
    asked = webhook.target()
    wanted = wanted_definitions(asked, everything=everything)
    if asked is not None:
        wanted += webhook_configurations(asked)
    if output == "json":
        print(as_json({"apiVersion": "v1", "kind": "List", "items": wanted}), end="")
    elif output == "yaml":
        print("---\n".join(map(as_yaml, wanted)), end="")
    else:
        raise Failed(f"unsupported output {output!r}; use yaml or json")
    return 0


def wanted_definitions(target: Target | None, *, everything: bool) -> list[Manifest]:
    """What is installed: with `everything` also what the gateway serves, bindings converted by the webhook."""
    from services.apiserver.crds.generate import definitions

    if not everything:
        return needed_definitions()
    wanted = [*definitions(optional=False), *definitions(optional=True)]
    if target is None:
        return wanted
    return [with_conversion(crd, target) if crd["spec"]["names"]["kind"] in KINDS else crd for crd in wanted]


async def apply_webhooks(client: KubeClient, target: Target) -> str:
    """Create or update the configurations by which a control plane asks the webhook; says what was done."""
    results = []
    for wanted in webhook_configurations(target):
        path = _configurations(wanted["kind"])
        try:
            await client.create(path, wanted)
            results.append("created")
            continue
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
        present = await client.get(f"{path}/{NAME}")
        metadata = {**wanted["metadata"], "resourceVersion": present["metadata"]["resourceVersion"]}
        await client.update(f"{path}/{NAME}", {**wanted, "metadata": metadata})
        results.append("updated")
    return f"{results.count('created')} created, {results.count('updated')} updated"


async def remove_webhooks(client: KubeClient) -> None:
    """Make a control plane ask no more; nothing happens where it does not."""
    for kind in CONFIGURATIONS.values():
        try:
            await client.delete(f"{_configurations(kind)}/{NAME}")
        except ApiError as error:
            if error.status != 404:
                raise


def _configurations(kind: str) -> str:
    return resource_path("admissionregistration.k8s.io", "v1", f"{kind.lower()}s")


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
