"""A deleted policy in a control plane with services: its finalizer goes with its last claim, copies stay."""

from __future__ import annotations

from pathlib import Path

from services._kit.kube.client import ApiError, resource_path
from services._rules import constants as const
from tests.integration.identity.ground import POLICY, ground
from tests.support.waiting import eventually

POLICIES = resource_path("policy.karmada.io", "v1alpha1", "propagationpolicies", "shop")
CONFIGMAPS = resource_path("", "v1", "configmaps", "shop")


async def test_a_deleted_policy_disappears_with_its_claims(tmp_path: Path) -> None:
    async with ground(tmp_path) as (_, control, member):
        path = f"{POLICIES}/{POLICY['metadata']['name']}"
        made = await control.client.get(path)
        assert made["metadata"]["finalizers"] == [const.PROPAGATION_POLICY_FINALIZER]
        before = await member.held()

        async def claimed() -> set[str]:
            listed = await control.client.get(CONFIGMAPS)
            identity = made["metadata"]["labels"][const.PROPAGATION_POLICY_ID_LABEL]
            metadata = [item["metadata"] for item in listed["items"]]
            label = const.PROPAGATION_POLICY_ID_LABEL
            return {one["name"] for one in metadata if (one.get("labels") or {}).get(label) == identity}

        async def all_claimed() -> bool:
            return len(await claimed()) == 10

        async def gone() -> bool:
            try:
                await control.client.get(path)
            except ApiError as error:
                return error.status == 404
            return False

        async def released() -> bool:
            return not await claimed()

        await eventually(all_claimed, "ten claims")
        await control.client.delete(path)
        await eventually(gone, "the policy to disappear")
        await eventually(released, "no claims")
        assert await member.held() == before
