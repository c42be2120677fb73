"""The condition of a binding names the clusters that refuse its object, why, and what helps."""

from __future__ import annotations

from typing import Any

import msgspec

from schemas.events.rollup import ClusterStatusItem, StatusRolledUp
from services._kit.delivery.lane_parts import summary
from services.gateway.views import binding_views as bindings
from tests.integration.gateway.story import NGINX, cluster, placed, requested
from tests.unit.gateway.gateway_facts import Shown, entries

BASE = "Failed to apply all works, see status.aggregatedStatus for details"


def message(*items: ClusterStatusItem) -> str:
    shown = Shown(cluster("member1"), requested(), placed(member1=1))
    shown.tell(StatusRolledUp(key=NGINX, uid="u1", items=items))
    (entry,) = entries(shown.catalog.bindings)
    body: Any = msgspec.json.decode(msgspec.json.encode(bindings.build(entry.source, entry.version)))
    return next(str(one["message"]) for one in body["status"]["conditions"] if one["type"] == "FullyApplied")


def refused(name: str, why: str = "exceeded quota: team; raise the ResourceQuota there") -> ClusterStatusItem:
    return ClusterStatusItem(cluster=name, applied=False, message=summary(f"cluster {name}: {why}"))


def test_cluster_reason_and_remedy_are_in_the_condition() -> None:
    good = ClusterStatusItem(cluster="member2", applied=True, health="Healthy")
    assert message(refused("member1"), good) == (
        f"{BASE}: member1: exceeded quota: team; raise the ResourceQuota there"
    )


def test_render_failure_is_in_the_condition() -> None:
    problem = "OverridePolicy p, rule 1: /spec/x is missing"
    for runs in (True, False):
        item = ClusterStatusItem(cluster="member1", applied=runs, message=problem)
        assert message(item) == f"{BASE}: member1: {problem}"


def test_many_clusters_are_counted_and_long_reasons_cut() -> None:
    text = message(*(refused(f"m{number}", "x" * 900) for number in range(5)))
    assert text.endswith("; and 2 more clusters")
    assert all(f"m{number}:" in text for number in range(3))
    assert len(text) < 1100


def test_unreported_clusters_are_named_after_refusals() -> None:
    waiting = [
        ClusterStatusItem(cluster=name, applied=False, message="waiting for the cluster to report") for name in "abcde"
    ]
    ready = "(`kubectl get clusters` shows which are ready)"
    assert message(waiting[0]) == f"{BASE}: waiting for a to report {ready}"
    text = message(refused("member1", "no room"), *waiting)
    assert text == f"{BASE}: member1: no room; waiting for a, b, c and 2 more clusters to report {ready}"
