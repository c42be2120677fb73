"""Which version of a policy or template is restored, and what is written for it."""

from __future__ import annotations

import pytest

from schemas.codec import Known
from schemas.events.policy import PolicyChanged, PolicyDeleted
from schemas.keys import PolicyKey
from schemas.manifest import Manifest
from services._rules.admission.radius_guard import CONFIRM_RADIUS
from services._rules.constants import PROPAGATION_POLICY_ID_LABEL
from services._rules.policies.policy_claims import Claim, claim_template
from services.cli.common.running import Failed
from services.cli.foresight.earlier_versions import Version, chosen, content, manifest_of, restored, versions_of
from tests.support.detector_harness import policy
from tests.support.facts import KEY, deployment, raw
from tests.support.memory_installation import MemoryInstallation

WEB = PolicyKey("PropagationPolicy", "default", "web")


def written(priority: int, *, deleting: bool = False) -> PolicyChanged:
    """A fact about the policy with a priority."""
    return PolicyChanged(key=WEB, uid="u1", manifest=raw(policy("web", priority=priority)), deleting=deleting)


async def known(*events: Known) -> tuple[MemoryInstallation, list[Version]]:
    installation = MemoryInstallation()
    await installation.given(*events)
    return installation, await versions_of(installation.logs, WEB)


async def test_versions_are_read_in_order_with_their_end() -> None:
    gone = PolicyDeleted(key=WEB, uid="u1", reason="deleted")
    installation, found = await known(written(1), written(2), written(2, deleting=True), gone)
    assert [(version.position, version.event is None) for version in found] == [(1, False), (2, False), (4, True)]
    assert (await manifest_of(installation.logs, found[1]))["spec"]["priority"] == 2


async def test_version_is_chosen_by_position_and_time() -> None:
    gone = PolicyDeleted(key=WEB, uid="u1", reason="deleted")
    _, found = await known(written(1), written(2), gone, written(3))
    assert chosen(found, "2", 0.0, "pp/web").position == 2
    assert chosen(found, "0s", found[-1].time + 1, "pp/web").position == 4
    with pytest.raises(Failed, match="did not exist then: it was deleted at #3"):
        chosen(found, "3", 0.0, "pp/web")
    with pytest.raises(Failed, match="was not on the log then; the log knows it from"):
        chosen(found, "1h", found[0].time, "pp/web")


def test_policy_is_written_over_the_one_that_stands() -> None:
    version = policy("web", priority=1)
    version["metadata"] |= {
        "labels": {PROPAGATION_POLICY_ID_LABEL: "old", "team": "a"},
        "annotations": {CONFIRM_RADIUS: "3 spent on 0123456789ab", "note": "x"},
    }
    live: Manifest = policy("web", priority=2)
    live["metadata"] |= {
        "uid": "u2",
        "resourceVersion": "77",
        "finalizers": ["f"],
        "labels": {PROPAGATION_POLICY_ID_LABEL: "new", "team": "b"},
    }
    made = restored(version, live, WEB)
    assert made["spec"]["priority"] == 1
    assert made["metadata"]["labels"] == {PROPAGATION_POLICY_ID_LABEL: "new", "team": "a"}
    assert made["metadata"]["annotations"] == {"note": "x"}
    assert (made["metadata"]["resourceVersion"], made["metadata"]["finalizers"]) == ("77", ["f"])
    again = restored(version, None, WEB)
    assert again["metadata"]["labels"] == {"team": "a"}
    assert not {"uid", "resourceVersion", "finalizers"} & again["metadata"].keys()


def test_template_keeps_the_claim_that_stands() -> None:
    before, now = Claim("id-1", "default", "old"), Claim("id-2", "default", "new")
    version = claim_template(deployment(2), before)
    live = claim_template({**deployment(5), "status": {"replicas": 5}}, now)
    made = restored(version, live, KEY)
    assert made["spec"]["replicas"] == 2
    assert made["status"] == {"replicas": 5}
    assert content(made) == content(version)
    assert made["metadata"]["annotations"] == now.annotations()
    assert now.labels().items() <= made["metadata"]["labels"].items()
