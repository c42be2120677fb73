"""Tolerations against taints, and cluster affinities that say which clusters are candidates."""

from datetime import UTC, datetime
from typing import Any

import pytest

from services._rules.kubernetes.taints import (
    Taint,
    Toleration,
    first_untolerated,
    matching_tolerations,
    seconds_left,
    tolerates,
)
from services._rules.policies.cluster_affinity import affinity_of, compile_affinity, facts_of

TAINT = Taint(key="k", value="v", effect="NoExecute")


@pytest.mark.parametrize(
    ("toleration", "covered"),
    [
        (Toleration(), False),
        (Toleration(operator="Exists"), True),
        (Toleration(key="k", operator="Exists"), True),
        (Toleration(key="k", value="v"), True),
        (Toleration(key="k", operator="Equal", value="w"), False),
        (Toleration(value="v"), True),
        (Toleration(key="k", value="v", effect="NoSchedule"), False),
        (Toleration(key="k", value="v", effect="NoExecute"), True),
        (Toleration(key="k", operator="Lt", value="v"), False),
        (Toleration(key="other", operator="Exists"), False),
    ],
)
def test_which_toleration_covers_a_taint(toleration: Toleration, covered: bool) -> None:
    assert tolerates(toleration, TAINT) is covered


def test_only_repelling_effects_count() -> None:
    advice = Taint(key="a", effect="PreferNoSchedule")
    assert first_untolerated([advice], []) is None
    assert first_untolerated([advice, TAINT], []) == TAINT
    assert str(TAINT) == "k=v:NoExecute"
    assert str(advice) == "a:PreferNoSchedule"


def test_tolerations_in_use_follow_the_order_of_taints() -> None:
    limited = Toleration(key="k", value="v", toleration_seconds=30)
    rest = Toleration(operator="Exists")
    assert matching_tolerations([Taint(key="x", effect="NoExecute"), TAINT], [limited, rest]) == (True, (rest, limited))
    assert matching_tolerations([TAINT], []) == (False, ())
    assert matching_tolerations([], [rest]) == (True, ())


def test_the_shortest_toleration_in_use_ends_first() -> None:
    now = datetime(2026, 8, 1, tzinfo=UTC)
    taint = Taint(key="k", value="v", effect="NoExecute", time_added="2026-07-31T23:59:30Z")
    endless, minute = Toleration(operator="Exists"), Toleration(key="k", value="v", toleration_seconds=60)
    assert seconds_left([taint], [endless, minute], now) == 30
    assert seconds_left([taint], [Toleration(operator="Exists", toleration_seconds=-5)], now) == 0
    assert seconds_left([taint], [endless], now) is None
    assert seconds_left([TAINT], [minute], now) is None
    assert seconds_left([taint], [], now) == 0
    assert seconds_left([], [], now) is None


CLUSTER: dict[str, Any] = {
    "metadata": {"name": "m1", "labels": {"env": "prod"}},
    "spec": {"provider": "aws", "zones": ["z1", "z2"], "zone": "z9"},
}


def by_field(key: str, operator: str, *values: str) -> dict[str, Any]:
    expression = {"key": key, "operator": operator, **({"values": list(values)} if values else {})}
    return {"fieldSelector": {"matchExpressions": [expression]}}


@pytest.mark.parametrize(
    ("affinity", "matches"),
    [
        ({}, True),
        ({"clusterNames": ["m1"]}, True),
        ({"clusterNames": ["m2"]}, False),
        ({"clusterNames": ["m1"], "exclude": ["m1"]}, False),
        ({"exclude": ["m2"]}, True),
        ({"labelSelector": {"matchLabels": {"env": "prod"}}}, True),
        ({"labelSelector": {"matchExpressions": [{"key": "env", "operator": "In"}]}}, False),
        (by_field("zone", "In", "z2", "z5"), True),
        (by_field("zone", "In", "z9"), False),
        (by_field("zone", "NotIn", "z2"), False),
        (by_field("zone", "Exists"), True),
        (by_field("zone", "DoesNotExist"), False),
        (by_field("zone", "Gt", "1"), False),
        (by_field("provider", "In", "aws"), True),
        (by_field("region", "NotIn", "r1"), True),
        (by_field("region", "In", "r1"), False),
        ({**by_field("provider", "In", "aws"), "clusterNames": ["m2"]}, False),
    ],
)
def test_cluster_affinities(affinity: dict[str, Any], matches: bool) -> None:
    assert compile_affinity(affinity_of(affinity))(facts_of(CLUSTER)) is matches
