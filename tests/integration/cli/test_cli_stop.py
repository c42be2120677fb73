"""The end of an installation: by `fleetlog stop`, or because its supervisor was killed; and the start after that."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from services.cli.supervision.lock import Lock
from services.cli.supervision.process_identity import Roll, runs
from tests.e2e.fleet import Fleet, until
from tests.e2e.installations import installation
from tests.support.commands import run_command
from tests.support.standing import stand_still

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """A small installation."""
    with installation(tmp_path_factory, "stop", ["--members", "1"]) as made:
        yield made


def supervisor(fleet: Fleet) -> int:
    """Process id of the `up` that holds the lock."""
    holder = Lock(fleet.layout.lock).holder()
    assert holder is not None
    return holder.running.pid


def deliver(fleet: Fleet, name: str) -> None:
    """Create a ConfigMap with a policy, and wait for its copy in the member."""
    control, metadata = fleet.kubectl(), {"name": name, "namespace": "default"}
    control.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "b"}})
    spec = {
        "resourceSelectors": [{"apiVersion": "v1", "kind": "ConfigMap", "name": name}],
        "placement": {"clusterAffinity": {"clusterNames": ["member1"]}},
    }
    policy = {"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy"}
    control.apply({**policy, "metadata": metadata, "spec": spec})
    until("the copy", lambda: fleet.kubectl("member1").get("configmap", name, "default"))


def forget(fleet: Fleet) -> None:
    """Let the killed `up` be collected, so that the next start has a process of its own."""
    fleet.ended()
    fleet.stop()


def test_start_after_a_killed_supervisor_keeps_everything(fleet: Fleet) -> None:
    deliver(fleet, "before")
    # One that stands still does not end with the supervisor: the next start has to find it.
    [still] = [entry.running for entry in Roll(fleet.layout.roll).left() if entry.name == "executor"]
    assert still.pid == fleet.pid("executor")
    stand_still(still.pid)
    killed = supervisor(fleet)
    others = [entry for entry in Roll(fleet.layout.roll).left() if entry.name != "executor"]
    os.kill(killed, signal.SIGKILL)
    forget(fleet)
    until("all others have ended", lambda: [entry.name for entry in Roll(fleet.layout.roll).left()] == ["executor"])
    assert len(others) > 5
    fleet.start()
    printed = fleet.printed()
    assert f"found 1 process of an installation whose supervisor (process {killed}, since 20" in printed
    assert fleet.pid("executor") != still.pid
    assert not runs(still)
    assert fleet.kubectl().get("configmap", "before", "default")
    deliver(fleet, "after")


def test_a_second_start_names_the_process_and_the_way_to_stop_it(fleet: Fleet) -> None:
    before = fleet.layout.state.read_bytes()
    done = run_command("fleetlog", "up", "--dir", str(fleet.layout.directory), "--descheduler")
    assert done.returncode == 1
    directory = fleet.layout.directory
    assert f"an installation runs in {directory} already: process {supervisor(fleet)}, since 20" in done.stderr
    assert f"stop it with `fleetlog stop --dir {directory}`" in done.stderr
    assert fleet.layout.state.read_bytes() == before, "a start that is refused changes nothing"


def test_stopped_installation_starts_again_with_its_data(fleet: Fleet) -> None:
    deliver(fleet, "kept")
    entries = Roll(fleet.layout.roll).left()
    assert len(entries) > 5
    done = run_command("fleetlog", "stop", "--dir", str(fleet.layout.directory))
    assert (done.returncode, done.stdout) == (
        0,
        f"stopped the installation in {fleet.layout.directory}; its data stays\n",
    )
    assert "stopping the installation of process " in done.stderr
    assert Roll(fleet.layout.roll).left() == []
    assert fleet.ended() == 0
    fleet.stop()
    again = run_command("fleetlog", "stop", FLEETLOG_DIR=str(fleet.layout.directory))
    assert (again.returncode, again.stdout) == (0, f"no installation runs in {fleet.layout.directory}\n")
    fleet.start()
    assert fleet.kubectl().get("configmap", "kept", "default")
