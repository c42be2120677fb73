"""Room that was given away is not given twice: sums, journal, release, expiry, and the same after a restart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.events.placement import TargetCluster
from schemas.events.rollup import ClusterStatusItem
from schemas.keys import ObjectKey
from services._rules.capacity.cluster_totals import KINDS, ClusterTotals
from services._rules.capacity.general_estimate import Component, capacity_of, demand_of, max_replicas
from services._rules.capacity.packing import Room, place_set
from services._rules.capacity.reservations import LONGEST, ReservationLedger, replicas_shown
from services._rules.capacity.reserved import PodClass, displaced, less_taken, needs_of, place_on_models

NOW = 1_793_232_000.0


def key(number: int = 0) -> ObjectKey:
    return ObjectKey("apps", "deployments", "default", f"web-{number}")


def needs(cpu: str = "1") -> Any:
    return needs_of({"replicas": 1, "replicaRequirements": {"resourceRequest": {"cpu": cpu}}}, detailed=False)


def status(cluster: str, replicas: int) -> ClusterStatusItem:
    return ClusterStatusItem(cluster=cluster, status=msgspec.Raw(msgspec.json.encode({"replicas": replicas})))


def pods(ledger: ReservationLedger, cluster: str) -> int:
    return sum(ledger.taken(cluster).values())


def given_to(ledger: ReservationLedger, counts: dict[str, int], seq: int = 2, at: float = NOW, number: int = 0) -> None:
    ledger.placed(key(number), "u", [TargetCluster(name, count) for name, count in counts.items()], at, seq)


def holding(settle: float = 0.0, **counts: int) -> ReservationLedger:
    """A ledger with an object that was requested, and placed with so many replicas."""
    ledger = ReservationLedger(settle=settle)
    ledger.requested(key(), "u", needs(), 1)
    if counts:
        given_to(ledger, counts)
    return ledger


def test_placement_reserves_until_its_replicas_are_shown() -> None:
    ledger = holding(m1=3, m2=2)
    assert (pods(ledger, "m1"), pods(ledger, "m2")) == (3, 2)
    assert ledger.shown(key(), "u", [status("m1", 2)], NOW, 9)
    assert (pods(ledger, "m1"), pods(ledger, "m2")) == (1, 2)
    assert ledger.shown(key(), "u", [status("m1", 3), status("m2", 2)], NOW, 9)
    assert (pods(ledger, "m1"), pods(ledger, "m2")) == (0, 0)


def test_scaling_up_reserves_the_added_replicas_only() -> None:
    ledger = holding(m1=3)
    ledger.shown(key(), "u", [status("m1", 3)], NOW, 9)
    given_to(ledger, {"m1": 5}, 4)
    assert pods(ledger, "m1") == 2
    assert ledger.since("m1", 3) == [(needs()[0][0], 2)]


def test_released_placement_reserves_nothing() -> None:
    ledger = holding(m1=3)
    ledger.placed(key(), "u", (), NOW, 3)
    assert pods(ledger, "m1") == 0


def test_status_of_a_former_uid_releases_nothing() -> None:
    ledger = holding(m1=3)
    assert not ledger.shown(key(), "former", [status("m1", 3)], NOW, 9)
    assert pods(ledger, "m1") == 3


def test_reservation_expires_when_replicas_are_never_shown() -> None:
    ledger = holding(m1=3)
    assert not ledger.expire(NOW + LONGEST - 1)
    assert ledger.expire(NOW + LONGEST)
    assert pods(ledger, "m1") == 0
    given_to(ledger, {"m1": 3}, 5, NOW + LONGEST)
    assert pods(ledger, "m1") == 3


def test_shown_replicas_stay_reserved_until_a_later_summary() -> None:
    ledger = holding(settle=15.0, m1=3)
    assert not ledger.shown(key(), "u", [status("m1", 3)], NOW + 10, 9)
    assert pods(ledger, "m1") == 3
    assert not ledger.summarised("m1", NOW + 9)
    assert pods(ledger, "m1") == 3
    assert ledger.summarised("m1", NOW + 12)
    assert pods(ledger, "m1") == 0


def test_shown_replicas_expire_without_a_later_summary() -> None:
    ledger = holding(settle=15.0, m1=3)
    ledger.shown(key(), "u", [status("m1", 3)], NOW + 10, 9)
    assert not ledger.expire(NOW + 24)
    assert ledger.expire(NOW + 25)
    assert pods(ledger, "m1") == 0


def test_promise_reserves_at_once_and_once() -> None:
    ledger = holding()
    ledger.promise(key(), [TargetCluster("m1", 3)], NOW)
    assert pods(ledger, "m1") == 3
    assert ledger.since("m1", 1_000) == [(needs()[0][0], 3)]
    given_to(ledger, {"m1": 3}, 7)
    assert pods(ledger, "m1") == 3
    assert ledger.since("m1", 6) == [(needs()[0][0], 3)]
    assert ledger.since("m1", 7) == []


def test_withdrawn_promise_reserves_nothing() -> None:
    ledger = holding()
    ledger.promise(key(), [TargetCluster("m1", 3)], NOW)
    ledger.withdraw(key())
    assert pods(ledger, "m1") == 0
    assert ledger.since("m1", 0) == []


def test_changed_requirements_are_reserved_from_their_request() -> None:
    ledger = holding(m1=3)
    ledger.requested(key(), "u", needs("2"), 3)
    assert dict(ledger.taken("m1")) == {needs("2")[0][0]: 3}


def test_removed_object_or_cluster_reserves_nothing() -> None:
    ledger = holding(m1=3, m2=1)
    ledger.removed("m1")
    assert (pods(ledger, "m1"), pods(ledger, "m2")) == (0, 1)
    ledger.forget(key())
    assert pods(ledger, "m2") == 0


def test_replicas_shown_by_health_or_status() -> None:
    assert replicas_shown(ClusterStatusItem(cluster="m1", health="Healthy")) > 1_000_000
    assert replicas_shown(ClusterStatusItem(cluster="m1", health="Unhealthy")) == 0
    job = msgspec.Raw(b'{"active":2,"succeeded":3}')
    assert replicas_shown(ClusterStatusItem(cluster="m1", status=job)) == 5
    assert replicas_shown(ClusterStatusItem(cluster="m1", status=msgspec.Raw(b'"x"'))) == 0


ACTS = st.lists(
    st.tuples(
        st.sampled_from(["ask", "place", "show", "end", "promise"]),
        st.integers(0, 2),
        st.integers(0, 4),
        st.sampled_from(["m1", "m2"]),
        st.sampled_from(["1", "500m"]),
    ),
    max_size=40,
)


@settings(max_examples=150, deadline=None)
@given(ACTS)
def test_restart_folds_the_same_reservations(acts: list[tuple[str, int, int, str, str]]) -> None:
    live = ReservationLedger()
    last: dict[tuple[str, int], tuple[int, Any]] = {}
    for seq, (act, number, count, cluster, cpu) in enumerate(acts, 1):
        at = NOW + seq
        if act == "promise":
            live.promise(key(number), [TargetCluster(cluster, count)], at)
            live.withdraw(key(number))
            continue
        found: tuple[str, Callable[[ReservationLedger], Any]] = {
            "ask": ("binding", lambda log, n=number, c=cpu, s=seq: log.requested(key(n), "u", needs(c), s)),
            "place": (
                "placement",
                lambda log, n=number, k=count, c=cluster, s=seq, t=at: given_to(log, {c: k}, s, t, n),
            ),
            "end": ("placement", lambda log, n=number, s=seq, t=at: log.placed(key(n), "u", (), t, s)),
            "show": (
                "rollup",
                lambda log, n=number, k=count, c=cluster, s=seq, t=at: log.shown(key(n), "u", [status(c, k)], t, s),
            ),
        }[act]
        facet, call = found
        call(live)
        last[facet, number] = (seq, call)
    restarted = ReservationLedger()
    for _, call in sorted(last.values(), key=lambda item: item[0]):
        call(restarted)
    for cluster in ("m1", "m2"):
        assert dict(live.taken(cluster)) == dict(restarted.taken(cluster))


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 12), st.integers(1, 8), st.integers(1, 3)), max_size=6), st.integers(1, 8))
def test_estimate_less_reservations_still_fits_on_nodes(gone: list[tuple[int, int, int]], cpu: int) -> None:
    """However the pods given since spread over nodes, what is answered still fits."""
    wanted = demand_of({"cpu": str(cpu)})
    nodes = [Room({"cpu": 1000 * free}, 20) for free in (4, 8, 12, 16)]
    before = sum(room.fits(wanted.on_node) for room in nodes)
    taken = []
    for number, (size, count, start) in enumerate(gone):
        want = PodClass("", demand_of({"cpu": str(size)}))
        placed = 0
        for offset in range(len(nodes)):
            room = nodes[(start + number + offset) % len(nodes)]
            here = min(count - placed, room.fits(want.demand.on_node))
            room.take(want.demand.on_node, here)
            placed += here
        taken.append((want, placed))
    left = sum(room.fits(wanted.on_node) for room in nodes)
    assert max(0, before - displaced(taken, (Component("", 1, wanted),))) <= left


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 5), st.integers(1, 8), st.integers(1, 6)), max_size=4),
    st.lists(st.tuples(st.integers(1, 4), st.integers(1, 12)), max_size=5),
)
def test_pods_fit_on_model_nodes_as_on_single_nodes(
    models: list[tuple[int, int, int]], gone: list[tuple[int, int]]
) -> None:
    kinds = tuple((count, {"cpu": 1000 * cpu}, slots) for count, cpu, slots in models)
    rooms = [Room(dict(amounts), slots) for count, amounts, slots in kinds for _ in range(count)]
    for cpu, count in gone:
        demand = demand_of({"cpu": str(cpu)})
        kinds = place_on_models(kinds, demand, count)
        place_set(rooms, [(count, demand.on_node)])
    flat = [(amounts["cpu"], slots) for count, amounts, slots in kinds for _ in range(count)]
    assert sorted(flat) == sorted((room.free["cpu"], room.pods) for room in rooms)


def test_capacity_less_reservations_fits_the_rest() -> None:
    summary = {"allocatable": {"cpu": "10", "pods": "20"}}
    capacity = capacity_of({"status": {"resourceSummary": summary}})
    want = needs("3")[0][0]
    assert max_replicas(capacity, demand_of({"cpu": "3"})) == 3
    assert max_replicas(less_taken(capacity, {want: 2}), demand_of({"cpu": "3"})) == 1
    assert max_replicas(less_taken(capacity, {want: 20}), demand_of({"cpu": "1"})) == 0
    assert max_replicas(capacity, demand_of({"cpu": "3"})) == 3


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 120), st.booleans(), st.integers(1, 9)), max_size=120),
    st.booleans(),
)
def test_cluster_totals_equal_the_sum_of_pod_classes(steps: list[tuple[int, bool, int]], modelled: bool) -> None:
    """Few kinds, more than are told apart, and given back again; with resource models, too."""
    models: dict[str, Any] = {"resourceModels": [{"grade": 0, "ranges": [{"name": "cpu", "min": "2"}]}]}
    summary: dict[str, Any] = {"allocatable": {"cpu": "64", "memory": "0", "pods": "300"}}
    if modelled:
        summary["allocatableModelings"] = [{"grade": 0, "count": 9}]
    capacity = capacity_of({"spec": models if modelled else {}, "status": {"resourceSummary": summary}})
    sums = ClusterTotals()
    for cpu, lasting, count in steps:
        kind = needs(f"{cpu}m")
        sums.add(kind, count)
        if not lasting:
            sums.add(kind, -count)
    left, wanted = sums.taken_off(capacity), less_taken(capacity, sums.totals)
    assert (left.known, left.pods, left.free, left.models) == (wanted.known, wanted.pods, wanted.free, wanted.models)
    assert {name: amount.format for name, amount in left.free.items()} == {
        name: amount.format for name, amount in wanted.free.items()
    }


def test_many_pod_classes_are_counted_in_few() -> None:
    sums = ClusterTotals()
    kinds = [needs(f"{number}m") for number in range(1, 300)]
    for kind in kinds:
        sums.add(kind, 1)
        sums.give(kind, kind, 1, 5)
    assert sum(sums.totals.values()) == len(kinds)
    assert len(sums.totals) <= KINDS
    exact = sum(want.demand.requests[0][1].nano for kind in kinds for want, _ in kind)
    assert sum(want.demand.requests[0][1].nano * count for want, count in sums.totals.items()) >= exact
    assert sum(count for _, count in sums.since(4)) == len(kinds)
    for kind in kinds:
        sums.add(kind, -1)
    assert not sums.totals


def test_pods_lost_soon_are_reserved_again_and_expire() -> None:
    ledger = holding(m1=3)
    ledger.shown(key(), "u", [status("m1", 3)], NOW + 1, 3)
    ledger.shown(key(), "u", [status("m1", 1)], NOW + 10, 4)
    assert pods(ledger, "m1") == 2
    assert ledger.since("m1", 3) == [(needs()[0][0], 2)]
    assert ledger.expire(NOW + LONGEST)
    assert pods(ledger, "m1") == 0


def test_pods_lost_long_after_placement_reserve_nothing() -> None:
    ledger = holding(m1=3)
    ledger.shown(key(), "u", [status("m1", 3)], NOW + 1, 3)
    assert not ledger.expire(NOW + LONGEST)
    ledger.shown(key(), "u", [status("m1", 0)], NOW + LONGEST + 60, 4)
    assert pods(ledger, "m1") == 0
    assert ledger.next_end() is None


def test_request_withdrawn_before_placement_leaves_nothing() -> None:
    ledger = ReservationLedger()
    ledger.requested(key(), "u1", needs(), 1)
    ledger.requested(key(), "u1", (), 2)
    assert ledger == ReservationLedger()


def test_status_without_replicas_equals_no_status() -> None:
    full, fresh = ReservationLedger(), ReservationLedger()
    for ledger in (full, fresh):
        ledger.requested(key(), "u2", needs(), 5)
    full.shown(key(), "u1", [status("m1", 2)], 1.0, 3)
    full.shown(key(), "u1", [status("m1", 0)], 2.0, 4)
    assert full == fresh
