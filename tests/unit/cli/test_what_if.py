"""What would be placed otherwise, and what a recorded log says of this version's decisions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from schemas.codec import Known, subject_of
from schemas.envelope import Provenance
from schemas.events.placement import PlacementDecided, PlacementFailed, TargetCluster
from schemas.keys import ObjectKey
from schemas.topology import FACTS
from services.cli.common.running import Failed
from services.cli.queries.query_options import Suppositions
from services.cli.queries.replay import Fact, replayed
from services.cli.queries.simulate import document, outcomes, requested, scaled, text, world_of
from services.scheduler.namespace_quotas import NamespaceQuotas
from services.scheduler.state import SchedulerState, fold
from tests.support.facts import KEY, STATIC, asked, binding, cluster, member, quota, released
from tests.support.facts import key as named
from tests.support.harness import place
from tests.support.memory_log import MemoryLog

NOW = 1_793_232_000.0


def recorded(*events: Known) -> list[Fact]:
    """The facts, and behind them the placement that the scheduler decides."""
    state = SchedulerState()
    facts = [Fact(seq, NOW, subject_of(event), event) for seq, event in enumerate(events, 1)]
    for fact in facts:
        list(fold(state, fact.position, fact.subject, fact.event, fact.stored))
    made = place(state, KEY, NOW, "default-scheduler")
    assert made is not None
    seen = Provenance(as_of=len(facts), own={"binding": state.objects[KEY].binding_seq}, decided_at=NOW)
    made = msgspec.structs.replace(made, provenance=seen)
    return [*facts, Fact(len(facts) + 1, NOW, subject_of(made), made)]


async def log_of(*events: Known) -> MemoryLog:
    log = MemoryLog(FACTS)
    await log.given(*(fact.event for fact in recorded(*events)))
    return log


async def after(
    log: MemoryLog, scale: dict[ObjectKey, int] | None = None, **supposed: Any
) -> dict[str, dict[str, int]]:
    moved = outcomes(await world_of({FACTS.name: log}), Suppositions(**supposed), scale or {}, NOW + 60)
    return {item.key.name: item.given for item in moved}


FLEET = (cluster("m1"), cluster("m2"), cluster("m3", labels={"tier": "gold"}))


async def test_lost_or_drained_cluster_gives_its_replicas_away() -> None:
    log = await log_of(*FLEET, binding(4))
    before = await log.identity()
    assert await after(log, lose=("m1",)) == {"nginx": {"m2": 4}}
    assert await after(log, drain=("m2",)) == {"nginx": {"m1": 4}}
    assert await log.identity() == before


async def test_object_that_tolerates_everything_is_not_drained() -> None:
    log = await log_of(*FLEET, binding(4, {**STATIC, "clusterTolerations": [{"operator": "Exists"}]}))
    assert await after(log, drain=("m2",)) == {}


async def test_only_objects_with_a_binding_are_counted() -> None:
    log = await log_of(*FLEET, binding(4))
    assert requested(await world_of({FACTS.name: log})) == 1
    await log.given(released())
    assert requested(await world_of({FACTS.name: log})) == 0


async def test_supposing_nothing_moves_nothing() -> None:
    log = await log_of(*FLEET, binding(4))
    assert await after(log) == {}
    assert text([]) == "Everything stays where it is.\n"


async def test_scaling_and_new_placement_are_summed(tmp_path: Path) -> None:
    log = await log_of(*FLEET, binding(4))
    assert await after(log, scale={KEY: 10}) == {"nginx": {"m1": 5, "m2": 5}}
    policy = tmp_path / "policy.yaml"
    manifest = {
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": "PropagationPolicy",
        "metadata": {"name": "nginx-propagation", "namespace": "default"},
        "spec": {"placement": {**STATIC, "clusterAffinity": {"clusterNames": ["m2"]}}},
    }
    policy.write_bytes(msgspec.json.encode(manifest))
    moved = outcomes(await world_of({FACTS.name: log}), Suppositions(policy=policy), {}, NOW)
    assert [item.given for item in moved] == [{"m2": 4}]
    assert document(moved)["clusters"] == {"m1": {"before": 2, "after": 0}, "m2": {"before": 2, "after": 4}}
    assert "-m1 -2, m2 +2" in text(moved)


async def test_supposed_labels_taints_and_capacity_count() -> None:
    gold = {"clusterAffinity": {"labelSelector": {"matchLabels": {"tier": "gold"}}}}
    log = await log_of(*FLEET, binding(3, gold))
    assert await after(log, label=("m1:tier=gold",)) == {"nginx": {"m1": 3, "m3": 3}}
    moved = outcomes(await world_of({FACTS.name: log}), Suppositions(label=("m3:tier-",)), {}, NOW)
    assert [item.fails for item in moved] == [True]
    assert await after(log, taint=("m3:gpu=only:NoSchedule",)) == {}
    assert await after(log, label=("m1:tier=gold",), taint=("m3:gpu=only:NoExecute",)) == {"nginx": {"m1": 3}}


async def test_a_supposed_capacity_bounds_what_is_placed() -> None:
    dynamic = {
        "replicaScheduling": {
            "replicaSchedulingType": "Divided",
            "replicaDivisionPreference": "Weighted",
            "weightPreference": {"dynamicWeight": "AvailableReplicas"},
        },
        "clusterAffinity": {"clusterNames": ["m1"]},
    }
    manifest = msgspec.json.decode(FLEET[0].manifest)
    manifest["status"]["resourceSummary"] = {"allocatable": {"pods": "100"}}
    roomy = msgspec.structs.replace(FLEET[0], manifest=msgspec.Raw(msgspec.json.encode(manifest)))
    log = await log_of(roomy, binding(4, dynamic))
    assert await after(log, scale={KEY: 40}) == {"nginx": {"m1": 40}}
    moved = outcomes(await world_of({FACTS.name: log}), Suppositions(capacity=("m1:pods=5",)), {KEY: 40}, NOW)
    assert [(item.fails, item.given) for item in moved] == [(True, {"m1": 4})]
    assert "not enough" in moved[0].after


@pytest.mark.parametrize(
    ("supposed", "told"),
    [
        ({"lose": ("m9",)}, "no cluster 'm9' has joined; known are: m1, m2, m3"),
        ({"capacity": ("m1",)}, "--set-capacity 'm1'"),
        ({"capacity": ("m1:cpu=lots",)}, "cpu"),
        ({"capacity": ("m1:cpu=-1",)}, "not below zero"),
        ({"label": ("m1",)}, "--label 'm1'"),
        ({"taint": ("m1:key=value",)}, "--taint 'm1:key=value'"),
        ({"scale": {msgspec.structs.replace(KEY, name="other"): 1}}, "no policy has claimed"),
    ],
)
async def test_invalid_supposition_is_refused_with_its_option(supposed: dict[str, Any], told: str) -> None:
    log = await log_of(*FLEET, binding(4))
    with pytest.raises(Failed, match=told):
        await after(log, **supposed)


@pytest.mark.parametrize(
    "written", ["deploy/nginx", "deploy/nginx=", "deploy/nginx=-1", "nginx=3", "deploy/nginx=99999999999"]
)
def test_malformed_scaling_is_refused(written: str) -> None:
    with pytest.raises(Failed):
        scaled(written)


def test_a_scaling_names_kind_name_and_replicas() -> None:
    assert scaled("deploy/nginx=10") == ("deploy", "nginx", 10)


def test_replay_of_own_decisions_shows_no_difference() -> None:
    result = replayed(recorded(*FLEET, binding(4)))
    assert (result.decisions, result.skipped, result.differences) == (1, 0, [])


def test_replay_explains_a_different_decision() -> None:
    *facts, last = recorded(*FLEET, binding(4))
    assert isinstance(last.event, PlacementDecided)
    wrong = msgspec.structs.replace(last.event, clusters=(TargetCluster("m1", 4),))
    result = replayed([*facts, msgspec.structs.replace(last, event=wrong)])
    assert [(item.position, item.recorded, item.now) for item in result.differences] == [(5, "m1=4", "m1=2 m2=2")]
    assert "static weights" in "".join(result.differences[0].why)


def test_replay_shows_a_failure_that_is_resolved() -> None:
    *facts, last = recorded(*FLEET, binding(4))
    failed = PlacementFailed(
        key=KEY, uid="u1", reason="NoClusterFit", message="none", failed_at=NOW, provenance=last.event.provenance
    )
    result = replayed([*facts, msgspec.structs.replace(last, event=failed)])
    assert [item.recorded for item in result.differences] == ["NoClusterFit: none"]


def test_replay_skips_decisions_without_their_facts() -> None:
    facts = [fact for fact in recorded(*FLEET, binding(4)) if not fact.subject.startswith("binding.")]
    assert (replayed(facts).decisions, replayed(facts).skipped) == (0, 1)


def limited(*events: Known) -> list[Fact]:
    """What a scheduler that enforces quotas decides of one object after the other, each with the last one on record."""
    state = SchedulerState(quotas=NamespaceQuotas())
    facts: list[Fact] = []

    def take(event: Known) -> None:
        facts.append(Fact(len(facts) + 1, NOW, subject_of(event), event))
        list(fold(state, len(facts), subject_of(event), event, NOW))

    for event in events:
        take(event)
    for key in sorted(state.objects):
        made = place(state, key, NOW, "default-scheduler")
        assert isinstance(made, PlacementDecided | PlacementFailed)
        seen = Provenance(as_of=len(facts), own={"binding": state.objects[key].binding_seq}, decided_at=NOW)
        take(msgspec.structs.replace(made, provenance=seen))
    return facts


QUOTA = (member("m1", 1000), member("m2", 1000), quota(cpu="5"), asked("one", 4), asked("two", 4))


def test_replay_decides_by_quotas_where_they_were_enforced() -> None:
    facts = limited(*QUOTA)
    assert [type(fact.event).__name__ for fact in facts[-2:]] == ["PlacementDecided", "PlacementFailed"]
    result = replayed(facts)
    assert (result.decisions, result.differences) == (2, [])


async def test_simulation_obeys_quotas_that_are_enforced() -> None:
    log = MemoryLog(FACTS)
    await log.given(*(fact.event for fact in limited(*QUOTA)))
    world = await world_of({FACTS.name: log})
    moved = outcomes(world, Suppositions(), {named("one"): 6}, NOW + 60)
    assert [(item.key.name, item.fails) for item in moved] == [("one", True)]
    assert "QuotaExceeded" in moved[0].after
