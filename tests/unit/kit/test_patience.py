"""Services that fold in batches: what they wait for themselves is not kept waiting, and a standby waits for nothing."""

from __future__ import annotations

from importlib import import_module

import pytest

from schemas.topology import SERVICES, SUBJECTS
from services._kit.runtime.runner import Runner
from services._kit.runtime.service import BaseService
from tests.support.memory_bus import MemoryBus
from tests.support.memory_log import MemoryLog


def services() -> list[type[BaseService[object, object]]]:
    """Classes of services that name a patience."""
    found = []
    for name in SERVICES:
        module = import_module(f"services.{name}.app")
        found += [kind for kind in vars(module).values() if isinstance(kind, type) and _is(kind, name)]
    return [kind for kind in found if kind.patience]


def _is(kind: type, name: str) -> bool:
    return issubclass(kind, BaseService) and kind.name == name


def test_those_are_known() -> None:
    assert {kind.name for kind in services()} == {"estimator", "failover", "gateway", "janitor"}


@pytest.mark.parametrize("kind", services(), ids=lambda kind: kind.name)
def test_what_a_service_writes_and_reads_back_hurries(kind: type[BaseService[object, object]]) -> None:
    words = {pattern.partition(".")[0] for pattern in kind.filters}
    own = {subject.pattern.partition(".")[0] for subject in SUBJECTS if subject.writer == kind.name}
    assert {f"{word}." for word in words & own} <= set(kind.hurries)


async def test_only_who_works_waits() -> None:
    failover = import_module("services.failover.app").Failover
    settings = import_module("services.failover.settings").FailoverSettings()
    runner = Runner(failover(settings), {"FACTS": MemoryLog()}, MemoryBus(), "failover-0")
    patience = runner._patience()
    assert patience is not None
    assert patience.seconds() == 0
    runner.active = True
    assert patience.seconds() == failover.patience
    assert "lease.failover" in patience.hurries
