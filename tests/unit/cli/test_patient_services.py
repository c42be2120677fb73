"""Services that nothing waits for run behind the others, and programs that would take much memory are held to less."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from services.cli.common.layout import Layout, new_installation
from services.cli.installation.processes import PATIENT, SPARING, Supervisor
from services.cli.supervision.supervised_process import Rank

ON_THE_WAY = {"detector", "scheduler", "override_renderer", "executor", "registrar", "status_aggregator", "estimator"}


@pytest.mark.parametrize("name", ["gateway", "scheduler"])
def test_a_service_gets_its_niceness_and_those_on_the_way_none(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = tmp_path / "niceness"
    (tmp_path / "says_its_niceness.py").write_text(
        f"import os\ndef main():\n    open({str(told)!r}, 'w').write(str(os.nice(0)))\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    layout = Layout(tmp_path / "installation")
    layout.save(new_installation([]))
    supervisor = Supervisor(layout)
    try:
        supervisor.add_service(name, Rank.SERVICE, "says_its_niceness", {})
        os.waitid(os.P_PID, int(layout.pid(name).read_text()), os.WEXITED | os.WNOWAIT)
    finally:
        supervisor.stop()
    assert int(told.read_text()) == min(19, os.nice(0) + PATIENT.get(name, 0))


def test_nobody_on_the_way_of_a_delivery_is_put_behind_others() -> None:
    assert not ON_THE_WAY & PATIENT.keys()


@pytest.mark.parametrize(("chosen", "expected"), [("", SPARING["nats"]["GOGC"]), ("400", "400")])
def test_the_server_of_the_log_collects_garbage_early_unless_somebody_says_otherwise(
    chosen: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GOGC", raising=False)
    if chosen:
        monkeypatch.setenv("GOGC", chosen)
    layout = Layout(tmp_path)
    layout.save(new_installation([]))
    supervisor = Supervisor(layout)
    try:
        supervisor.add_command("nats", Rank.LOG, ["sh", "-c", "echo $GOGC"])
        os.waitid(os.P_PID, int(layout.pid("nats").read_text()), os.WEXITED | os.WNOWAIT)
    finally:
        supervisor.stop()
    assert layout.log("nats").read_text().split() == [expected]
