"""The services that share a process: which they are, and how their process is found by the name of each."""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path

import pytest

from services._kit.base.settings import Settings
from services.cli.installation.process_groups import GROUPS, PROCESS_OF, Member
from services.cli.installation.up import DESCHEDULER, SERVICES
from services.cli.supervision.supervised_process import Rank
from tests.support.supervised import empty_installation, supervised

MEMBERS = [(name, member) for members in GROUPS.values() for name, member in members.items()]
ALONE = {"executor", "status_aggregator", "gateway", "search"}
"""Those that wait for clusters and users."""


@pytest.mark.parametrize(("name", "member"), MEMBERS)
def test_member_of_a_group_is_a_service_with_settings(name: str, member: Member) -> None:
    assert getattr(import_module(f"services.{name}.app"), member.factory).name == name
    assert issubclass(getattr(import_module(f"services.{name}.settings"), member.settings), Settings)


def test_services_that_wait_for_clusters_run_alone() -> None:
    assert {*SERVICES, DESCHEDULER} - PROCESS_OF.keys() == ALONE
    assert len(MEMBERS) == len(PROCESS_OF)


def test_group_is_one_process_under_the_name_of_each_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "says_its_services.py").write_text(
        "import os, sys\n"
        "def run(layout, services):\n"
        "    (layout.directory / 'told').write_text(repr(services) + os.environ['COMMON'])\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    layout = empty_installation(tmp_path / "installation")
    services = {"one": {"A": "1"}, "other": {"A": "2"}}
    with supervised(layout) as supervisor:
        supervisor.add_service("both", Rank.SERVICE, "says_its_services", {"COMMON": "x"}, services=services)
        pids = {int(layout.pid(name).read_text()) for name in ("both", "one", "other")}
        assert len(pids) == 1
        os.waitid(os.P_PID, pids.pop(), os.WEXITED | os.WNOWAIT)
        assert (layout.directory / "told").read_text() == repr(services) + "x"
        assert supervisor.names == ["both"]
    assert not [name for name in ("both", "one", "other") if layout.pid(name).exists()]


def test_pid_file_is_replaced_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ends_at_once.py").write_text("def main():\n    return 0\n")
    monkeypatch.syspath_prepend(tmp_path)
    layout = empty_installation(tmp_path / "installation")
    layout.pid("one").write_text("12345\n")
    with supervised(layout) as supervisor:
        with layout.pid("one").open() as reading:
            supervisor.add_service("one", Rank.SERVICE, "ends_at_once", {})
            assert reading.read() == "12345\n"
        assert int(layout.pid("one").read_text()) not in (0, 12345)
    assert list(layout.pid("one").parent.iterdir()) == []
