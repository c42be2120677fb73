"""What happens to objects afterwards: a namespace, a template made anew, an object of somebody else."""

from __future__ import annotations

import pytest

from tests.e2e.fleet import Fleet, until, until_equal
from tests.e2e.space import EVERYWHERE, Space, clusters

pytestmark = pytest.mark.xdist_group("workloads")


def test_namespace_is_propagated_to_every_member(fleet: Fleet) -> None:
    space = Space(fleet, "passing-by")
    space.control.run("create", "namespace", "passing-by")
    until_equal("members with the namespace", lambda: space.where("namespace", "passing-by"), list(EVERYWHERE))
    space.control.run("delete", "namespace", "passing-by")
    until_equal("members after the deletion", lambda: space.where("namespace", "passing-by"), [])


@pytest.mark.main_path
def test_a_template_of_the_same_name_replaces_its_predecessor(space: Space) -> None:
    settings = space.apply(space.load("settings.yaml"))
    space.policy(settings, clusters("member1", "member2"))
    space.until_in("configmap", "settings", ("member1", "member2"))
    for colour in ("red", "blue", "white"):
        space.control.delete("configmap", "settings", space.name)
        settings["data"] = {"colour": colour}
        space.apply(settings)
    for member in ("member1", "member2"):
        space.until_field(member, "configmap", "settings", "data", {"colour": "white"})
    space.until_in("configmap", "settings", ("member1", "member2"))


def test_foreign_object_is_kept_until_overwrite(space: Space) -> None:
    settings = space.load("settings.yaml")
    foreign = {**settings, "data": {"owner": "somebody else"}}
    space.member["member1"].apply(foreign)
    space.apply(settings)
    space.policy(settings, clusters("member1", "member2"))
    space.until_in("configmap", "settings", ("member1", "member2"))
    warning = until(
        "a warning on the template",
        lambda: [event for event in space.events("settings") if event[0] == "Warning" and "member1" in event[2]],
    )
    assert warning[0][1] == "SyncFailed"
    space.until_field("member1", "configmap", "settings", "data", {"owner": "somebody else"})

    def applied() -> list[tuple[str, bool]]:
        binding = space.control.get("rb", "settings-configmap", space.name) or {}
        items = (binding.get("status") or {}).get("aggregatedStatus") or []
        return sorted((item["clusterName"], bool(item.get("applied"))) for item in items)

    until_equal("applied by member", applied, [("member1", False), ("member2", True)])
    space.policy(settings, clusters("member1", "member2"), conflictResolution="Overwrite")
    space.until_field("member1", "configmap", "settings", "data", settings["data"])
    until_equal("applied by member", applied, [("member1", True), ("member2", True)])
