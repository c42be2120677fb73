"""`fleetlog sim metric` against simulated members of an installation, and what they serve then."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from services.cli.common import layout
from tests.integration.member_sim.conftest import Member
from tests.support.commands import run_command

HITS = "/apis/custom.metrics.k8s.io/v1beta2/namespaces/default/pods/*/hits"


class Fleet:
    """An installation whose one member runs in this process."""

    def __init__(self, directory: Path, member: Member) -> None:
        self.directory, self.member = directory, member

    async def metric(self, *arguments: str) -> tuple[int, str, str]:
        ended = await asyncio.to_thread(
            run_command, "fleetlog", "sim", "metric", *arguments, "--dir", str(self.directory)
        )
        return ended.returncode, ended.stdout, ended.stderr


@pytest.fixture
async def fleet(run_member_with: Any, web: Any, tmp_path: Path) -> AsyncIterator[Fleet]:
    place = layout.Layout(tmp_path / "fleet")
    chosen = layout.new_installation([layout.Member(name="m1")])
    place.save(chosen)
    async with run_member_with(data_dir=place.data("m1"), token=chosen.token) as member:
        await member.create(web(cpu="1"))
        await member.until(lambda found: found.get("status", {}).get("readyReplicas") == 2, "deployment", "web")
        yield Fleet(place.directory, member)


async def test_a_value_is_set_served_and_taken_back(fleet: Fleet) -> None:
    code, out, err = await fleet.metric("hits", "--of", "deploy/web", "--value", "700m", "--label", "verb=GET")
    assert (code, err) == (0, "")
    assert out.splitlines()[1].split() == ["m1", "hits", "default", "Deployment/web", "verb=GET", "700m"]
    found = json.loads(await fleet.member.kubectl("get", "--raw", HITS))
    assert [item["value"] for item in found["items"]] == ["700m", "700m"]
    assert "custom.metrics.k8s.io/v1beta2" in await fleet.member.kubectl("api-versions")
    listed = json.loads(await fleet.member.kubectl("get", "--raw", "/apis/custom.metrics.k8s.io/v1beta1"))
    assert [entry["name"] for entry in listed["resources"]] == ["pods/hits"]
    code, out, _ = await fleet.metric("-o", "json")
    assert json.loads(out)[0]["metric"] == "hits"
    code, out, _ = await fleet.metric("hits", "--of", "deploy/web", "--label", "verb=GET", "--reset")
    assert (code, out) == (0, "No values of metrics are set.\n")
    assert "NotFound" in await fleet.member.kubectl("get", "--raw", HITS, fails=True)


async def test_objects_and_external_metrics_are_served(fleet: Fleet) -> None:
    assert (await fleet.metric("size", "--of", "deployments.apps/none", "--value", "5"))[0] == 1
    assert (await fleet.metric("size", "--of", "namespaces/default", "--value", "5", "-n", ""))[0] == 0
    root = "/apis/custom.metrics.k8s.io/v1beta1/namespaces/default/metrics/size"
    found = json.loads(await fleet.member.kubectl("get", "--raw", root))
    assert (found["items"][0]["describedObject"]["kind"], found["items"][0]["value"]) == ("Namespace", "5")
    assert (await fleet.metric("queue", "--value", "30", "--label", "q=mail", "--window", "60"))[0] == 0
    raw = "/apis/external.metrics.k8s.io/v1beta1/namespaces/default/queue?labelSelector=q%3Dmail"
    found = json.loads(await fleet.member.kubectl("get", "--raw", raw))
    assert (found["items"][0]["value"], found["items"][0]["window"]) == ("30", 60)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("hits", "--of", "web", "--value", "1"), "use KIND/NAME such as deploy/web"),
        (("hits", "--of", "deploy/none", "--value", "1"), "there is no Deployment default/none in this member"),
        (("hits", "--value", "NaN"), "value 'NaN'"),
        (("a b", "--value", "1"), "'a b' is no name of a metric"),
        (("hits",), "say the value with --value, or take it back with --reset"),
        (("hits", "--value", "1", "--label", "x"), "use KEY=VALUE"),
        (("--value", "1"), "name the metric first"),
    ],
)
async def test_what_cannot_be_set_is_explained(fleet: Fleet, arguments: tuple[str, ...], words: str) -> None:
    code, out, err = await fleet.metric(*arguments)
    assert (code, out) == (1, "")
    assert words in err


async def test_metrics_are_read_by_those_who_may(fleet: Fleet) -> None:
    read = ("get", "--raw", HITS, "--as", "jane")
    assert 'cannot get resource "pods/hits"' in await fleet.member.kubectl(*read, fails=True)
    rule = {"apiGroups": ["custom.metrics.k8s.io"], "resources": ["pods/hits"], "verbs": ["get"]}
    group = "rbac.authorization.k8s.io/v1"
    await fleet.member.apply(
        {"apiVersion": group, "kind": "ClusterRole", "metadata": {"name": "hits"}, "rules": [rule]}
    )
    await fleet.member.kubectl("create", "clusterrolebinding", "hits", "--clusterrole=hits", "--user=jane")
    assert "no value of hits is set" in await fleet.member.kubectl(*read, fails=True)
    assert (await fleet.member.fault("/metric", {"metric": "hits", "value": "1"}, token="wrong"))[0] == 401
