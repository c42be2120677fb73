"""A decision is a function of state, key and time: made twice it is the same, and the state stays as it was."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

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
from tests.support.deciders.deciders_of_autoscaling import AUTOSCALER, AUTOSCALER_SHELL
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

HISTORIES = 150
LONGEST = 14
"""Steps of a history beyond its beginning."""

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
    AUTOSCALER,
]


def histories(decider: Decider) -> Iterator[tuple[Any, float, list[Step]]]:
    """States after some of what happens to a service, the time, and what happened."""
    chance = random.Random(decider.name)
    taken = Step("decisions are taken", lambda *_: None)
    mixed = [*decider.steps, *[taken] * (len(decider.steps) // 4)]
    for _ in range(HISTORIES):
        first = decider.first if chance.random() < 0.5 else ()
        steps = [*first, *chance.choices(mixed, k=chance.randint(0, LONGEST))]
        state, seq = decider.new(), 0
        for step in steps:
            seq += 1
            if step is not taken:
                step.act(state, seq)
                continue
            for key in list(decider.keys(state)):
                seq += 1
                decider.take(state, key, decider.decide(state, key, NOW + seq), seq)
        yield state, NOW + seq, steps


@pytest.mark.parametrize("decider", DECIDERS, ids=str)
def test_repeated_decision_is_equal_and_changes_no_state(decider: Decider) -> None:
    for state, present, steps in histories(decider):
        before = image(state)
        for key in list(decider.keys(state)):
            for now in (present, NOW + 1000.0):
                copied = copy.deepcopy(state)
                first = image(decider.decide(copied, key, now))
                again = image(decider.decide(copied, key, now))
                assert not difference(first, again), f"{key} is decided otherwise the second time, after {steps}"
                assert not difference(before, image(copied)), f"deciding {key} changed the state, after {steps}"


CONTROL = "unused"
SHELLS: list[tuple[Decider, Callable[[], Any], set[str]]] = [
    (
        DETECTOR,
        lambda: Detector(DetectorSettings(control_kubeconfig=CONTROL)),
        {"waiting", "ranked", "lacking", "edited", "guard"},
    ),
    (SCHEDULER, lambda: Scheduler(SchedulerSettings()), {"ledger", "peers", "watch", "rooms"}),
    (RENDERER, OverrideRenderer, set()),
    (AGGREGATOR, lambda: StatusAggregator(AggregatorSettings(control_kubeconfig=CONTROL)), set()),
    (FAILOVER, lambda: Failover(load(FailoverSettings, {})), set()),
    (DESCHEDULER, lambda: Descheduler(DeschedulerSettings()), set()),
    (MONITOR, lambda: ClusterMonitor(MonitorSettings(control_kubeconfig=CONTROL)), {"clusters", "guard"}),
    (JANITOR, lambda: Janitor(JanitorSettings()), set()),
    (ESTIMATOR, lambda: Estimator(EstimatorSettings(control_kubeconfig=CONTROL)), {"ledger"}),
    (AUTOSCALER, AUTOSCALER_SHELL, set()),
]
"""Services, and the fields of their states that take in what a decision found out."""


@pytest.mark.parametrize(("decider", "service", "fields"), SHELLS, ids=[str(shell[0]) for shell in SHELLS])
def test_service_stores_decisions_in_few_fields(decider: Decider, service: Callable[[], Any], fields: set[str]) -> None:
    for state, now, steps in histories(decider):
        shell, before = service(), image(state)[1]
        for key in list(decider.keys(state)):
            shell.decide(state, key, now)
        after = image(state)[1]
        assert not {name for name in before if before[name] != after[name]} - fields, f"after {steps}"
