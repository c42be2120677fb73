"""Who could not be placed is looked at again when a cluster's change can help it, and only then."""

from __future__ import annotations

import pytest

from schemas.codec import Known
from schemas.events.placement import PlacementDecided, PlacementFailed
from schemas.manifest import Manifest
from services.scheduler.queue import unschedulable_queue as queue_watch
from tests.support.facts import (
    AGGREGATED,
    ANYWHERE,
    BOTH,
    ONE_CLUSTER,
    STATIC,
    UNSCHEDULABLE,
    asked,
    cluster,
    edited,
    key,
    member,
    released,
    removed,
    rollup,
)
from tests.support.harness import SCHEDULER, Harness, seen_at

GOLD = {"clusterAffinity": {"labelSelector": {"matchLabels": {"tier": "gold"}}}}


class Unschedulable(Harness):
    """A scheduler that decides objects again and again."""

    def __init__(self, *events: Known) -> None:
        super().__init__(SCHEDULER, *events)

    def places(self, *names: str) -> list[Known | None]:
        """Decide objects and append what comes out."""
        found: list[Known | None] = []
        for name in names:
            self.state.ledger.withdraw(key(name))
            found.append(self.decides(name))
        return found


def short(scheduler: Unschedulable, *names: str) -> Unschedulable:
    """Let objects fail for want of capacity, and be tried once with all that is known."""
    for event in scheduler.places(*names):
        assert isinstance(event, PlacementFailed)
        assert event.reason == "Unschedulable"
    scheduler.given(member("m1", 3))
    return scheduler


def test_unschedulable_requeued_when_capacity_suffices() -> None:
    scheduler = short(Unschedulable(member("m1", 2), member("m2", 1), asked("web", 8)), "web")
    assert scheduler.marks(member("m1", 4)) == set()
    assert scheduler.marks(member("m2", 3)) == set()
    assert scheduler.marks(member("m1", 5)) == {"web"}
    assert isinstance(scheduler.places("web")[0], PlacementDecided)


def test_known_capacity_that_returns_requeues_nothing() -> None:
    scheduler = Unschedulable(member("m1", 1), member("m2", 9), asked("web", 12, {**AGGREGATED, **ONE_CLUSTER}))
    assert isinstance(scheduler.places("web")[0], PlacementFailed)
    assert scheduler.marks(member("m1", 2)) == set(), "together they have room for eleven"
    assert scheduler.marks(member("m1", 6)) == {"web"}, "the clusters together have room for twelve"
    assert scheduler.places("web") == [None]
    for cpu in (5, 6, 4, 6):
        assert scheduler.marks(member("m1", cpu)) == set()
    assert scheduler.marks(member("m1", 12)) == {"web"}
    assert isinstance(scheduler.places("web")[0], PlacementDecided)


def test_placed_objects_are_not_requeued_for_capacity() -> None:
    scheduler = Unschedulable(
        member("m1", 9), member("m2", 9), asked("web", 8), asked("all", 1, {"clusterAffinity": BOTH})
    )
    scheduler.places("web", "all")
    assert scheduler.marks(member("m1", 90)) == set()


def test_only_objects_that_fit_are_requeued() -> None:
    scheduler = Unschedulable(
        member("m1", 2), member("m2", 1), asked("small", 6), asked("large", 60), asked("other", 6, cpu="9")
    )
    short(scheduler, "small", "large", "other")
    assert scheduler.marks(member("m1", 5)) == {"small"}
    assert scheduler.marks(member("m1", 60)) >= {"large"}


def test_capacity_outside_the_affinity_requeues_nothing() -> None:
    scheduler = short(Unschedulable(member("m1", 2), member("m2", 1), member("m3", 1), asked("web", 8)), "web")
    assert scheduler.marks(member("m3", 500)) == set()


def test_capacity_of_tainted_cluster_counts_without_taint() -> None:
    scheduler = short(Unschedulable(member("m1", 2), member("m2", 1, taints=UNSCHEDULABLE), asked("web", 8)), "web")
    assert scheduler.marks(member("m2", 50, taints=UNSCHEDULABLE)) == set()
    assert scheduler.marks(member("m2", 50)) == {"web"}
    assert isinstance(scheduler.places("web")[0], PlacementDecided)


def test_new_cluster_and_new_label_requeue_unmatched() -> None:
    scheduler = Unschedulable(cluster("m1"), asked("web", 1, GOLD))
    event = scheduler.places("web")[0]
    assert isinstance(event, PlacementFailed)
    assert event.reason == "NoClusterFit"
    assert scheduler.marks(cluster("m2")) == set(), "without the label it is none of the object's"
    assert scheduler.marks(member("m1", 50)) == set(), "room does not make it match"
    assert scheduler.marks(cluster("m3", labels={"tier": "gold"})) == {"web"}
    assert scheduler.marks(cluster("m1", labels={"tier": "gold"})) == {"web"}


def test_new_api_requeues_objects_of_its_kind() -> None:
    other = {"apiVersion": "batch/v1", "kind": "Job", "namespace": "default", "name": "settings", "uid": "u1"}
    settings = edited(asked("settings", 1, ANYWHERE), "spec", resource=other)
    scheduler = Unschedulable(member("m1", serves=False), asked("web", 1, ANYWHERE), settings)
    assert all(isinstance(event, PlacementFailed) for event in scheduler.places("web", "settings"))
    assert scheduler.marks(cluster("m1")) == {"web"}


