"""What holds for every decision, however odd clusters, constraints, estimates, peers and plugins are."""

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from schemas.manifest import Manifest
from services._rules.scheduling.decision_explanation import explain
from services._rules.scheduling.decoding import binding_view
from services._rules.scheduling.filters import diagnosis
from services._rules.scheduling.index import ClusterIndex
from services._rules.scheduling.plugin_set import GATED, STANDARD, PluginSet
from services._rules.scheduling.plugins.interface import Result
from services._rules.scheduling.schedule import schedule
from services._rules.scheduling.scheduling_views import (
    BindingView,
    ClusterView,
    Decision,
    Peers,
    SchedulingOptions,
    Status,
)
from tests.support.scheduling import (
    AGGREGATED,
    DEPLOYMENT,
    DUPLICATED,
    DYNAMIC,
    WEIGHTED,
    index_of,
    member,
    spread,
    static,
)

NAMES = [f"m{number}" for number in range(7)]
MAX = 2**31 - 1
ROOM = st.one_of(
    st.integers(-3, 12),
    st.sampled_from(["1e400", "9" * 60, "abc", "-5", "", 2**63, "2147483647", "2147483648", "1500m", None]),
)
LIMIT = st.integers(-2, 6)
FIELD = st.sampled_from(["cluster", "region", "zone", "provider", "planet", ""])
NAME = st.sampled_from(NAMES)


@st.composite
def fleets(draw: st.DrawFn) -> list[Manifest]:
    """Clusters with any room, in any regions, some without a status, tainted or going."""
    found = []
    for name in draw(st.lists(NAME, unique=True, max_size=7)):
        metadata: Manifest = {"labels": {"env": draw(st.sampled_from(["prod", "dev"]))}}
        if draw(st.integers(0, 9)) == 0:
            metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        taints = [{"key": "k", "effect": draw(st.sampled_from(["NoSchedule", "NoExecute", "PreferNoSchedule"]))}]
        made = member(
            name,
            draw(ROOM),
            draw(st.sampled_from(["", "r1", "r2", "r3"])),
            metadata=metadata,
            provider=draw(st.sampled_from(["", "p"])),
            zones=draw(st.sampled_from([None, [], ["z1"], ["z1", "z2"]])),
            taints=taints if draw(st.integers(0, 5)) == 0 else None,
        )
        made["status"]["resourceSummary"]["allocatable"]["cpu"] = draw(ROOM)
        found.append(made if draw(st.integers(0, 9)) else {**made, "status": None})
    return found


@st.composite
def strategies(draw: st.DrawFn) -> Manifest | None:
    weights = st.dictionaries(NAME, st.integers(-1, 9) | st.sampled_from([2**62, 10**15 + 1]), max_size=4)
    odd = st.builds(lambda kind: {"replicaSchedulingType": kind}, st.sampled_from(["Divided", "", "Sideways"]))
    known = st.sampled_from([DUPLICATED, AGGREGATED, DYNAMIC, {**WEIGHTED, "weightPreference": {}}, WEIGHTED, None])
    return draw(known | odd | st.builds(lambda found: static(**found), weights))


@st.composite
def specs(draw: st.DrawFn) -> Manifest:
    placement: Manifest = {"replicaScheduling": draw(strategies())}
    constraint = st.builds(
        lambda field, least, most: {"spreadByField": field, "minGroups": least, "maxGroups": most}, FIELD, LIMIT, LIMIT
    )
    placement["spreadConstraints"] = draw(st.one_of(st.none(), st.lists(constraint, max_size=3)))
    if draw(st.booleans()):
        affinity = {"clusterNames": draw(st.lists(NAME, max_size=4))}
        overflow = [{"affinityName": "o", "clusterNames": draw(st.lists(NAME, min_size=1, max_size=4))}]
        term = {"affinityName": "t", **affinity, "overflowAffinities": overflow}
        placement |= {"clusterAffinities": [term]} if draw(st.booleans()) else {"clusterAffinity": affinity}
    running = draw(st.dictionaries(NAME, st.integers(0, 9), max_size=3))
    spec: Manifest = {
        "resource": {**DEPLOYMENT, "uid": draw(st.sampled_from(["", "a", "b"]))},
        "replicas": draw(st.one_of(st.integers(0, 20), st.sampled_from([-1, 1000, MAX]))),
        "placement": placement,
        "clusters": [{"name": name, "replicas": count} for name, count in running.items()],
        "gracefulEvictionTasks": [{"fromCluster": draw(NAME)}] if draw(st.booleans()) else None,
    }
    if draw(st.booleans()):
        request = draw(st.sampled_from([None, {}, {"cpu": "1"}, {"cpu": "100m", "gpu": "0"}, {"cpu": "9" * 60}]))
        spec["replicaRequirements"] = {"resourceRequest": request}
    if draw(st.booleans()):
        spec["rescheduleTriggeredAt"] = "2026-01-02T00:00:00Z"
    return spec


class Picky:
    """A plugin of others: a filter and a score that depend on the name alone."""

    def filter(self, binding: BindingView, status: Status, cluster: ClusterView) -> Result | None:
        return Result("Unschedulable", ("unlucky",)) if cluster.name == "m3" else None

    def score(self, binding: BindingView, cluster: ClusterView) -> int:
        return 70 * int(cluster.name[1:]) % 101


