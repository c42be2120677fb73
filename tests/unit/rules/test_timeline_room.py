"""The story of an object says what room a placement was told of, by whom, and how old that was."""

from __future__ import annotations

from typing import Any

from schemas.envelope import Provenance
from schemas.events.estimate import ClusterEstimate
from schemas.events.placement import PlacementDecided, PlacementFailed, TargetCluster
from services._rules.history.event_words import summarize
from tests.support.facts import KEY

NOW = 1_793_232_000.0


def placed(*estimates: ClusterEstimate, **more: Any) -> PlacementDecided:
    return PlacementDecided(
        key=KEY,
        uid="u1",
        clusters=(TargetCluster("m1", 2),),
        trigger="the placement changed",
        estimates=estimates,
        provenance=Provenance(decided_at=NOW),
        **more,
    )


def test_summary_names_source_and_age_of_estimates() -> None:
    nodes = ClusterEstimate("m1", 3, "nodes", at=NOW - 0.004), ClusterEstimate("m2", 0, "nodes", at=NOW - 0.004)
    agent = ClusterEstimate("m3", 2, "agent", position=7, at=NOW - 2.5, reserved=4)
    assert summarize(placed(*nodes, agent)) == (
        "m1=2, the placement changed, room m1=3 m2=0 on nodes 4 ms before; "
        "m3=2 (4 given away since) by the agent 2.5 s before"
    )


def test_a_failure_tells_them_too() -> None:
    event = PlacementFailed(
        key=KEY, uid="u1", reason="Unschedulable", message="no room", estimates=(ClusterEstimate("m1", 1),)
    )
    assert summarize(event) == "Unschedulable: no room, room m1=1"


def test_summary_names_missed_estimates() -> None:
    assert summarize(placed()) == "m1=2, the placement changed"
    missed = summarize(placed(estimate_missed=True))
    assert missed == "m1=2, the placement changed, room by summaries alone, no estimate came in time"