def test_chosen_cluster_depends_on_named_clusters_only() -> None:
    chosen: Manifest = {"clusterAffinity": BOTH, **ONE_CLUSTER}
    scheduler = Unschedulable(cluster("m1"), cluster("m2"), cluster("m3"), asked("web", 1, chosen))
    scheduler.places("web")
    assert scheduler.marks(cluster("m3", labels={"a": "b"})) == set()
    assert scheduler.marks(cluster("m2", labels={"a": "b"})) == {"web"}


def test_divided_object_requeued_when_its_cluster_leaves() -> None:
    scheduler = Unschedulable(cluster("m1"), cluster("m2"), cluster("m3"), asked("web", 2, STATIC))
    scheduler.places("web")
    assert scheduler.marks(cluster("m1", labels={"a": "b"}), cluster("m3", deleting=True)) == set()
    assert scheduler.marks(cluster("m2", deleting=True)) == {"web"}
    assert scheduler.marks(removed("m2")) == {"web"}


def test_released_capacity_requeues_objects_that_fit() -> None:
    scheduler = Unschedulable(member("m1", 6), member("m2", 1), asked("one", 6), asked("two", 5), asked("three", 40))
    assert isinstance(scheduler.places("one")[0], PlacementDecided)
    assert all(isinstance(event, PlacementFailed) for event in scheduler.places("two", "three"))
    assert scheduler.marks(member("m2", 2)) == set()
    assert scheduler.marks(released("one")) == {"one", "two"}
    assert isinstance(scheduler.places("two")[0], PlacementDecided)


def test_reported_pods_release_no_capacity() -> None:
    scheduler = Unschedulable(member("m1", 6), member("m2", 1), asked("one", 6), asked("two", 5))
    scheduler.places("one", "two")
    scheduler.marks(member("m2", 2))
    assert scheduler.marks(rollup(name="one", m1={"replicas": 6})) <= {"two"}


def test_change_during_failed_attempt_requeues() -> None:
    scheduler = Unschedulable(member("m1", 1), member("m2", 1), asked("web", 8))
    failed = scheduler.decided("web")
    assert isinstance(failed, PlacementFailed)
    seen = scheduler.seq
    assert scheduler.marks(member("m1", 20)) <= {"web"}
    assert scheduler.marks(seen_at(failed, seen)) == {"web"}
    assert isinstance(scheduler.places("web")[0], PlacementDecided)


def test_placed_and_released_objects_leave_the_queue() -> None:
    scheduler = short(Unschedulable(member("m1", 2), member("m2", 1), asked("web", 8), asked("gone", 9)), "web", "gone")
    scheduler.marks(released("gone"))
    assert scheduler.marks(member("m1", 50)) == {"web"}
    scheduler.places("web")
    assert scheduler.marks(member("m1", 60)) == set()
    assert scheduler.state.watch.failed == set()


def test_unreadable_binding_is_not_requeued_by_clusters() -> None:
    scheduler = Unschedulable(cluster("m1"), asked("web", 1, {"clusterAffinity": {"clusterNames": 7}}))
    assert isinstance(scheduler.places("web")[0], PlacementFailed)
    assert scheduler.marks(cluster("m2"), member("m1", 50)) == set()


def test_one_cluster_requeues_only_fitting_of_many() -> None:
    count = 2000
    scheduler = Unschedulable(member("m1", 1), member("m2", 1))
    scheduler.marks(*(asked(f"web-{number}", 50 + number % 7) for number in range(count)))
    scheduler.places(*(f"web-{number}" for number in range(count)))
    scheduler.marks(member("m1", 2))
    for cpu in (3, 2, 40, 1, 45):
        assert scheduler.marks(member("m1", cpu)) == set()
    assert len(scheduler.marks(member("m1", 49))) == len([number for number in range(count) if number % 7 == 0])


def test_follower_counts_no_capacity() -> None:
    scheduler = Unschedulable()
    scheduler.state.watch.end()
    scheduler.marks(member("m1", 1), member("m2", 1), asked("web", 8))
    scheduler.places("web")
    assert scheduler.marks(member("m1", 90)) == set()
    scheduler.state.watch.begin()
    assert scheduler.marks(member("m1", 91)) == {"web"}


def test_capacity_of_many_requirements_is_counted_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_watch, "COUNTED_AT_ONCE", 2)
    names = [f"web-{number}" for number in range(6)]
    scheduler = Unschedulable(member("m1", 1), member("m2", 1))
    scheduler.marks(*(asked(name, 50 + number, cpu=str(number + 1)) for number, name in enumerate(names)))
    assert all(isinstance(event, PlacementFailed) for event in scheduler.places(*names))
    called = scheduler.marks(member("m1", 2))
    assert 0 < len(called) < 6, "one kind was counted, the others have to be tried"
    for name in called:
        scheduler.state.tried(key(name))
        scheduler.places(name)
    assert scheduler.marks(member("m1", 3)) == set()
    assert scheduler.marks(removed("m2")) == set()
    assert scheduler.marks(member("m1", 50)) == {"web-0"}


def test_capacity_taken_by_another_hides_no_later_growth() -> None:
    scheduler = Unschedulable(member("m1", 1), member("m2", 0), asked("one", 2), asked("two", 2))
    scheduler.places("one", "two")
    assert scheduler.marks(member("m1", 2)) == {"one", "two"}
    scheduler.places("one", "two")
    scheduler.state.tried(key("two"))
    assert scheduler.marks(member("m1", 3)) == set()
    assert scheduler.marks(member("m1", 4)) == {"two"}
    assert isinstance(scheduler.places("two")[0], PlacementDecided)
