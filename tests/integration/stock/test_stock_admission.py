"""A control plane without rules of its own asks the webhook that `up` runs: defaults, refusals, protection."""

from __future__ import annotations

from typing import Any

import pytest

from services._kit.kube.client import ApiError, KubeClient, resource_path
from services._rules import constants as const
from tests.integration.stock.walking import POLICIES, found
from tests.support.waiting import comes_to

pytestmark = pytest.mark.xdist_group("stock")


def policy(name: str, **spec: Any) -> dict[str, Any]:
    selectors = [{"apiVersion": "v1", "kind": "ConfigMap", "name": name}]
    return {
        "apiVersion": const.POLICY_API,
        "kind": "PropagationPolicy",
        "metadata": {"name": name},
        "spec": {"resourceSelectors": selectors, "placement": {"spreadConstraints": [{"maxGroups": 2}]}, **spec},
    }


async def test_policies_are_defaulted_and_released(control: KubeClient) -> None:
    path = resource_path(*POLICIES, "default")
    made = await control.create(path, policy("admitted"))
    assert made["metadata"]["labels"][const.PROPAGATION_POLICY_ID_LABEL]
    assert made["metadata"]["finalizers"] == [const.PROPAGATION_POLICY_FINALIZER]
    assert made["spec"]["resourceSelectors"][0]["namespace"] == "default"
    await control.delete(f"{path}/admitted")

    async def gone() -> bool:
        return await found(control, f"{path}/admitted") is None

    await comes_to("the policy is released by the detector", gone, True)


async def test_a_policy_that_breaks_a_rule_is_refused(control: KubeClient) -> None:
    wrong = policy("refused", resourceSelectors=[{"apiVersion": "v1", "kind": "ConfigMap"}], preemption="Always")
    with pytest.raises(ApiError) as refused:
        await control.create(resource_path(*POLICIES, "default"), wrong)
    assert (refused.value.status, refused.value.reason) == (403, "Forbidden")
    assert 'webhook "propagationpolicy.karmada.io" denied the request: spec.resourceSelectors[0].name' in str(
        refused.value
    )
