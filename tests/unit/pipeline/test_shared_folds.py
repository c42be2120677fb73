"""What services that share their work fold: facts of their own shard group, and what these depend on."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from schemas.codec import Known, encode, subject_of
from schemas.keys import ObjectKey
from schemas.shard_groups import groups_of
from services._kit.log.stream_port import Message
from services.executor.app import Executor
from services.executor.settings import ExecutorSettings
from services.override_renderer.app import OverrideRenderer
from services.status_aggregator.app import StatusAggregator
from services.status_aggregator.settings import AggregatorSettings
from tests.support.facts import KEY, binding, cluster, template, work

CLUSTERS = [f"m{number}" for number in range(10)]
NAMESPACES = [f"team-{number}" for number in range(10)]


def in_group(made: Any, index: int) -> Any:
    made._context = SimpleNamespace(group=groups_of(2)[index])
    return made


def folded(service: Any, *events: Known) -> Any:
    state = service.new_state()
    for seq, event in enumerate(events, 1):
        list(service.fold(state, Message(subject_of(event), seq, 1.0, {}, encode(event)), event))
    return state


def test_executors_remember_works_of_their_clusters() -> None:
    held = []
    for index in range(2):
        executor = in_group(Executor(ExecutorSettings(control_kubeconfig="none")), index)
        events = [cluster(name) for name in CLUSTERS] + [work(name) for name in CLUSTERS]
        state = folded(executor, *events)
        assert set(state.clusters) == set(CLUSTERS)
        held.append({name for name in CLUSTERS if KEY in state.of(name).works})
        assert held[-1] == {name for name in CLUSTERS if executor.group.owns(name)}
    assert held[0] | held[1] == set(CLUSTERS)
    assert not held[0] & held[1]


def test_aggregators_remember_objects_of_their_namespaces() -> None:
    held = []
    for index in range(2):
        aggregator = in_group(StatusAggregator(AggregatorSettings(control_kubeconfig="none")), index)
        keys = [ObjectKey("apps", "deployments", name, "web") for name in NAMESPACES]
        state = folded(aggregator, *(replace(template(), key=key) for key in keys))
        held.append({key.namespace for key in state.objects})
    assert held[0] | held[1] == set(NAMESPACES)
    assert not held[0] & held[1]


@pytest.mark.parametrize("index", [0, 1])
def test_renderers_remember_facets_of_all_objects(index: int) -> None:
    renderer = in_group(OverrideRenderer(), index)
    state = folded(renderer, template(), binding(), work("m1"))
    assert state.objects[KEY].binding is not None
    assert bool(state.objects[KEY].works) is renderer.owns(KEY)