SETS = st.builds(
    lambda names, outside: PluginSet(frozenset(names), (("Picky", Picky()),) if outside else ()),
    st.one_of(st.just(STANDARD | GATED), st.frozensets(st.sampled_from(sorted(STANDARD | GATED)))),
    st.booleans(),
)
PEERS = st.one_of(
    st.none(), st.builds(Peers, st.lists(st.frozensets(NAME), max_size=2).map(tuple), st.frozensets(NAME, max_size=3))
)
ANSWERS = st.lists(
    st.dictionaries(
        st.sampled_from([*NAMES, "stranger"]), st.one_of(st.integers(-9, 9), st.sampled_from([MAX, 2**62, -(2**62)]))
    ),
    max_size=2,
)
STATUS = Status("t", "2026-01-01T00:00:00Z")
cases = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def run(
    fleet: list[Manifest], spec: Manifest, answers: list[dict[str, int]], plugins: PluginSet, peers: Peers | None
) -> tuple[Decision, ClusterIndex, BindingView, SchedulingOptions]:
    index, view = index_of(*fleet), binding_view(spec)
    options = SchedulingOptions(plugins=plugins)
    heeded = plugins.heeded(peers)
    return schedule(index, view, STATUS, answers, options, heeded), index, view, options


@cases
@given(fleets(), specs(), ANSWERS, SETS, PEERS)
def test_decision_is_complete_or_an_error_with_message(
    fleet: list[Manifest], spec: Manifest, answers: list[dict[str, int]], plugins: PluginSet, peers: Peers | None
) -> None:
    decision, index, view, _ = run(fleet, spec, answers, plugins, peers)
    refused = diagnosis(index, view, STATUS, plugins.heeded(peers), plugins)
    present = {item.name for item in index.clusters if not item.deleting}
    assert (decision.error == "FitError") == (refused.keys() >= present)
    if decision.error is not None:
        assert decision.clusters == ()
        assert decision.message
        return
    names = [item.name for item in decision.clusters]
    assert len(set(names)) == len(names)
    assert not refused.keys() & set(names)
    assert not any(index.by_name[name].deleting for name in names)
    if not view.workload or view.replicas <= 0:
        assert all(item.replicas == 0 for item in decision.clusters)
        return
    assert all(item.replicas > 0 for item in decision.clusters)
    if view.placement.duplicated:
        assert {item.replicas for item in decision.clusters} == {view.replicas}
    else:
        assert sum(item.replicas for item in decision.clusters) == view.replicas


@cases
@given(fleets(), specs(), ANSWERS, SETS, PEERS)
def test_division_by_capacity_assigns_only_what_fits(
    fleet: list[Manifest], spec: Manifest, answers: list[dict[str, int]], plugins: PluginSet, peers: Peers | None
) -> None:
    decision, index, view, options = run(fleet, spec, answers, plugins, peers)
    if decision.error is not None or view.placement.strategy not in ("Aggregated", "DynamicWeight"):
        return
    told = {item.name: item for item in explain(index, view, STATUS, answers, options, plugins.heeded(peers)).clusters}
    for item in decision.clusters:
        assert item.replicas <= max(told[item.name].room, told[item.name].running)


@cases
@given(fleets(), specs(), ANSWERS, SETS, PEERS, st.randoms(use_true_random=False))
def test_order_and_caches_do_not_change_a_decision(
    fleet: list[Manifest],
    spec: Manifest,
    answers: list[dict[str, int]],
    plugins: PluginSet,
    peers: Peers | None,
    random: Any,
) -> None:
    first, index, view, options = run(fleet, spec, answers, plugins, peers)
    shuffled = list(fleet)
    random.shuffle(shuffled)
    assert run(shuffled, spec, answers, plugins, peers)[0] == first
    schedule(index, view)
    assert schedule(index, view, STATUS, answers, options, plugins.heeded(peers)) == first
    assert explain(index, view, STATUS, answers, options, plugins.heeded(peers)).decision == first


@cases
@given(fleets(), specs())
def test_static_weights_repeat_their_decision(fleet: list[Manifest], spec: Manifest) -> None:
    decision, _, view, _ = run(fleet, spec, [], PluginSet(STANDARD), None)
    if decision.error is not None or not view.placement.static_weighting:
        return
    again = {**spec, "clusters": [{"name": item.name, "replicas": item.replicas} for item in decision.clusters]}
    held, before = ({item["name"] for item in found["clusters"]} for found in (again, spec))
    # A cluster that let it stay for running there already may refuse it once it does not.
    if before <= held:
        repeated = run(fleet, again, [], PluginSet(STANDARD), None)[0]
        if spec["replicas"] <= 0:
            # Ties go to who runs most, and without replicas everything is a tie.
            assert (set(repeated.clusters), repeated.error) == (set(decision.clusters), decision.error)
        else:
            assert repeated == decision


def test_thousands_of_clusters_are_decided_as_few_are() -> None:
    index = index_of(*(member(f"m{number:04}", number % 13, f"r{number % 40}") for number in range(5000)))
    for strategy in (AGGREGATED, WEIGHTED):
        for limits in ({}, {"cluster": (3, 2000)}, {"region": (2, 30), "cluster": (40, 2500)}):
            placement = {"replicaScheduling": strategy, "spreadConstraints": spread(**limits) or None}
            spec = {"resource": DEPLOYMENT, "replicas": 1000, "placement": placement}
            found = schedule(index, binding_view(spec))
            assert found.error is None, found.message
            assert sum(item.replicas for item in found.clusters) == 1000


def test_objects_without_replicas_prefer_largest_region() -> None:
    served = [{"groupVersion": "v1", "resources": [{"kind": "ConfigMap"}]}]
    regions = {"m1": "small", "m2": "large", "m3": "large"}
    fleet = [member(name, region=region, apis=served) for name, region in regions.items()]
    constraints = spread(region=(1, 1), cluster=(1, 2))
    spec = {"resource": {"apiVersion": "v1", "kind": "ConfigMap"}, "placement": {"spreadConstraints": constraints}}
    found = schedule(index_of(*fleet), binding_view(spec))
    assert [item.name for item in found.clusters] == ["m2", "m3"]
