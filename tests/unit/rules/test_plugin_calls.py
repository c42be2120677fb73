"""Plugins that others wrote: filters, scores, normalization, and everything that they may do wrong."""

from typing import Any

import pytest

from services._rules.scheduling.decision_explanation import explain
from services._rules.scheduling.decoding import binding_view
from services._rules.scheduling.index import ClusterIndex
from services._rules.scheduling.plugin_set import STANDARD, PluginSet
from services._rules.scheduling.plugins.interface import FilterContext, Plugin, Result
from services._rules.scheduling.schedule import schedule, schedule_groups
from services._rules.scheduling.scheduling_views import (
    BindingView,
    ClusterView,
    Decision,
    Peers,
    SchedulingOptions,
    Status,
)
from tests.support.scheduling import AGGREGATED, DEPLOYMENT, DUPLICATED, index_of, member, replicas_of, spread

ONE = spread(cluster=(1, 1))


def fleet(count: int = 4) -> ClusterIndex:
    return index_of(
        *(member(f"m{number}", metadata={"labels": {"cost": str(number)}}) for number in range(1, count + 1))
    )


def binding(**parts: Any) -> BindingView:
    placement = {"replicaScheduling": AGGREGATED, "spreadConstraints": ONE, **parts.pop("placement", {})}
    spec = {"resource": DEPLOYMENT, "replicas": 3, "placement": placement}
    return binding_view({**spec, **parts})


def options(**plugins: Plugin) -> SchedulingOptions:
    return SchedulingOptions(plugins=PluginSet(STANDARD, tuple(plugins.items())))


def names(decision: Decision) -> list[str]:
    return list(replicas_of(decision))


class Cheap:
    """Leaves expensive clusters out, for one or two reasons."""

    def filter(self, binding: BindingView, status: Status, cluster: ClusterView) -> Result | None:
        if cluster.labels["cost"] >= "4":
            return Result("Unschedulable", ("too expensive", "far away"))
        return Result("Unschedulable", ("too expensive",)) if cluster.labels["cost"] > "2" else None


class Favours:
    """Scores the named cluster."""

    def __init__(self, name: str, score: Any = 50) -> None:
        self.name, self.points = name, score

    def score(self, binding: BindingView, cluster: ClusterView) -> Any:
        return self.points if cluster.name == self.name else 0


class Inverted(Favours):
    """Turns the scores round in the end."""

    def normalize(self, scores: dict[str, int]) -> Result | None:
        most = max(scores.values())
        for name, score in scores.items():
            scores[name] = most - score
        return None


def test_a_filter_leaves_clusters_out() -> None:
    everywhere = binding(placement={"spreadConstraints": [], "replicaScheduling": DUPLICATED})
    assert names(schedule(fleet(), everywhere, options=options(Cheap=Cheap()))) == ["m1", "m2"]


def test_reasons_of_a_filter_are_counted_one_by_one() -> None:
    affinity = {"clusterAffinity": {"clusterNames": ["m2", "m3", "m4"], "exclude": ["m2"]}}
    found = schedule(fleet(), binding(placement=affinity), options=options(Cheap=Cheap()))
    assert found.error == "FitError"
    assert found.message == (
        "0/4 clusters are available: 1 far away,"
        " 2 cluster(s) did not match the placement cluster affinity constraint, 2 too expensive."
    )


def test_a_filter_without_a_reason_is_named_in_its_place() -> None:
    class Mute:
        def filter(self, binding: BindingView, status: Status, cluster: ClusterView) -> Result | None:
            return Result("Error")

    found = schedule(fleet(1), binding(), options=options(Mute=Mute()))
    assert found.message == '0/1 clusters are available: 1 plugin "Mute" left it out without a reason.'


def test_filter_with_context_gets_peers_and_replaces_filter() -> None:
    seen: list[FilterContext] = []

    class Curious:
        def filter(self, binding: BindingView, status: Status, cluster: ClusterView) -> Result | None:
            raise AssertionError("never asked")

        def filter_with_context(self, context: FilterContext) -> Result | None:
            seen.append(context)
            return None

    peers = Peers(apart=frozenset({"m1"}))
    status = Status("term", "2026-01-01T00:00:00Z")
    found = schedule(fleet(2), binding(), status, options=options(Curious=Curious()), peers=peers)
    assert names(found) == ["m2"]
    assert [item.cluster.name for item in seen] == ["m2"]
    assert seen[0].peers == peers
    assert seen[0].status == status


def test_scores_decide_between_clusters_and_add_up_with_locality() -> None:
    assert names(schedule(fleet(), binding(), options=options(Favours=Favours("m3")))) == ["m3"]
    running = binding(clusters=[{"name": "m1", "replicas": 1}])
    assert names(schedule(fleet(), running, options=options(Favours=Favours("m3")))) == ["m1"]
    assert names(schedule(fleet(), running, options=options(A=Favours("m3"), B=Favours("m3", 51)))) == ["m3"]


