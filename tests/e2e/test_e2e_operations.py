"""Operators look at a running installation: its page, its findings, what is parked, and its log as observers."""

from __future__ import annotations

import json
import subprocess

import pytest

from schemas.topology import OPTIONAL, SERVICES, WITHOUT_LOG
from services.cli.common.layout import CONTROL
from tests.e2e.fleet import Fleet, until
from tests.support.commands import run_command

pytestmark = pytest.mark.xdist_group("views")

RUN = set(SERVICES) - OPTIONAL - WITHOUT_LOG


def fleetlog(fleet: Fleet, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return run_command("fleetlog", *words, FLEETLOG_DIR=str(fleet.layout.directory), **variables)


@pytest.mark.main_path
def test_the_page_shows_every_instance_member_and_stream(fleet: Fleet) -> None:
    done = until("an installation without findings", lambda: _well(fleetlog(fleet, "status", "-o", "json")))
    page = json.loads(done.stdout)
    assert {one["service"] for one in page["instances"]} >= RUN
    assert all(one["version"] == page["version"] for one in page["instances"])
    assert {one["name"] for one in page["services"] if one["alive"]} >= RUN
    assert {member["name"]: member["mode"] for member in page["members"]}["member3"] == "Pull"
    assert all(member["heard"] for member in page["members"])
    assert {"FACTS", "HISTORY", "OBJECTS"} <= {stream["name"] for stream in page["log"]["streams"]}
    assert any("client certificate" in one["what"] for one in page["certificates"])
    assert all(process["running"] for process in page["processes"])
    assert page["disk"]["free"] > 0


def _well(done: subprocess.CompletedProcess[str]) -> subprocess.CompletedProcess[str] | None:
    return done if done.returncode == 0 else None


def test_a_well_installation_needs_no_doctor(fleet: Fleet) -> None:
    done = until("a doctor without findings", lambda: _well(fleetlog(fleet, "doctor")))
    assert "Nothing is wrong." in done.stdout
    assert "Not looked at" not in done.stdout
    assert fleetlog(fleet, "parked", "list").stdout == "No key is parked.\n"


def test_an_observer_of_a_running_installation_reads_only(fleet: Fleet) -> None:
    made = fleetlog(fleet, "nats", "init", "--observer")
    assert made.returncode == 0, made.stderr
    said = dict(line.split()[1].split("=", 1) for line in made.stdout.splitlines() if "export" in line)
    observer = {**said, "FLEETLOG_DIR": "/nowhere", "KUBECONFIG": str(fleet.layout.kubeconfig(CONTROL))}
    shown = run_command("fleetlog", "events", "--subject", "lease.*", "-o", "json", **observer)
    assert shown.returncode == 0, shown.stderr
    assert {json.loads(line)["event"] for line in shown.stdout.splitlines()} == {"LeaseTaken"}
    page = run_command("fleetlog", "status", "-o", "json", **observer)
    assert {one["service"] for one in json.loads(page.stdout)["instances"]} >= RUN
    refused = run_command("fleetlog", "secrets", "forget", "default", "--key-file", "/nowhere", **observer)
    assert refused.returncode == 1
