"""What happens to objects afterwards: edits, removals, drift, conflicts, suspension, and the end of life."""

from __future__ import annotations

import pytest

from tests.e2e.fleet import Fleet, until, until_equal
from tests.e2e.space import EVERYWHERE, Space, clusters
from tests.support.commands import run_command

pytestmark = pytest.mark.xdist_group("workloads")


def test_namespace_is_propagated_to_every_member(fleet: Fleet) -> None:
    space = Space(fleet, "passing-by")
    space.control.run("create", "namespace", "passing-by")
    until_equal("members with the namespace", lambda: space.where("namespace", "passing-by"), list(EVERYWHERE))
    space.control.run("delete", "namespace", "passing-by")
    until_equal("members after the deletion", lambda: space.where("namespace", "passing-by"), [])


@pytest.mark.main_path
def test_configuration_is_copied_changed_and_shrunk(space: Space) -> None:
    settings = space.apply(space.load("settings.yaml"))
    space.policy(settings, clusters("member1", "member2"))
    space.until_in("configmap", "settings", ("member1", "member2"))
    space.until_field("member1", "configmap", "settings", "data", {"colour": "green", "size": "large"})
    del settings["data"]["size"], settings["metadata"]["labels"]["team"]
    settings["data"]["colour"] = "red"
    space.apply(settings)
    for member in ("member1", "member2"):
        space.until_field(member, "configmap", "settings", "data", {"colour": "red"})
        space.until_field(member, "configmap", "settings", "metadata.labels.team", None)
        space.until_field(member, "configmap", "settings", "metadata.labels.app", "web")


def test_a_secret_arrives_unchanged(space: Space) -> None:
    key = space.apply(space.load("key.yaml"))
    space.policy(key, clusters("member3"))
    space.until_in("secret", "key", ("member3",))
    template = space.control.get("secret", "key", space.name)
    assert template is not None
    space.until_field("member3", "secret", "key", "data", template["data"])


def test_a_removed_environment_disappears_in_members(space: Space) -> None:
    web = space.apply(space.load("web.yaml"))
    space.policy(web, {})
    space.until_in("deployment", "web", EVERYWHERE)
    del web["spec"]["template"]["spec"]["containers"][0]["env"]
    del web["metadata"]["annotations"]["example.com/owner"]
    space.apply(web)

    def left() -> list[str]:
        found = []
        for member in EVERYWHERE:
            held = space.held(member, "deployment", "web") or {}
            if "env" in held["spec"]["template"]["spec"]["containers"][0]:
                found.append(f"{member}: env")
            if "example.com/owner" in held["metadata"]["annotations"]:
                found.append(f"{member}: annotation")
        return found

    until_equal("what was removed from the template", left, [])


@pytest.mark.main_path
def test_drift_in_a_member_is_repaired(space: Space) -> None:
    settings = space.apply(space.load("settings.yaml"))
    space.policy(settings, clusters("member1"))
    space.until_in("configmap", "settings", ("member1",))
    member = space.member["member1"]
    member.patch("configmap", "settings", {"data": {"colour": "black"}}, space.name)
    space.until_field("member1", "configmap", "settings", "data.colour", "green")
    before = space.held("member1", "configmap", "settings") or {}
    member.delete("configmap", "settings", space.name)

    def renewed() -> bool:
        held = space.held("member1", "configmap", "settings")
        return held is not None and held["metadata"]["uid"] != before["metadata"]["uid"]

    until("the deleted copy", renewed)


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