def test_scores_may_be_normalized() -> None:
    assert names(schedule(fleet(), binding(), options=options(Inverted=Inverted("m1")))) == ["m2"]


def test_a_score_may_come_with_a_result() -> None:
    assert names(schedule(fleet(), binding(), options=options(F=Favours("m2", (7, None))))) == ["m2"]
    assert names(schedule(fleet(), binding(), options=options(F=Favours("m2", (7, Result()))))) == ["m2"]


class Raising:
    def filter(self, binding: BindingView, status: Status, cluster: ClusterView) -> Result | None:
        raise KeyError("cost")


class RaisingScore:
    def score(self, binding: BindingView, cluster: ClusterView) -> int:
        raise ZeroDivisionError("division by zero")


class Answers:
    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def filter(self, binding: BindingView, status: Status, cluster: ClusterView) -> Any:
        return self.answer


class Normalizes(Favours):
    def __init__(self, answer: Any, *, drops: bool = False, raises: bool = False) -> None:
        super().__init__("m1", 1)
        self.answer, self.drops, self.raises = answer, drops, raises

    def normalize(self, scores: dict[str, int]) -> Any:
        if self.raises:
            raise RuntimeError("no")
        if self.drops:
            scores.clear()
        return self.answer


PRIORITIZE = "failed to prioritize clusters: "


@pytest.mark.parametrize(
    ("plugin", "message"),
    [
        (Raising(), "failed to find fit clusters: plugin \"X\" failed with: KeyError: 'cost'"),
        (Answers(True), 'failed to find fit clusters: plugin "X" failed with: it answered True, not a Result or None'),
        (RaisingScore(), PRIORITIZE + 'plugin "X" failed with: ZeroDivisionError: division by zero'),
        (Favours("m1", "high"), PRIORITIZE + "plugin \"X\" failed with: its score of m1 is 'high', not a whole number"),
        (Favours("m1", 1.5), PRIORITIZE + 'plugin "X" failed with: its score of m1 is 1.5, not a whole number'),
        (Favours("m1", True), PRIORITIZE + 'plugin "X" failed with: its score of m1 is True, not a whole number'),
        (Favours("m1", (1, Result("Error", ("broken",)))), PRIORITIZE + 'plugin "X" failed with: broken'),
        (Favours("m1", (1, Result("Error"))), PRIORITIZE + 'plugin "X" failed with: Error without a reason'),
        (
            Normalizes(Result("Unschedulable", ("a", "b"))),
            PRIORITIZE + 'plugin "X" normalizeScore failed with: a, b',
        ),
        (Normalizes(None, raises=True), PRIORITIZE + 'plugin "X" normalizeScore failed with: RuntimeError: no'),
        (
            Normalizes(None, drops=True),
            PRIORITIZE + 'plugin "X" normalizeScore failed with: its score of m1 is None, not a whole number',
        ),
    ],
)
def test_failing_plugin_is_named_in_the_error_of_the_attempt(plugin: Any, message: str) -> None:
    found = schedule(fleet(), binding(), options=options(X=plugin))
    assert (found.error, found.message, found.clusters) == ("Error", message, ())
    told = explain(fleet(), binding(), options=options(X=plugin))
    assert told.decision == found


def test_plugin_failure_moves_to_the_next_affinity_group() -> None:
    class Picky:
        def filter(self, binding: BindingView, status: Status, cluster: ClusterView) -> Result | None:
            if status.observed_affinity == "first":
                raise ValueError("not this one")
            return None

    terms = {
        "clusterAffinities": [
            {"affinityName": "first", "clusterNames": ["m1"]},
            {"affinityName": "second", "clusterNames": ["m2"]},
        ]
    }
    attempt = schedule_groups(fleet(), binding(placement=terms), options=options(Picky=Picky()))
    assert attempt.observed_affinity == "second"
    assert names(attempt.decision) == ["m2"]
    assert "not this one" in attempt.failures[0][2].message


def test_an_explanation_names_plugins_of_others() -> None:
    told = explain(fleet(), binding(), options=options(Cheap=Cheap(), Favours=Favours("m2", 30)))
    by_name = {item.name: item for item in told.clusters}
    assert told.refused["m4"] == ("Cheap", "too expensive, far away")
    assert by_name["m2"].plugins == {"Favours": 30}
    assert by_name["m2"].score == 30
    assert by_name["m1"].plugins == {"Favours": 0}


def test_plugins_see_clusters_in_order_of_names() -> None:
    seen: list[str] = []

    class Notes:
        def score(self, binding: BindingView, cluster: ClusterView) -> int:
            seen.append(cluster.name)
            return len(seen)

    schedule(fleet(), binding(clusters=[{"name": "m3", "replicas": 1}]), options=options(Notes=Notes()))
    assert seen == ["m1", "m2", "m3", "m4"]
