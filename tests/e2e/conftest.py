"""Fixtures of the end-to-end tests: one running installation for all who need nothing special, and kubectl twice."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.fleet import Fleet, Kubectl
from tests.e2e.installations import installation, namespace
from tests.e2e.kubectls import current_kubectl, debian_kubectl
from tests.e2e.space import Space
from tests.e2e.used_rights import check_rights
from tests.support.folders import below

SETTINGS = {
    "FLEETLOG_FEATURE_GATES": "PropagationPolicyPreemption=true,PriorityBasedScheduling=true",
    "FLEETLOG_SHARD_GROUPS": "2",
    "FLEETLOG_HORIZONTAL_POD_AUTOSCALER_SYNC_PERIOD": "1",
    "FLEETLOG_HORIZONTAL_POD_AUTOSCALER_DOWNSCALE_STABILIZATION": "3",
    "FLEETLOG_HORIZONTAL_POD_AUTOSCALER_CPU_INITIALIZATION_PERIOD": "1",
    "FLEETLOG_HORIZONTAL_POD_AUTOSCALER_INITIAL_READINESS_DELAY": "1",
    "FLEETLOG_HPA_SCALE_TARGET_MARKER": "true",
    "FLEETLOG_DEPLOYMENT_REPLICAS_SYNCER": "true",
}
"""Gates that are off otherwise, and autoscaling without minutes of waiting."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything below this directory starts a whole installation, and its steps build on one another's time."""
    for item in below(Path(__file__).parent, items):
        if not item.get_closest_marker("timeout"):
            # The first of a module starts the installation, and a slow machine may take most of what a wait allows.
            item.add_marker(pytest.mark.timeout(300))


@pytest.fixture(scope="session")
def one_fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """A started installation with three simulated members; whatever its services complain of at the end fails."""
    with installation(tmp_path_factory, "fleet", environment=SETTINGS) as made:
        yield made


@pytest.fixture(scope="module")
def fleet(one_fleet: Fleet, request: pytest.FixtureRequest) -> Iterator[Fleet]:
    """The installation that modules share: each leaves it as it was; what services complained of fails the module."""
    before = one_fleet.failures()
    yield one_fleet
    assert one_fleet.failures() == before
    assert one_fleet.refusals() == []
    config = request.config
    part = config.option.markexpr == "main_path" or any("::" in word for word in config.args)
    whole = not (request.session.testsfailed or config.option.keyword or part)
    check_rights(one_fleet, request.node.path.stem, whole=whole)


@pytest.fixture
def space(fleet: Fleet, request: pytest.FixtureRequest) -> Iterator[Space]:
    """A namespace of its own, present in every member."""
    with namespace(fleet, request.node.name) as made:
        yield made


@pytest.fixture(params=["current", "debian"])
def program(request: pytest.FixtureRequest) -> str:
    """The kubectl on PATH, then the one Debian ships (1.20)."""
    found = current_kubectl() if request.param == "current" else debian_kubectl()
    if not found:
        pytest.skip("Debian's kubectl cannot be fetched here")
    return found


@pytest.fixture
def control(fleet: Fleet) -> Kubectl:
    """kubectl of the control plane."""
    return fleet.kubectl()


@pytest.fixture
def members(fleet: Fleet) -> dict[str, Kubectl]:
    """kubectl of every member, by its name."""
    return {name: fleet.kubectl(name) for name in fleet.members}
