"""Says why the log knows nothing of an object or an autoscaler, by what the control plane holds."""

from __future__ import annotations

from collections.abc import Sequence

from schemas.keys import ObjectKey, PolicyKey
from schemas.manifest import Manifest
from services._kit.kube.client import ApiError, KubeClient, Unreachable, resource_path
from services._rules.constants import AUTOSCALING_API
from services._rules.policies.selection_diagnosis import Name, why_unclaimed
from services.cli.common.control_plane import open_control
from services.cli.common.karmadactl_options import ControlPlaneOptions
from services.cli.common.running import Failed
from services.cli.objects.kind_lookup import discover, find

_GROUP = "policy.karmada.io"
_CLAIM = "a policy has to claim it (kubectl get propagationpolicies)"


async def unclaimed(target: ControlPlaneOptions, key: ObjectKey) -> str:
    """The reason in words; the general one where the control plane does not tell."""
    try:
        async with open_control(target) as control:
            return await _reason(control.client, key)
    except (ApiError, Unreachable, Failed):
        return _CLAIM


async def undecided(target: ControlPlaneOptions, key: PolicyKey, known: Sequence[str]) -> str:
    """Why the log holds no decision of a FederatedHPA: it does not exist, or the autoscaler has not come to it.

    `known` are the names of those in its namespace that it does hold decisions of.
    """
    group, version = AUTOSCALING_API.split("/")
    path = resource_path(group, version, "federatedhpas", key.namespace, key.name)
    others = f"; known in namespace {key.namespace}: {', '.join(sorted(known)[:10]) or 'none'}"
    try:
        async with open_control(target) as control:
            await control.client.get(path)
    except ApiError as error:
        if error.status == 404:
            return f"there is no {key}{others}"
        return f"the log holds no decision about {key} ({error}){others}"
    except (Unreachable, Failed) as error:
        return f"the log holds no decision about {key}, and the control plane does not answer ({error}){others}"
    return f"nothing is on the log about {key} yet: is the autoscaler running? `fleetlog status` shows it"


async def _reason(client: KubeClient, key: ObjectKey) -> str:
    resource = find(await discover(client), f"{key.resource}.{key.group}" if key.group else key.resource)
    try:
        obj = await client.get(resource_path(resource.group, resource.version, resource.name, key.namespace, key.name))
    except ApiError as error:
        if error.status != 404:
            raise
        return "it does not exist in the control plane either"
    policies = [
        {"kind": kind, **policy}
        for kind in ("PropagationPolicy", "ClusterPropagationPolicy")
        for policy in await _listed(client, kind)
    ]
    overrides: set[Name] = set()
    for kind in ("OverridePolicy", "ClusterOverridePolicy"):
        for item in await _listed(client, kind):
            overrides.add((kind, item["metadata"].get("namespace") or "", item["metadata"]["name"]))
    return "; ".join(why_unclaimed(obj, policies, overrides))


async def _listed(client: KubeClient, kind: str) -> list[Manifest]:
    plural = f"{kind[:-1].lower()}ies"
    found: list[Manifest] = (await client.get(resource_path(_GROUP, "v1alpha1", plural))).get("items") or []
    return found
