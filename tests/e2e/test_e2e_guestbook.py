"""A kind of one's own: its definition by a cluster policy, its objects by a policy, changed for one member."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from services._kit.kube.client import KubeClient
from services.cli.common.layout import CONTROL
from tests.e2e import hostile
from tests.e2e.fleet import EXAMPLES, Fleet, Kubectl, until_equal

pytestmark = pytest.mark.xdist_group("workloads")

CRD = "guestbooks.webapp.my.domain"
NAMES = {
    "crd": CRD,
    "propagationpolicy": "example-policy",
    "clusterpropagationpolicy": "example-policy",
    "overridepolicy": "guestbook-sample",
}


@pytest.fixture
def walk(fleet: Fleet) -> Iterator[Kubectl]:
    """The control plane after every file of the example was applied, in the order of the walk."""
    control = fleet.kubectl()
    control.apply(EXAMPLES / "guestbooks-crd.yaml")
    control.run("wait", "--for=condition=Established", f"crd/{CRD}", "--timeout=60s")
    for name in ("guestbooks-clusterpropagationpolicy", "guestbook", "guestbooks-propagationpolicy"):
        control.apply(EXAMPLES / f"{name}.yaml")
    yield control
    for kind, name in NAMES.items():
        control.run("delete", kind, name, "--ignore-not-found")
    until_equal("definitions left in member1", lambda: _names(fleet.kubectl("member1"), "crd"), [])


def _names(kubectl: Kubectl, kind: str) -> list[str]:
    return [name for name in kubectl.names(kind) if "guestbook" in name]


def test_the_definition_goes_to_the_member_it_names_only(walk: Kubectl, members: dict[str, Kubectl]) -> None:
    wanted = {"member1": [CRD], "member2": [], "member3": []}
    until_equal("definitions", lambda: {name: _names(k, "crd") for name, k in members.items()}, wanted)


def test_object_is_updated_with_its_override_in_the_member(walk: Kubectl, members: dict[str, Kubectl]) -> None:
    member = members["member1"]

    def seen() -> tuple[object, object]:
        found = member.get("guestbook", "guestbook-sample") or {}
        annotations = (found.get("metadata") or {}).get("annotations") or {}
        return found.get("spec"), annotations.get("OverridePolicy")

    plain = {"size": 2, "configMapName": "test", "alias": "Name"}
    until_equal("the guestbook in member1", seen, (plain, None))
    walk.apply(EXAMPLES / "guestbooks-overridepolicy.yaml")
    until_equal("the overridden guestbook in member1", seen, ({**plain, "size": 4}, "test"))
    template = walk.get("guestbook", "guestbook-sample")
    assert template is not None
    assert template["spec"] == plain
    walk.delete("overridepolicy", "guestbook-sample")
    until_equal("the guestbook in member1 without its override", seen, (plain, None))


def test_the_definition_and_its_objects_leave_with_the_template(walk: Kubectl, members: dict[str, Kubectl]) -> None:
    until_equal("guestbooks", lambda: members["member1"].names("guestbook"), ["guestbook-sample"])
    walk.delete("guestbook", "guestbook-sample")
    until_equal("guestbooks after the deletion", lambda: members["member1"].names("guestbook"), [])
    walk.delete("crd", CRD)
    until_equal("definitions after the deletion", lambda: _names(members["member1"], "crd"), [])


async def test_misbehaving_scripts_affect_their_own_objects_only(fleet: Fleet) -> None:
    control = await KubeClient.from_kubeconfig(fleet.layout.kubeconfig(CONTROL))
    try:
        await hostile.define(control)
        good = [f"good-{number}" for number in range(100)]
        there = [*good[:10], *hostile.REFUSED, "impostor"]
        everybody = {*there, *good}
        await asyncio.gather(*(hostile.create(control, hostile.probe(name, case=name, size=4)) for name in there))
        await hostile.create(control, hostile.policy())
        await hostile.until("requests before the customization", hostile.requested(control), dict.fromkeys(there, 0))

        await hostile.create(control, hostile.customization())
        await asyncio.gather(*(hostile.create(control, hostile.probe(name, case=name, size=4)) for name in good[10:]))
        wanted = {**dict.fromkeys(everybody, 4), **dict.fromkeys(hostile.REFUSED, 0)}
        await hostile.until("requests after the customization", hostile.requested(control), wanted)
        await hostile.until("what people are told", hostile.told(control), dict.fromkeys(hostile.REFUSED, True))

        member = await KubeClient.from_kubeconfig(fleet.layout.kubeconfig("member1"))
        try:
            divided = {**dict.fromkeys(everybody, 4), **dict.fromkeys(good, 2)}
            await hostile.until("sizes in member1", hostile.sizes(member), divided)
            await hostile.remove(control, member)
        finally:
            await member.close()
    finally:
        await control.close()
