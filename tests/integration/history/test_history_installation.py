"""End of life in a running installation: deleted objects leave the log, but not while a lost member may hold them."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterator
from urllib.request import Request, urlopen

import msgspec
import pytest

from services.cli.common.logbook import log_access, open_log, streams
from tests.e2e.fleet import Fleet, until, until_equal
from tests.e2e.installations import installation
from tests.support.commands import run_command

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]
NAMES = [f"settings-{number}" for number in range(4)]
POLICY = {
    "apiVersion": "policy.karmada.io/v1alpha1",
    "kind": "PropagationPolicy",
    "metadata": {"name": "settings", "namespace": "default"},
    "spec": {"resourceSelectors": [{"apiVersion": "v1", "kind": "ConfigMap", "namespace": "default"}]},
}


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """An installation of two members without retention."""
    settings = {"FLEETLOG_JANITOR_RETENTION": "0", "FLEETLOG_JANITOR_PATIENCE": "0.2"}
    with installation(tmp_path_factory, "history", ["--members", "2"], settings) as made:
        yield made


def subjects(fleet: Fleet, *words: str) -> list[str]:
    """Subjects of FACTS and OBSERVED that speak of something named like this."""

    async def ask() -> list[str]:
        async with open_log(log_access(fleet.layout.directory)) as connection:
            logs = streams(connection)
            found = {**await logs["FACTS"].counts(">"), **await logs["OBSERVED"].counts(">")}
        return sorted(name for name in found if any(word in name for word in words))

    return asyncio.run(ask())


def reach(fleet: Fleet, member: str, *, open_again: bool) -> None:
    """Close or open the API of a simulated member."""
    url = (fleet.layout.data(member) / "admin.url").read_text().strip()
    body = msgspec.json.encode({"mode": "none" if open_again else "stop"})
    headers = {"Authorization": f"Bearer {fleet.installation.token}"}
    with urlopen(Request(f"{url}/faults", data=body, headers=headers, method="POST")) as answer:
        assert answer.status == 200


def fleetlog(fleet: Fleet, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run_command("fleetlog", *arguments, FLEETLOG_DIR=str(fleet.layout.directory))


def test_deleted_objects_leave_the_log_once_every_member_let_go(fleet: Fleet) -> None:
    control = fleet.kubectl()
    control.apply(POLICY)
    for name in NAMES:
        control.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}})
    for member in fleet.members:
        until_equal(f"the copies in {member}", lambda m=member: _ours(fleet, m), NAMES)
    reach(fleet, "member2", open_again=False)
    control.run("delete", "configmap", *NAMES, namespace="default")
    control.delete("propagationpolicy", "settings", "default")
    until_equal("the copies in member1", lambda: _ours(fleet, "member1"), [])
    until("the end of the policy", lambda: not subjects(fleet, "policy."))
    for name in NAMES:
        held = subjects(fleet, name)
        assert {subject.partition(".")[0] for subject in held} >= {"template", "binding", "placement", "work"}
    killed = fleet.kill("janitor")
    until("the janitor's next start", lambda: fleet.pid("janitor") not in (0, killed))
    until("its lead", lambda: _janitor(fleet).count('"event":"leading"') >= 2)
    assert len(subjects(fleet, *(f"template.{shard}." for shard in range(16)))) >= len(NAMES)
    reach(fleet, "member2", open_again=True)
    until_equal("what the log holds of them", lambda: subjects(fleet, *NAMES), [])
    assert _ours(fleet, "member2") == []
    told = fleetlog(fleet, "history", "configmap", NAMES[0], "-n", "default")
    assert "WorkWithdrawn" in told.stdout, told.stderr
    checked = fleetlog(fleet, "log", "verify")
    assert (checked.returncode, checked.stdout.splitlines()[-1].rpartition(": ")[2]) == (0, "no problem"), checked


def _ours(fleet: Fleet, member: str) -> list[str]:
    return [name for name in fleet.kubectl(member).names("configmap", "default") if name in NAMES]


def _janitor(fleet: Fleet) -> str:
    return fleet.layout.log("janitor").read_text()
