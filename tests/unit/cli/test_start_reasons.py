"""`up` says at once why a process cannot start, where that process has written it down."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from services.cli.common.failure_reasons import Reasons
from services.cli.common.layout import Layout
from services.cli.common.running import NotReady
from services.cli.common.waiting import waiting as running_waits
from services.cli.installation.startup import front_doors
from tests.support.waiting import eventually

UNREADABLE = "control plane cannot start: stream OBJECTS, message 12 (obj._.configmaps.a.b) is unreadable; run …"


def said(event: str, reason: str) -> str:
    return f'{{"event":"{event}","reason":"{reason}","level":"error"}}\n'


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("", ""),
        (said("stopped", "the connection to the log's server was lost"), ""),
        (said("listening", "a word is unreadable"), ""),
        ("Traceback (most recent call last):\n" + said("cannot start", UNREADABLE) + "no JSON\n", UNREADABLE),
        (said("stopped", "stream FACTS, messages 1, 2 are unreadable"), "stream FACTS, messages 1, 2 are unreadable"),
    ],
)
def test_only_permanent_failures_are_a_reason(tmp_path: Path, lines: str, expected: str) -> None:
    file = tmp_path / "control.log"
    reasons = Reasons(file)
    file.write_text(lines)
    assert reasons.permanent() == expected


def test_output_of_an_earlier_start_is_no_reason(tmp_path: Path) -> None:
    file = tmp_path / "control.log"
    file.write_text(said("cannot start", UNREADABLE))
    assert Reasons(file).permanent() == ""


async def test_waiting_for_an_api_server_ends_with_its_reason(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    layout.log("control").parent.mkdir()
    waiting = asyncio.create_task(front_doors([layout.kubeconfig("control")], layout.log))
    # What stands in the file before is no reason.
    await eventually(lambda: "control" in running_waits, "it has begun to wait")
    layout.log("control").write_text(said("cannot start", UNREADABLE))
    with pytest.raises(NotReady, match="message 12"):
        await waiting


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("", ""),
        ("fleetlog: FLEETLOG_WORKERS: expected an int\n", "FLEETLOG_WORKERS: expected an int"),
        ("an earlier line\nmember_sim: cpu: not a quantity\n\n", "cpu: not a quantity"),
        (said("settings", "FLEETLOG_TLS_CA: no such file"), "FLEETLOG_TLS_CA: no such file"),
        ('{"event":"stopped"}\n', "stopped"),
    ],
)
def test_last_line_of_the_log_is_the_reason(tmp_path: Path, lines: str, expected: str) -> None:
    file = tmp_path / "executor.log"
    file.write_text("fleetlog: of an earlier start\n")
    reasons = Reasons(file)
    with file.open("a") as log:
        log.write(lines)
    assert reasons.last() == expected
