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


def test_a_placement_holds_room_until_its_replicas_show() -> None:
    ledger = ReservationLedger()
    ledger.requested(key(), "u", needs(), 1)
    given_to(ledger, {"m1": 3, "m2": 2})
    assert (pods(ledger, "m1"), pods(ledger, "m2")) == (3, 2)
    assert ledger.shown(key(), "u", [status("m1", 2)], NOW, 9)
    assert (pods(ledger, "m1"), pods(ledger, "m2")) == (1, 2)
    assert ledger.shown(key(), "u", [status("m1", 3), status("m2", 2)], NOW, 9)
    assert (pods(ledger, "m1"), pods(ledger, "m2")) == (0, 0)


def test_growing_holds_only_what_is_new() -> None:
    ledger = ReservationLedger()
    ledger.requested(key(), "u", needs(), 1)
    given_to(ledger, {"m1": 3})
    ledger.shown(key(), "u", [status("m1", 3)], NOW, 9)
    given_to(ledger, {"m1": 5}, 4)
    assert pods(ledger, "m1") == 2
    assert ledger.since("m1", 3) == [(needs()[0][0], 2)]


def test_the_end_of_a_placement_gives_its_room_back() -> None:
    ledger = ReservationLedger()
    ledger.requested(key(), "u", needs(), 1)
    given_to(ledger, {"m1": 3})
    ledger.placed(key(), "u", (), NOW, 3)
    assert pods(ledger, "m1") == 0


def test_the_status_of_another_object_of_the_same_name_counts_for_nothing() -> None:
    ledger = ReservationLedger()
    ledger.requested(key(), "u", needs(), 1)
    given_to(ledger, {"m1": 3})
    assert not ledger.shown(key(), "former", [status("m1", 3)], NOW, 9)
    assert pods(ledger, "m1") == 3


def test_what_never_shows_is_let_go() -> None:
    ledger = ReservationLedger()
    ledger.requested(key(), "u", needs(), 1)
    given_to(ledger, {"m1": 3})
    assert not ledger.expire(NOW + LONGEST - 1)
    assert ledger.expire(NOW + LONGEST)
    assert pods(ledger, "m1") == 0
    given_to(ledger, {"m1": 3}, 5, NOW + LONGEST)
    assert pods(ledger, "m1") == 3


def test_what_shows_is_held_until_a_summary_has_it() -> None:
    ledger = ReservationLedger(settle=15.0)
    ledger.requested(key(), "u", needs(), 1)
    given_to(ledger, {"m1": 3})
    assert not ledger.shown(key(), "u", [status("m1", 3)], NOW + 10, 9)
    assert pods(ledger, "m1") == 3
    assert not ledger.summarised("m1", NOW + 9)
    assert pods(ledger, "m1") == 3
    assert ledger.summarised("m1", NOW + 12)
    assert pods(ledger, "m1") == 0


def test_a_summary_that_does_not_move_is_not_waited_for_for_ever() -> None:
    ledger = ReservationLedger(settle=15.0)
    ledger.requested(key(), "u", needs(), 1)
    given_to(ledger, {"m1": 3})
    ledger.shown(key(), "u", [status("m1", 3)], NOW + 10, 9)
    assert not ledger.expire(NOW + 24)
    assert ledger.expire(NOW + 25)
    assert pods(ledger, "m1") == 0


def test_a_promise_counts_at_once_and_once() -> None:
    ledger = ReservationLedger()
    ledger.requested(key(), "u", needs(), 1)
    ledger.promise(key(), [TargetCluster("m1", 3)], NOW)
    assert pods(ledger, "m1") == 3
    assert ledger.since("m1", 1_000) == [(needs()[0][0], 3)]
    given_to(ledger, {"m1": 3}, 7)
    assert pods(ledger, "m1") == 3
    assert ledger.since("m1", 6) == [(needs()[0][0], 3)]
    assert ledger.since("m1", 7) == []


def test_a_promise_that_is_withdrawn_leaves_nothing() -> None:
    ledger = ReservationLedger()
    ledger.requested(key(), "u", needs(), 1)
    ledger.promise(key(), [TargetCluster("m1", 3)], NOW)
    ledger.withdraw(key())
    assert pods(ledger, "m1") == 0
    assert ledger.since("m1", 0) == []


def test_other_requirements_are_held_from_their_request_on() -> None:
    ledger = ReservationLedger()
    ledger.requested(key(), "u", needs("1"), 1)
    given_to(ledger, {"m1": 3})
    ledger.requested(key(), "u", needs("2"), 3)
    assert dict(ledger.taken("m1")) == {needs("2")[0][0]: 3}


def test_an_object_or_a_cluster_that_is_gone_holds_nothing() -> None:
    ledger = ReservationLedger()
    ledger.requested(key(), "u", needs(), 1)
    given_to(ledger, {"m1": 3, "m2": 1})
    ledger.removed("m1")
    assert (pods(ledger, "m1"), pods(ledger, "m2")) == (0, 1)
    ledger.forget(key())
    assert pods(ledger, "m2") == 0


def test_shares_without_a_status_show_when_they_are_healthy() -> None:
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
def test_a_restart_comes_to_the_same_reservations(acts: list[tuple[str, int, int, str, str]]) -> None:
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
def test_answers_less_what_was_given_never_promise_too_much(gone: list[tuple[int, int, int]], cpu: int) -> None:
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
def test_pods_on_equal_model_nodes_are_placed_as_on_single_ones(
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


def test_a_summary_less_what_was_given_has_room_for_the_rest() -> None:
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
def test_running_sums_take_off_what_the_kinds_of_pods_come_to(
    steps: list[tuple[int, bool, int]], modelled: bool
) -> None:
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


def test_many_kinds_of_pods_are_counted_in_few() -> None:
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


def test_pods_that_go_away_soon_are_held_again_and_let_go_in_time() -> None:
    ledger = ReservationLedger()
    ledger.requested(key(), "u", needs(), 1)
    given_to(ledger, {"m1": 3})
    ledger.shown(key(), "u", [status("m1", 3)], NOW + 1, 3)
    ledger.shown(key(), "u", [status("m1", 1)], NOW + 10, 4)
    assert pods(ledger, "m1") == 2
    assert ledger.since("m1", 3) == [(needs()[0][0], 2)]
    assert ledger.expire(NOW + LONGEST)
    assert pods(ledger, "m1") == 0


def test_pods_that_go_away_long_after_their_placement_hold_nothing() -> None:
    ledger = ReservationLedger()
    ledger.requested(key(), "u", needs(), 1)
    given_to(ledger, {"m1": 3})
    ledger.shown(key(), "u", [status("m1", 3)], NOW + 1, 3)
    assert not ledger.expire(NOW + LONGEST)
    ledger.shown(key(), "u", [status("m1", 0)], NOW + LONGEST + 60, 4)
    assert pods(ledger, "m1") == 0
    assert ledger.next_end() is None


def test_what_was_never_placed_and_is_not_asked_for_any_more_leaves_nothing_behind() -> None:
    ledger = ReservationLedger()
    ledger.requested(key(), "u1", needs(), 1)
    ledger.requested(key(), "u1", (), 2)
    assert ledger == ReservationLedger()


def test_a_status_without_replicas_is_none_whoever_it_speaks_of() -> None:
    full, fresh = ReservationLedger(), ReservationLedger()
    for ledger in (full, fresh):
        ledger.requested(key(), "u2", needs(), 5)
    full.shown(key(), "u1", [status("m1", 2)], 1.0, 3)
    full.shown(key(), "u1", [status("m1", 0)], 2.0, 4)
    assert full == fresh
