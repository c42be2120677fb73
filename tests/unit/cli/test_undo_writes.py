"""What `fleetlog undo` does when the object is written by others in between."""

from __future__ import annotations

from typing import Any

import pytest

from schemas.manifest import Manifest
from services._kit.kube.client import ApiError, ApiResource
from services.cli.common.running import Failed
from services.cli.foresight.change_files import Given
from services.cli.foresight.undo import write
from tests.support.facts import deployment

DEPLOYMENTS = ApiResource(name="deployments", kind="Deployment", namespaced=True, group="apps", version="v1")


class Control:
    """A control plane whose object is at some version, and changes with every reading of it."""

    def __init__(self, *present: Manifest) -> None:
        self.present = list(present)
        self.written: list[Manifest] = []

    async def get(self, path: str) -> Manifest:
        del path
        self.present.pop(0)
        return self.present[0]

    async def update(self, path: str, body: Manifest) -> Manifest:
        del path
        if body["metadata"]["resourceVersion"] != self.present[0]["metadata"]["resourceVersion"]:
            raise ApiError(409, "Conflict", "the object has been modified")
        self.written.append(body)
        return body


def at(version: str, image: str = "nginx:2", ready: int = 0) -> Manifest:
    return {**deployment(2, image, resourceVersion=version), "status": {"readyReplicas": ready}}


async def restore(control: Any, live: Manifest) -> None:
    wanted = deployment(2, "nginx:1", resourceVersion=live["metadata"]["resourceVersion"])
    await write(control, Given("", DEPLOYMENTS, "default", "nginx", wanted), live)


async def test_status_written_meanwhile_is_no_conflict() -> None:
    control = Control(at("2", ready=1), at("3", ready=2))
    await restore(control, at("1"))
    (written,) = control.written
    assert written["metadata"]["resourceVersion"] == "3"
    assert written["spec"] == deployment(2, "nginx:1")["spec"]


async def test_specification_changed_meanwhile_is_one() -> None:
    control = Control(at("2"), at("3", "nginx:3"))
    with pytest.raises(Failed, match="changed by another writer meanwhile"):
        await restore(control, at("1"))
    assert control.written == []
