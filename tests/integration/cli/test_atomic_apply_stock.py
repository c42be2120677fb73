"""`fleetlog apply --atomic` at a control plane that takes no change sets: dry-run, one by one, taken back."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from services._kit.kube.client import ApiError
from services.apiserver.admission.admission_webhooks import denied
from services.apiserver.admission.chain import Attributes
from services.apiserver.http.change_set_route import ChangeSetRoute
from services.cli.common.karmadactl_options import ControlPlaneOptions
from services.cli.common.running import Failed
from services.cli.foresight.atomic_apply import apply
from services.cli.foresight.plan_options import ApplyOptions, ChangeSetOptions
from tests.integration.webhook.test_webhook_same_answers import MAPS, Front, front


class Refusing:
    """Refuses an object by its name, a dry run only where it says so."""

    def __init__(self) -> None:
        self.name = ""
        self.dry_runs = False
        self.asked: list[tuple[str, bool]] = []

    async def mutate(self, attributes: Attributes) -> None:
        """Nothing to change."""

    async def validate(self, attributes: Attributes) -> None:
        """Raises ApiError."""
        dry = attributes.call.dry_run
        self.asked.append((attributes.name, dry))
        if attributes.name == self.name and dry is self.dry_runs:
            raise denied("full.example.org", {"code": 403, "reason": "Forbidden", "message": "it is full"})


@pytest.fixture
async def stock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Front]:
    """An API server that knows no change sets, with an object that a set changes."""

    async def unknown(*_: object) -> None:
        return None

    monkeypatch.setattr(ChangeSetRoute, "route", unknown)
    async with front(tmp_path, admission=False) as made:
        assert (await made("POST", MAPS, config_map("old")))[0] == 201
        yield made


@pytest.fixture
def refusing(stock: Front) -> Refusing:
    found = Refusing()
    stock.server.objects.admission.plugins.append(found)
    return found


def config_map(name: str, value: str = "x") -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"key": value}}


async def applied(stock: Front, directory: Path) -> int:
    """A set that creates two objects and changes one."""
    path = directory / "set.json"
    items = [config_map("a"), config_map("old", "y"), config_map("b")]
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    options = ApplyOptions(files=ChangeSetOptions(filename=(path,)), atomic=True)
    return await apply(ControlPlaneOptions(kubeconfig=str(stock.kubeconfig)), options)


async def held(stock: Front) -> dict[str, str]:
    _, found = await stock("GET", MAPS)
    return {item["metadata"]["name"]: item["data"].get("key", "") for item in found["items"] if item["data"].get("key")}


async def test_set_is_written_after_all_were_dry_run(
    stock: Front, refusing: Refusing, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert await applied(stock, tmp_path) == 0
    assert await held(stock) == {"a": "x", "old": "y", "b": "x"}
    ours = [item for item in refusing.asked if item[0] in ("a", "old", "b")]
    assert ours == [("a", True), ("old", True), ("b", True), ("a", False), ("old", False), ("b", False)]
    assert "not atomic in the store" in capsys.readouterr().err
    assert await applied(stock, tmp_path) == 0
    assert capsys.readouterr().out.count(" unchanged") == 3


async def test_refused_dry_run_writes_nothing(stock: Front, refusing: Refusing, tmp_path: Path) -> None:
    refusing.name, refusing.dry_runs = "b", True
    with pytest.raises(ApiError, match=r"it is full.*nothing was written"):
        await applied(stock, tmp_path)
    assert await held(stock) == {"old": "x"}


async def test_refused_write_takes_the_others_back(stock: Front, refusing: Refusing, tmp_path: Path) -> None:
    refusing.name = "b"
    with pytest.raises(Failed, match=r"it is full.*what was written was taken back"):
        await applied(stock, tmp_path)
    assert await held(stock) == {"old": "x"}
