"""Services that nothing waits for run behind the others, and programs that would take much memory are held to less."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from services.cli.installation.processes import PATIENT, SPARING
from services.cli.supervision.supervised_process import Rank
from tests.support.supervised import empty_installation, supervised

ON_THE_WAY = {"detector", "scheduler", "override_renderer", "executor", "registrar", "status_aggregator", "estimator"}


@pytest.mark.parametrize("name", ["gateway", "scheduler"])
def test_service_runs_with_its_niceness(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = tmp_path / "niceness"
    (tmp_path / "says_its_niceness.py").write_text(
        f"import os\ndef main():\n    open({str(told)!r}, 'w').write(str(os.nice(0)))\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    layout = empty_installation(tmp_path / "installation")
    with supervised(layout) as supervisor:
        supervisor.add_service(name, Rank.SERVICE, "says_its_niceness", {})
        os.waitid(os.P_PID, int(layout.pid(name).read_text()), os.WEXITED | os.WNOWAIT)
    assert int(told.read_text()) == min(19, os.nice(0) + PATIENT.get(name, 0))


def test_services_of_the_delivery_path_are_not_patient() -> None:
    assert not ON_THE_WAY & PATIENT.keys()


@pytest.mark.parametrize(("chosen", "expected"), [("", SPARING["nats"]["GOGC"]), ("400", "400")])
def test_log_server_collects_garbage_early_by_default(
    chosen: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GOGC", raising=False)
    if chosen:
        monkeypatch.setenv("GOGC", chosen)
    layout = empty_installation(tmp_path)
    with supervised(layout) as supervisor:
        supervisor.add_command("nats", Rank.LOG, ["sh", "-c", "echo $GOGC"])
        os.waitid(os.P_PID, int(layout.pid("nats").read_text()), os.WEXITED | os.WNOWAIT)
    assert layout.log("nats").read_text().split() == [expected]
