"""Fixtures of the end-to-end tests: one running installation per module, and kubectl in two versions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.fleet import Fleet, Kubectl
from tests.e2e.kubectls import current_kubectl, debian_kubectl


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything below this directory starts a whole installation, and its steps build on one another's time."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.e2e)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """A started installation with three simulated members; whatever its services complained of fails the module."""
    if not current_kubectl():
        pytest.skip("kubectl is not installed and Debian's package cannot be fetched")
    made = Fleet(tmp_path_factory.mktemp("fleet")).start()
    try:
        yield made
    finally:
        made.stop()
    assert made.failures() == []


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
