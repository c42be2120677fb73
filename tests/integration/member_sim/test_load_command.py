"""`fleetlog sim load` against simulated members of an installation."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from services.cli.common import layout
from tests.integration.member_sim.conftest import Member
from tests.support.commands import run_command


class Fleet:
    """An installation whose one member runs in this process."""

    def __init__(self, directory: Path, member: Member) -> None:
        self.directory, self.member = directory, member

    async def load(self, *arguments: str) -> tuple[int, str, str]:
        ended = await asyncio.to_thread(
            run_command, "fleetlog", "sim", "load", *arguments, "--dir", str(self.directory)
        )
        return ended.returncode, ended.stdout, ended.stderr


@pytest.fixture
async def fleet(run_member_with: Any, web: Any, tmp_path: Path) -> AsyncIterator[Fleet]:
    place = layout.Layout(tmp_path / "fleet")
    outside = layout.Member(name="real", kubeconfig="/dev/null")
    chosen = layout.new_installation([layout.Member(name="m1"), layout.Member(name="m2"), outside])
    place.save(chosen)
    async with run_member_with(data_dir=place.data("m1"), token=chosen.token) as member:
        await member.create(web(cpu="1"))
        await member.until(lambda found: found.get("status", {}).get("readyReplicas") == 2, "deployment", "web")
        yield Fleet(place.directory, member)


async def test_a_load_is_set_shown_and_taken_back(fleet: Fleet) -> None:
    code, out, err = await fleet.load("deploy/web", "--cpu", "80%", "-C", "m1")
    assert (code, err) == (0, "")
    assert out.splitlines()[1].split() == ["m1", "default", "Deployment", "web", "80%", "<none>"]
    assert (await fleet.load("deployment.apps/web", "--memory", "1Gi", "-C", "m1"))[0] == 0
    code, out, _ = await fleet.load("-C", "m1", "-o", "json")
    load = {"member": "m1", "namespace": "default", "kind": "Deployment", "name": "web", "cpu": "80%", "memory": "1Gi"}
    assert (code, json.loads(out)) == (0, [load])
    rows = (await fleet.member.kubectl("top", "pods", "--no-headers")).splitlines()
    assert [row.split()[1:] for row in rows] == [["800m", "1024Mi"]] * 2
    code, out, _ = await fleet.load("deploy/web", "--reset", "-C", "m1")
    assert (code, out) == (0, "No loads are set: pods use a share of what they request.\n")


async def test_members_that_do_not_run_are_named(fleet: Fleet) -> None:
    code, out, err = await fleet.load("deploy/web", "--cpu", "1")
    assert code == 0
    assert out.splitlines()[1].split()[0] == "m1"
    assert err == "warning: m2 never ran here; start the installation with `fleetlog up`\n"
    (layout.Layout(fleet.directory).data("m2")).mkdir(parents=True)
    (layout.Layout(fleet.directory).data("m2") / "admin.url").write_text("http://127.0.0.1:9")
    code, _, err = await fleet.load("-C", "m2")
    assert (code, "m2 does not answer" in err) == (1, True)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("web", "--cpu", "1"), "'web' names no workload: use KIND/NAME"),
        (("deploy/none", "--cpu", "1", "-C", "m1"), "m1: there is no Deployment default/none in this member"),
        (("deploy/web", "--cpu", "x", "-C", "m1"), "cpu 'x': use a share of the requests such as 80%, or a quantity"),
        (("deploy/web",), "say what it uses with --cpu or --memory, or take the load back with --reset"),
        (("deploy/web", "--cpu", "1", "--reset"), "or take the load back with --reset"),
        (("--cpu", "1"), "name what is to use that much, such as deploy/web"),
        (("-C", "real"), "'real' is no simulated member of"),
        (("-o", "x"), "'x' is not one of"),
    ],
)
async def test_what_cannot_be_done_is_explained(fleet: Fleet, arguments: tuple[str, ...], words: str) -> None:
    code, out, err = await fleet.load(*arguments)
    assert (code, out) == (1, "")
    assert words in err


async def test_the_port_takes_no_load_without_the_token(fleet: Fleet) -> None:
    body = {"namespace": "default", "name": "web", "cpu": "1"}
    assert (await fleet.member.fault("/load", body, token="wrong"))[0] == 401
    code, answer = await fleet.member.fault("/load", {**body, "kind": "Secret"})
    assert (code, "the body cannot be used" in answer["error"]) == (400, True)