def test_a_failing_override_stops_only_that_members_copy(space: Space) -> None:
    settings = space.apply(space.load("settings.yaml"))
    absent = {"path": "/data/absent/deeper", "operator": "replace", "value": "x"}
    space.override(settings, "member2", {"plaintext": [absent]})
    # Overrides and policies are watched apart: what is placed after this one was recorded is overridden.
    until("the override on the log", lambda: recorded(space, "OverridePolicy"))
    space.policy(settings, clusters("member1", "member2"))
    space.until_in("configmap", "settings", ("member1",))
    until(
        "a warning about member2",
        lambda: [event for event in space.events("settings") if event[0] == "Warning"],
    )
    settings["data"]["colour"] = "red"
    space.apply(settings)
    space.until_field("member1", "configmap", "settings", "data.colour", "red")
    assert space.where("configmap", "settings") == ["member1"]

    def applied() -> tuple[str, bool]:
        binding = space.control.get("rb", "settings-configmap", space.name) or {}
        for condition in binding.get("status", {}).get("conditions", ()):
            if condition["type"] == "FullyApplied":
                told = str(condition["message"])
                return condition["status"], "member2: " in told and "/data/absent" in told
        return "", False

    until_equal("what the binding says of member2", applied, ("False", True))
    space.control.delete("overridepolicy", "settings-member2", space.name)
    space.until_in("configmap", "settings", ("member1", "member2"))
    until_equal("what the binding says of member2", applied, ("True", False))


def recorded(space: Space, kind: str) -> bool:
    """Whether the log holds a policy of this kind in the namespace."""
    subject = f"policy.{kind}.{space.name}.*"
    told = run_command(
        "fleetlog", "events", "--dir", str(space.fleet.layout.directory), "--subject", subject, "--tail", "0"
    )
    return kind in told.stdout


def test_preserved_objects_stay_in_members(space: Space) -> None:
    settings = space.apply(space.load("settings.yaml"))
    space.policy(settings, clusters("member1"), preserveResourcesOnDeletion=True)
    space.until_in("configmap", "settings", ("member1",))
    space.control.delete("configmap", "settings", space.name)

    def ours() -> list[str]:
        held = space.held("member1", "configmap", "settings") or {}
        return [name for name in held["metadata"].get("labels") or {} if "karmada.io" in name]

    until_equal("our labels on the copy that stays", ours, [])
    space.until_field("member1", "configmap", "settings", "data", settings["data"])


def test_nothing_is_dispatched_while_the_policy_suspends_it(space: Space) -> None:
    settings = space.apply(space.load("settings.yaml"))
    space.policy(settings, clusters("member1", "member2"))
    space.until_in("configmap", "settings", ("member1", "member2"))
    paused = {"dispatchingOnClusters": {"clusterNames": ["member2"]}}
    space.policy(settings, clusters("member1", "member2"), suspension=paused)

    def suspended() -> object:
        found = space.control.get("rb", "settings-configmap", space.name) or {}
        return (found.get("spec") or {}).get("suspension")

    until_equal("suspension of the binding", suspended, paused)
    settings["data"]["colour"] = "red"
    space.apply(settings)
    space.until_field("member1", "configmap", "settings", "data.colour", "red")
    space.until_field("member2", "configmap", "settings", "data.colour", "green")
    space.policy(settings, clusters("member1", "member2"))
    space.until_field("member2", "configmap", "settings", "data.colour", "red")


def test_a_job_runs_to_its_end_and_its_status_is_summed(space: Space) -> None:
    once = space.apply(space.load("once.yaml"))
    space.policy(once, clusters("member1", "member2"))
    space.until_in("job", "once", ("member1", "member2"))

    def status() -> tuple[int, list[str]]:
        found = (space.control.get("job", "once", space.name) or {}).get("status") or {}
        done = [item["type"] for item in found.get("conditions") or [] if item["status"] == "True"]
        return found.get("succeeded", 0), [kind for kind in done if kind == "Complete"]

    until_equal("summed status of the job", status, (2, ["Complete"]))


def test_a_service_keeps_the_address_each_member_gave_it(space: Space) -> None:
    service = space.apply(space.load("web-service.yaml"))
    space.policy(service, {})
    space.until_in("service", "web", EVERYWHERE)
    before = {member: (space.held(member, "service", "web") or {})["spec"]["clusterIP"] for member in EVERYWHERE}
    assert all(before.values())
    service["spec"]["ports"][0]["port"] = 8080
    space.apply(service)

    def seen() -> dict[str, tuple[str, int]]:
        specs = {member: (space.held(member, "service", "web") or {})["spec"] for member in EVERYWHERE}
        return {member: (spec["clusterIP"], spec["ports"][0]["port"]) for member, spec in specs.items()}

    until_equal("addresses and ports", seen, {member: (address, 8080) for member, address in before.items()})
