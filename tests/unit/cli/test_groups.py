"""The services that share a process: which they are, and how their process is found by the name of each."""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path

import pytest

from services._kit.base.settings import Settings
from services.cli.common.layout import Layout, new_installation
from services.cli.installation.process_groups import GROUPS, PROCESS_OF, Member
from services.cli.installation.processes import Supervisor
from services.cli.installation.up import DESCHEDULER, SERVICES
from services.cli.supervision.supervised_process import Rank

MEMBERS = [(name, member) for members in GROUPS.values() for name, member in members.items()]
ALONE = {"executor", "status_aggregator", "gateway"}
"""Those that wait for clusters and users."""


@pytest.mark.parametrize(("name", "member"), MEMBERS)
def test_each_is_a_service_of_that_name_with_settings_of_its_own(name: str, member: Member) -> None:
    assert getattr(import_module(f"services.{name}.app"), member.factory).name == name
    assert issubclass(getattr(import_module(f"services.{name}.settings"), member.settings), Settings)


def test_nobody_who_waits_for_clusters_or_users_is_among_them() -> None:
    assert {*SERVICES, DESCHEDULER} - PROCESS_OF.keys() == ALONE
    assert len(MEMBERS) == len(PROCESS_OF)


def test_one_process_gets_the_settings_of_all_and_is_found_under_every_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "says_its_services.py").write_text(
        "import os, sys\n"
        "def run(layout, services):\n"
        "    (layout.directory / 'told').write_text(repr(services) + os.environ['COMMON'])\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    layout = Layout(tmp_path / "installation")
    layout.save(new_installation([]))
    supervisor = Supervisor(layout)
    services = {"one": {"A": "1"}, "other": {"A": "2"}}
    try:
        supervisor.add_service("both", Rank.SERVICE, "says_its_services", {"COMMON": "x"}, services=services)
        pids = {int(layout.pid(name).read_text()) for name in ("both", "one", "other")}
        assert len(pids) == 1
        os.waitid(os.P_PID, pids.pop(), os.WEXITED | os.WNOWAIT)
        assert (layout.directory / "told").read_text() == repr(services) + "x"
        assert supervisor.names == ["both"]
    finally:
        supervisor.stop()
    assert not [name for name in ("both", "one", "other") if layout.pid(name).exists()]


def test_whoever_reads_the_id_of_a_process_meanwhile_sees_all_of_the_former_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ends_at_once.py").write_text("def main():\n    return 0\n")
    monkeypatch.syspath_prepend(tmp_path)
    layout = Layout(tmp_path / "installation")
    layout.save(new_installation([]))
    layout.pid("one").write_text("12345\n")
    supervisor = Supervisor(layout)
    try:
        with layout.pid("one").open() as reading:
            supervisor.add_service("one", Rank.SERVICE, "ends_at_once", {})
            assert reading.read() == "12345\n"
        assert int(layout.pid("one").read_text()) not in (0, 12345)
    finally:
        supervisor.stop()
    assert list(layout.pid("one").parent.iterdir()) == []
