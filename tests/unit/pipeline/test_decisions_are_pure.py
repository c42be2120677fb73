"""A decision is a function of state, key and time: made twice it is the same, and the state stays as it was."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from services._kit.base.settings import load
from services.cluster_monitor.app import ClusterMonitor
from services.cluster_monitor.settings import MonitorSettings
from services.descheduler.app import Descheduler
from services.descheduler.settings import DeschedulerSettings
from services.detector.app import Detector
from services.detector.settings import DetectorSettings
from services.estimator.app import Estimator
from services.estimator.settings import EstimatorSettings
from services.failover.app import Failover
from services.failover.settings import FailoverSettings
from services.janitor.app import Janitor
from services.janitor.settings import JanitorSettings
from services.override_renderer.app import OverrideRenderer
from services.scheduler.app import Scheduler
from services.scheduler.settings import SchedulerSettings
from services.status_aggregator.app import StatusAggregator
from services.status_aggregator.settings import AggregatorSettings
from tests.support.deciders.decider import Decider, Step
from tests.support.deciders.deciders_of_clusters import DETECTOR, ESTIMATOR, MONITOR
from tests.support.deciders.deciders_of_facts import (
    AGGREGATOR,
    DESCHEDULER,
    FAILOVER,
    JANITOR,
    REGISTRAR,
    RENDERER,
    SCHEDULER,
)
from tests.support.state_image import difference, image
from tests.support.varied_facts import NOW

EXAMPLES = settings(max_examples=120, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])

DECIDERS = [
    DETECTOR,
    SCHEDULER,
    RENDERER,
    AGGREGATOR,
    FAILOVER,
    DESCHEDULER,
    MONITOR,
    JANITOR,
    ESTIMATOR,
    REGISTRAR,
]


def drawn(decider: Decider, data: st.DataObject) -> tuple[Any, float]:
    """A state after some of what happens to it, and the time."""
    taken = Step("decisions are taken", lambda *_: None)
    steps = data.draw(st.lists(st.sampled_from([*decider.steps, taken, taken]), max_size=12))
    state, seq = decider.new(), 0
    for step in steps:
        seq += 1
        if step is not taken:
            step.act(state, seq)
            continue
        for key in list(decider.keys(state)):
            seq += 1
            decider.take(state, key, decider.decide(state, key, NOW + seq), seq)
    return state, NOW + seq


@pytest.mark.parametrize("decider", DECIDERS, ids=str)
@EXAMPLES
@given(data=st.data())
def test_a_decision_twice_is_one_and_changes_no_state(decider: Decider, data: st.DataObject) -> None:
    state, present = drawn(decider, data)
    before = image(state)
    for key in list(decider.keys(state)):
        for now in (present, NOW + 1000.0):
            copied = copy.deepcopy(state)
            first = image(decider.decide(copied, key, now))
            assert not difference(first, image(decider.decide(copied, key, now))), f"{key} is decided otherwise now"
            assert not difference(before, image(copied)), f"deciding {key} changed the state"


CONTROL = "unused"
SHELLS: list[tuple[Decider, Callable[[], Any], set[str]]] = [
    (DETECTOR, lambda: Detector(DetectorSettings(control_kubeconfig=CONTROL)), {"waiting", "ranked", "guard"}),
    (SCHEDULER, lambda: Scheduler(SchedulerSettings()), {"ledger", "peers", "watch", "rooms"}),
    (RENDERER, OverrideRenderer, set()),
    (AGGREGATOR, lambda: StatusAggregator(AggregatorSettings(control_kubeconfig=CONTROL)), set()),
    (FAILOVER, lambda: Failover(load(FailoverSettings, {})), set()),
    (DESCHEDULER, lambda: Descheduler(DeschedulerSettings()), {"answers"}),
    (MONITOR, lambda: ClusterMonitor(MonitorSettings(control_kubeconfig=CONTROL)), {"clusters", "guard"}),
    (JANITOR, lambda: Janitor(JanitorSettings()), set()),
    (ESTIMATOR, lambda: Estimator(EstimatorSettings(control_kubeconfig=CONTROL)), {"ledger", "remotes"}),
]
"""Services, and the fields of their states that take in what a decision found out."""


@pytest.mark.parametrize(("decider", "service", "fields"), SHELLS, ids=[str(shell[0]) for shell in SHELLS])
@EXAMPLES
@given(data=st.data())
def test_a_service_takes_in_a_decision_in_few_fields(
    decider: Decider, service: Callable[[], Any], fields: set[str], data: st.DataObject
) -> None:
    state, now = drawn(decider, data)
    shell, before = service(), image(state)[1]
    for key in list(decider.keys(state)):
        shell.decide(state, key, now)
    after = image(state)[1]
    assert not {name for name in before if before[name] != after[name]} - fields
