"""In which namespaces the services are bound to read the members' credentials, and what is said where they are not."""

from __future__ import annotations

from typing import Any

import pytest

from schemas.manifest import Manifest
from services._rules.constants import NAMESPACE_CLUSTER
from services._rules.kubernetes.rbac.credential_bindings import (
    NOT_BOUND,
    Plan,
    accounts_of,
    bindings_of,
    bound_namespaces,
    plan,
)
from services._rules.kubernetes.rbac.service_roles import CREDENTIALS, account_of, user_of
from services.cluster_monitor.decide import AddFinalizer, ClusterDecision, KeepBindings
from services.cluster_monitor.state import BindingsKept
from tests.support.facts import NOW
from tests.support.monitor_harness import MonitorHarness


def spec(namespace: str, impersonator: str = NAMESPACE_CLUSTER) -> Manifest:
    return {
        "syncMode": "Push",
        "secretRef": {"namespace": namespace, "name": "m1"},
        "impersonatorSecretRef": {"namespace": impersonator, "name": "m1-impersonator"},
    }


@pytest.mark.parametrize(
    ("given", "bound"),
    [
        ({}, set()),
        ({"secretRef": None}, set()),
        (spec(NAMESPACE_CLUSTER), set()),
        (spec("x"), {"x"}),
        (spec("x", "y"), {"x", "y"}),
        (spec("kube-system", "kube-public"), set()),
        (spec("karmada-system", "fleetlog-system"), set()),
        (spec("karmada-es-m1"), set()),
        (spec("kubernetes"), {"kubernetes"}),
    ],
)
def test_namespaces_of_the_system_are_never_bound(given: Manifest, bound: set[str]) -> None:
    assert bound_namespaces(given) == bound


def test_bindings_have_all_services_that_read_credentials() -> None:
    subjects = [one for binding in bindings_of("x", {"executor"}) for one in binding["subjects"]]
    assert {one["name"] for one in subjects if one["kind"] == "User"} == set(map(user_of, CREDENTIALS))
    assert [one for one in subjects if one["kind"] != "User"] == [account_of("executor")]


def test_only_what_differs_is_written() -> None:
    made = plan({"x"}, [], ())
    assert [one["metadata"]["namespace"] for one in made.create] == ["x", "x"]
    assert not made.patch
    assert not made.delete
    assert plan({"x"}, made.create, ()) == Plan()
    (patched,) = plan({"x"}, made.create, {"executor"}).patch
    assert account_of("executor") in patched["subjects"]
    assert plan({"y"}, made.create, ()).delete == made.create
    other = {**made.create[0], "metadata": {**made.create[0]["metadata"], "name": "other"}}
    assert plan((), [other], ()) == Plan()


def test_accounts_are_bound_where_services_are_accounts() -> None:
    assert accounts_of([{"subjects": [account_of("cluster_monitor")]}, {}]) == {"cluster_monitor"}
    assert accounts_of([{"subjects": [{**account_of("executor"), "namespace": "other"}]}]) == set()


def named(namespace: str) -> MonitorHarness:
    """A cluster whose Secret is in a namespace; nothing is bound yet."""
    made = MonitorHarness("m1")
    made.manifest["spec"].update(spec(namespace))
    return made


def keeps(decision: ClusterDecision) -> list[set[str]]:
    return [set(effect.namespaces) for effect in decision.effects if isinstance(effect, KeepBindings)]


def kept(monitor: MonitorHarness, *namespaces: str, at: float = 0.0, **refused: str) -> None:
    """Take in a round of bindings."""
    monitor.state.bindings = BindingsKept(frozenset(namespaces), refused, NOW + at)


def test_a_cluster_is_taken_in_once_its_secret_can_be_read() -> None:
    monitor = named("x")
    monitor.manifest["metadata"]["finalizers"] = []
    assert monitor.decides() == ClusterDecision()
    assert keeps(monitor.decides_all()) == [{"x"}]
    kept(monitor, "x")
    assert keeps(monitor.decides_all()) == []
    assert any(isinstance(effect, AddFinalizer) for effect in monitor.decides().effects)


def test_what_a_new_leader_finds_is_compared_once() -> None:
    monitor = MonitorHarness("m1")
    monitor.state.bindings = None
    assert keeps(monitor.decides_all()) == [set()]
    # Clusters in the usual namespace do not wait for it.
    assert monitor.decides().events


def test_a_refused_binding_is_tried_again_later() -> None:
    monitor = named("x")
    kept(monitor, "x", x="no right")
    assert monitor.decides_all(at=29).wake_at == NOW + 30
    assert keeps(monitor.decides_all(at=30)) == [{"x"}]


def test_bindings_are_compared_again_while_a_secret_fails() -> None:
    monitor = named("x")
    kept(monitor, "x")
    monitor.probes(10, online=False, error="secrets is forbidden")
    assert keeps(monitor.decides_all(at=29)) == []
    assert keeps(monitor.decides_all(at=30)) == [{"x"}]
    monitor.probes(40)
    assert monitor.decides_all(at=70) == ClusterDecision(unused={})


def test_bindings_go_a_minute_after_the_last_cluster() -> None:
    monitor = named("x")
    kept(monitor, "x")
    assert monitor.decides_all().wake_at is None
    monitor.manifest["spec"].update(spec(NAMESPACE_CLUSTER))
    decision = monitor.decides_all(at=5)
    assert (keeps(decision), decision.wake_at) == ([], NOW + 65)
    assert keeps(monitor.decides_all(at=64)) == []
    assert keeps(monitor.decides_all(at=65)) == [set()]


def test_a_namespace_that_is_named_again_stays_bound() -> None:
    monitor = named("x")
    kept(monitor, "x")
    monitor.manifest["spec"].update(spec(NAMESPACE_CLUSTER))
    monitor.decides_all(at=5)
    monitor.manifest["spec"].update(spec("x"))
    assert monitor.decides_all(at=60).wake_at is None
    monitor.manifest["spec"].update(spec(NAMESPACE_CLUSTER))
    assert monitor.decides_all(at=70).wake_at == NOW + 130


def test_a_cluster_on_record_that_is_missing_keeps_its_bindings() -> None:
    monitor = named("x")
    kept(monitor, "x")
    assert monitor.decides().events
    monitor.cluster.manifest = None
    assert keeps(monitor.decides_all(at=900)) == []


@pytest.mark.parametrize(
    ("namespace", "refused", "said"),
    [
        ("kube-system", {}, NOT_BOUND),
        ("x", {"x": "rolebindings is forbidden"}, "rolebindings is forbidden"),
        ("x", {}, "secrets is forbidden"),
        (NAMESPACE_CLUSTER, {}, "secrets is forbidden"),
    ],
)
def test_ready_says_why_a_secret_cannot_be_read(namespace: str, refused: dict[str, str], said: str) -> None:
    monitor = named(namespace)
    kept(monitor, *bound_namespaces(monitor.manifest["spec"]), **refused)
    decision = monitor.probes(0, online=False, error="secrets is forbidden")
    (ready,) = [one for one in monitor.manifest["status"]["conditions"] if one["type"] == "Ready"]
    assert (ready["status"], ready["reason"]) == ("False", "StatusCollectionFailed")
    assert ready["message"].endswith(said)
    (note,) = notes(decision)
    assert note.message == ready["message"]


def notes(decision: ClusterDecision) -> list[Any]:
    """What is told with the status."""
    return [note for effect in decision.effects for note in getattr(effect, "notes", ()) if "Status" in note.reason]
