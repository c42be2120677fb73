"""What follows from a change set, decided in memory: given facts and objects, when they change, then the plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from schemas.codec import Known
from schemas.keys import ObjectKey, PolicyKey
from schemas.manifest import Manifest
from schemas.plan import Plan, PlannedObject
from schemas.topology import FACTS
from services.apiserver.settings import Settings
from services.cli.common.printing import as_yaml
from services.cli.foresight.merging import Merging, merged
from services.cli.foresight.plan_text import document, text
from services.detector.app import Detector
from services.foresight.difference import plan_of
from services.foresight.planning import Change, Planner
from services.foresight.reading import FILTERS, Asked, read_world, settle
from services.foresight.world import USUAL, Circumstances
from services.override_renderer.app import OverrideRenderer
from services.scheduler.app import Scheduler
from tests.support.dependency_plane import KINDS, config
from tests.support.detector_harness import key_of, policy
from tests.support.facts import NOW, cluster, deployment, edited, key, only, quota
from tests.support.memory_installation import MemoryInstallation
from tests.support.memory_log import MemoryLog

FLEET = (cluster("m1"), cluster("m2"), cluster("m3"))
DIVIDED = {"replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted"}}


def web(name: str, replicas: int = 2, image: str = "nginx:1", **metadata: Any) -> Manifest:
    """A Deployment with a uid of its own."""
    return deployment(replicas, image, **{"name": name, "uid": f"uid-{name}", **metadata})


def selecting(*names: str, clusters: tuple[str, ...] = ("m1", "m2"), name: str = "p", **spec: Any) -> Manifest:
    """A policy that selects Deployments by name (all without any)."""
    kind = {"apiVersion": "apps/v1", "kind": "Deployment"}
    selectors = [{**kind, "name": each} for each in names] or [kind]
    return policy(name, resourceSelectors=selectors, placement={**only(*clusters), **DIVIDED}, **spec)


def overriding(image: str, name: str = "o") -> Manifest:
    """An override of the image of every Deployment in m1."""
    rule = {"plaintext": [{"path": "/spec/template/spec/containers/0/image", "operator": "replace", "value": image}]}
    spec = {
        "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment"}],
        "overrideRules": [{"targetCluster": {"clusterNames": ["m1"]}, "overriders": rule}],
    }
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}", "generation": 1}
    return {"apiVersion": "policy.karmada.io/v1alpha1", "kind": "OverridePolicy", "metadata": metadata, "spec": spec}


def change(manifest: Manifest, generation: int | None = None) -> Change:
    """An object of a change set."""
    if generation is not None:
        manifest = {**manifest, "metadata": {**manifest["metadata"], "generation": generation}}
    metadata = manifest["metadata"]
    if manifest["kind"] == "Deployment":
        return Change(key(metadata["name"]), manifest)
    if manifest["kind"] == "ConfigMap":
        return Change(config(metadata["name"]), manifest)
    return Change(PolicyKey(manifest["kind"], metadata.get("namespace", ""), metadata["name"]), manifest)


class Fleet:
    """A log, and objects of the control plane that are not on it."""

    def __init__(
        self,
        *events: Known,
        offered: tuple[Manifest, ...] = (),
        stored: Mapping[ObjectKey, Manifest] | None = None,
        circumstances: Circumstances = USUAL,
    ) -> None:
        self.installation = MemoryInstallation()
        self.stored = stored or {}
        self.circumstances = circumstances
        self.logs: dict[str, Any] = dict(self.installation.logs)
        self._events = events
        self._offered = offered

    async def plan(self, *changes: Change, diffs: bool = False, at: float | None = None) -> Plan:
        """What would follow; whatever is decided is also checked to leave the log alone."""
        await self.installation.given(*self._events)
        self._events = ()
        end = await self.logs[FACTS.name].identity()
        planner = await self._settled(changes, at)
        assert await self.logs[FACTS.name].identity() == end
        objects = [PlannedObject("x", "", str(each.key), "changed") for each in changes]
        return plan_of(planner, objects, as_yaml if diffs else None)

    async def _settled(self, changes: tuple[Change, ...], at: float | None = None) -> Planner:
        """All that follows from a change set."""
        asked = Asked()
        world = await read_world(self.logs, asked, at, self.circumstances)
        for manifest in self._offered:
            world.offer(key(manifest["metadata"]["name"]), msgspec.json.encode(manifest))
        planner = Planner(world, NOW, interpreter=asked.asking.interpreter)
        planner.apply(changes)
        await settle(planner, self.logs, asked, self._stored)
        await asked.close()
        return planner

    async def _stored(self, key: ObjectKey) -> bytes | None:
        found = self.stored.get(key)
        return msgspec.json.encode(found) if found is not None else None

    async def applied(self, *changes: Change) -> Fleet:
        """The fleet after a change set: what was decided stands on its log."""
        await self.installation.given(*self._events)
        world = (await self._settled(changes)).world
        for event in (*world.detector.policy_facts.values(), *world.detector.template_facts.values()):
            await self.installation.given(event)
        await self.installation.given(*world.detector.binding_facts.values())
        for scheduled in world.scheduler.objects.values():
            if scheduled.placement is not None:
                await self.installation.given(scheduled.placement)
        self._events = self._offered = ()
        return self


def placements(plan: Plan) -> dict[str, tuple[dict[str, int | None], dict[str, int | None]]]:
    return {item.object.rpartition("/")[2]: (item.before, item.after) for item in plan.placements}


async def test_new_policy_claims_what_nothing_claimed() -> None:
    fleet = Fleet(*FLEET, offered=(web("a", 4), web("b", 2)))
    plan = await fleet.plan(change(selecting("a")))
    assert placements(plan) == {"a": ({}, {"m1": 2, "m2": 2})}
    assert [(item.change, item.after) for item in plan.bindings] == [("created", "PropagationPolicy/default/p")]
    assert [(item.cluster, item.change) for item in plan.manifests] == [("m1", "created"), ("m2", "created")]
    assert (plan.radius.started, plan.radius.disturbed, plan.radius.claimed) == (4, 0, 0)


def reading_config() -> tuple[Manifest, Manifest]:
    """A Deployment that reads a ConfigMap, and that."""
    reader = web("a", 2)
    volumes = [{"name": "app", "configMap": {"name": "app"}}]
    reader["spec"]["template"]["spec"]["volumes"] = volumes
    held = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "app", "namespace": "default", "uid": "uid-app"},
        "data": {"greeting": "hello"},
    }
    return reader, held


def copies_of(plan: Plan, name: str) -> list[tuple[str, str]]:
    """Cluster and change of the copies of an object."""
    return [(item.cluster, item.change) for item in plan.manifests if item.object.endswith(f"/{name}")]


async def test_dependencies_start_with_their_owner() -> None:
    reader, held = reading_config()
    fleet = Fleet(*FLEET, offered=(reader,), stored={config(): held}, circumstances=Circumstances(kinds=KINDS))
    plan = await fleet.plan(change(selecting("a", propagateDeps=True)))
    assert copies_of(plan, "app") == [("m1", "created"), ("m2", "created")]
    assert placements(plan)["app"][1].keys() == {"m1", "m2"}
    without = Fleet(*FLEET, offered=(reader,), circumstances=Circumstances(kinds=KINDS))
    assert placements(await without.plan(change(selecting("a", propagateDeps=True)))).keys() == {"a"}


async def test_dependencies_move_with_their_owner() -> None:
    reader, held = reading_config()
    fleet = Fleet(*FLEET, offered=(reader,), stored={config(): held}, circumstances=Circumstances(kinds=KINDS))
    fleet = await fleet.applied(change(selecting("a", propagateDeps=True)))
    # As the guard reads it: with the kinds that the log shows, and without the control plane.
    fleet.circumstances, fleet.stored = USUAL, {}
    plan = await fleet.plan(change(selecting("a", clusters=("m2", "m3"), propagateDeps=True), 2))
    assert copies_of(plan, "app") == [("m1", "removed"), ("m3", "created")]
    assert plan.radius.disturbed == 2
    plan = await fleet.plan(change(selecting("a"), 2))
    assert copies_of(plan, "app") == [("m1", "removed"), ("m2", "removed")]
    gone = await fleet.plan(Change(config(), None))
    assert [(item.object.rpartition("/")[2], item.change) for item in gone.bindings] == [("app", "released")]


async def test_quotas_refuse_what_exceeds_them() -> None:
    limit = quota(cpu="1")
    workload = web("a", 4)
    requests = {"requests": {"cpu": "500m"}}
    workload["spec"]["template"]["spec"]["containers"][0]["resources"] = requests
    offered = (workload,)
    free = await Fleet(*FLEET, limit, offered=offered).plan(change(selecting()))
    assert placements(free) == {"a": ({}, {"m1": 2, "m2": 2})}
    bounded = Fleet(*FLEET, limit, offered=offered, circumstances=Circumstances(quotas=True))
    plan = await bounded.plan(change(selecting()))
    assert placements(plan) == {"a": ({}, {})}
    assert "QuotaExceeded" in plan.placements[0].failure


async def test_edited_policy_moves_what_it_claims() -> None:
    fleet = await Fleet(*FLEET, offered=(web("a", 4), web("b", 2))).applied(change(selecting()))
    plan = await fleet.plan(change(selecting(clusters=("m2", "m3")), 2))
    assert placements(plan) == {
        "a": ({"m1": 2, "m2": 2}, {"m2": 2, "m3": 2}),
        "b": ({"m1": 1, "m2": 1}, {"m2": 1, "m3": 1}),
    }
    assert (plan.radius.moved, plan.radius.disturbed, plan.radius.claimed, plan.radius.clusters) == (3, 2, 2, 2)
    assert plan.changes


async def test_edit_that_moves_nothing_says_so() -> None:
    fleet = await Fleet(*FLEET, offered=(web("a", 4),)).applied(change(selecting()))
    plan = await fleet.plan(change(selecting(clusters=("m2", "m1")), 2))
    assert (plan.placements, plan.manifests, plan.radius.moved) == ((), (), 0)


async def test_deleted_policy_leaves_copies_or_hands_over() -> None:
    fleet = await Fleet(*FLEET, offered=(web("a", 4),)).applied(change(selecting()))
    plan = await fleet.plan(Change(key_of(selecting()), None))
    assert [(item.change, item.after) for item in plan.bindings] == [("orphaned", "")]
    assert not plan.placements
    assert (plan.radius.disturbed, plan.radius.orphaned) == (1, 1)
    both = await Fleet(*FLEET, offered=(web("a", 4),)).applied(change(selecting("a")))
    plan = await both.plan(Change(key_of(selecting()), None), change(selecting(clusters=("m3",), name="q")))
    assert placements(plan) == {"a": ({"m1": 2, "m2": 2}, {"m3": 4})}


async def test_override_changes_the_copies_it_concerns() -> None:
    fleet = await Fleet(*FLEET, offered=(web("a", 4),)).applied(change(selecting()))
    plan = await fleet.plan(change(overriding("mirror/nginx:1")), diffs=True)
    assert [(item.cluster, item.change) for item in plan.manifests] == [("m1", "changed")]
    assert "-      - image: nginx:1\n+      - image: mirror/nginx:1\n" in plan.manifests[0].diff
    assert plan.radius.disturbed == 1
    assert not plan.placements


async def test_template_edits_and_ends() -> None:
    fleet = await Fleet(*FLEET, offered=(web("a", 4),)).applied(change(selecting()))
    plan = await fleet.plan(change(web("a", 6), 2))
    assert placements(plan) == {"a": ({"m1": 2, "m2": 2}, {"m1": 3, "m2": 3})}
    gone = await fleet.plan(Change(key("a"), None))
    assert placements(gone) == {"a": ({"m1": 2, "m2": 2}, {})}
    assert {item.change for item in gone.manifests} == {"removed"}
    assert gone.radius.stopped == 4
    new = await fleet.plan(change(web("b", 2)))
    assert placements(new) == {"b": ({}, {"m1": 1, "m2": 1})}


async def test_set_is_decided_as_a_whole() -> None:
    fleet = Fleet(*FLEET)
    plan = await fleet.plan(change(selecting()), change(overriding("mirror/nginx:1")), change(web("a", 2)), diffs=True)
    images = {
        item.cluster: next(line.strip("+ -") for line in item.diff.splitlines() if "image:" in line)
        for item in plan.manifests
    }
    assert images == {"m1": "image: mirror/nginx:1", "m2": "image: nginx:1"}


async def test_failure_to_place_is_part_of_the_plan() -> None:
    fleet = await Fleet(*FLEET, offered=(web("a", 4),)).applied(change(selecting()))
    plan = await fleet.plan(change(selecting(clusters=("nowhere",)), 2))
    assert placements(plan) == {"a": ({"m1": 2, "m2": 2}, {})}
    assert "NoClusterFit" in plan.placements[0].failure
    assert plan.radius.stopped == 4


async def test_large_manifests_are_read_from_blobs() -> None:
    large = web("a", 4, annotations={"filler": "x" * 8000})
    fleet = await Fleet(*FLEET, offered=(large,)).applied(change(selecting()))
    world = await read_world(fleet.logs, Asked())
    assert world.withheld
    stored = {**large, "metadata": {**large["metadata"], "generation": 2}}
    planner = Planner(world, NOW)
    planner.apply([change(selecting(clusters=("m3",)), 2)])
    needs = planner.advance()
    assert needs.digests == set(world.withheld.values())
    plan = await fleet.plan(change(selecting(clusters=("m3",)), 2))
    assert plan.notes, "what is not stored is named"
    data = msgspec.json.encode(stored)
    planner.supply(next(iter(needs.digests)), data)
    assert not planner.advance().any
    assert placements(plan_of(planner, ())) == {"a": ({"m1": 2, "m2": 2}, {"m3": 4})}


async def test_past_is_planned_as_it_was() -> None:
    fleet = await Fleet(*FLEET, offered=(web("a", 4),)).applied(change(selecting()))
    log: MemoryLog = fleet.logs[FACTS.name]
    then = (await log.last_many(FILTERS))[-1].time
    plan = await fleet.plan(Change(key("a"), None), at=then - 7200)
    assert not plan.bindings
    plan = await fleet.plan(Change(key("a"), None), at=then)
    assert [item.change for item in plan.bindings] == ["released"]


def test_everything_that_services_read_is_read() -> None:
    assert "policy.>" in FILTERS, "quotas are among the policies"
    left_out = ("work.", "identity.", "absence.", "confirmation.", "policy.F")
    wanted = {each for one in (Detector, Scheduler, OverrideRenderer) for each in one.filters}
    trees = tuple(each.removesuffix(">") for each in FILTERS if each.endswith(">"))
    assert {each for each in wanted if not each.startswith((*left_out, *trees))} | set(FILTERS) == set(FILTERS)
    assert set(FILTERS) <= wanted


def test_manifest_is_laid_over_what_is_stored() -> None:
    merging = Merging(Settings())
    live = merging.stored(web("a", 4), None).manifest
    live["metadata"]["annotations"] = {
        "kubectl.kubernetes.io/last-applied-configuration": '{"metadata":{"annotations":{}},"spec":{"paused":true}}',
        "other": "stays",
    }
    live["spec"]["paused"] = True
    again = merging.stored({**web("a", 4), "metadata": {"name": "a", "namespace": "default"}}, live)
    assert "paused" not in again.manifest["spec"]
    assert again.manifest["metadata"]["annotations"] == live["metadata"]["annotations"]
    assert again.manifest["metadata"]["generation"] == live["metadata"]["generation"] + 1
    assert merged({"a": None, "metadata": {"name": "x"}}, {"a": 1, "metadata": {"name": "x"}}) == {
        "metadata": {"name": "x"}
    }


def test_refusal_names_the_field() -> None:
    bad = policy("p", resourceSelectors=[])
    assert "resourceSelectors" in Merging(Settings()).stored(bad, None).problem
    unknown = {"apiVersion": "example.org/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"size": 1}}
    stored = Merging(Settings()).stored(unknown, None)
    assert (stored.problem, stored.manifest["metadata"]["generation"]) == ("", 1)
    edited = Merging(Settings()).stored({**unknown, "spec": {"size": 2}}, stored.manifest)
    assert edited.manifest["metadata"]["generation"] == 2


async def test_text_is_bounded_and_document_is_whole() -> None:
    fleet = await Fleet(*FLEET, offered=(web("a", 4), web("b", 2), web("c", 2))).applied(change(selecting()))
    plan = await fleet.plan(change(selecting(clusters=("m3",)), 2), diffs=True)
    shown = text(plan, "all", 1)
    assert "... and 2 more placements; --limit 0 prints all" in shown
    assert "Blast radius: 3 workloads, 3 clusters, 9 copies of manifests, 8 replicas move.\n" in shown
    written = document(plan)
    assert (written["kind"], written["changes"], len(written["placements"])) == ("Plan", True, 3)


async def test_secret_is_placed_and_never_shown() -> None:
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "s", "namespace": "default", "uid": "uid-s"},
        "data": {"password": "aHVudGVyMg=="},
    }
    where = ObjectKey("", "secrets", "default", "s")
    served = {"apiEnablements": [{"groupVersion": "v1", "resources": [{"name": "secrets", "kind": "Secret"}]}]}
    fleet = Fleet(edited(cluster("m1"), status=served))
    both = policy("p", resourceSelectors=[{"apiVersion": "v1", "kind": "Secret"}], placement=only("m1"))
    plan = await fleet.plan(change(both), Change(where, secret), diffs=True)
    assert [(item.cluster, item.withheld, item.diff) for item in plan.manifests] == [("m1", True, "")]
    assert "aHVudGVyMg" not in text(plan, "all") + str(document(plan))


async def test_orphan_is_claimed_by_a_policy_that_comes_back() -> None:
    fleet = await Fleet(*FLEET, offered=(web("a", 4),)).applied(change(selecting()))
    fleet = await fleet.applied(Change(key_of(selecting()), None))
    plan = await fleet.plan(change(selecting(clusters=("m3",))))
    assert [(item.change, item.before, item.after) for item in plan.bindings] == [
        ("changed", "", "PropagationPolicy/default/p")
    ]
    assert placements(plan) == {"a": ({"m1": 2, "m2": 2}, {"m3": 4})}
