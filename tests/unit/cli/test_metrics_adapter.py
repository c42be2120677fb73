"""The add-on that has no workload of its own: a control plane is made to answer for metrics, and no more."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from services._kit.kube.client import ApiError
from services.cli.common.running import Failed
from services.cli.hosting.addon_options import Reached
from services.cli.hosting.metrics_adapter import disable, enable, status, status_of
from services.cli.installation.gateway_setup import METRICS_SERVED, api_services

NAMES = [served.name for served in METRICS_SERVED]
PLACE = "/apis/apiregistration.k8s.io/v1/apiservices/"


class ControlPlane:
    """APIServices by name; those that are written are answered by a gateway that runs, or by none."""

    server = "https://control:5443"

    def __init__(self, *, prepared: bool = True, answers: bool = True) -> None:
        self.services = {item["metadata"]["name"]: item for item in api_services("Q0E=", 8443)} if prepared else {}
        self.answers = answers
        for name in NAMES:
            self.services.pop(name, None)

    async def get(self, path: str) -> Any:
        name = path.removeprefix(PLACE)
        if name not in self.services:
            raise ApiError(404, "NotFound", f"no APIService {name}")
        return self.services[name]

    async def create(self, path: str, item: Any) -> None:
        assert path == PLACE.rstrip("/")
        if (name := item["metadata"]["name"]) in self.services:
            raise ApiError(409, "AlreadyExists", f"APIService {name} is there")
        condition = {"type": "Available", "status": str(self.answers), "message": "no route to the gateway"}
        self.services[name] = {**item, "status": {"conditions": [condition]}}

    async def patch(self, path: str, item: Any) -> None:
        self.services[path.removeprefix(PLACE)] |= item

    async def delete(self, path: str, *, propagation: str = "") -> None:
        await self.get(path)
        del self.services[path.removeprefix(PLACE)]

    def found(self) -> list[Any]:
        return [self.services.get(name) for name in NAMES]


async def test_metrics_are_served_while_it_is_enabled() -> None:
    control: Any = ControlPlane()
    assert status_of(control.found()) == "disabled"
    await enable(control, 0.0)
    assert status_of(control.found()) == "enabled"
    assert NAMES == [
        "v1beta1.metrics.k8s.io",
        "v1beta2.custom.metrics.k8s.io",
        "v1beta1.custom.metrics.k8s.io",
        "v1beta1.external.metrics.k8s.io",
    ]
    # They lead where the rest of the gateway's kinds are.
    gateway = control.services["v1alpha2.work.karmada.io"]["spec"]
    assert [(one["spec"]["caBundle"], one["spec"]["service"]) for one in control.found()] == [
        (gateway["caBundle"], gateway["service"])
    ] * 4
    # What is there is made what it has to be, without being applied: a kube-apiserver 1.20 cannot.
    control.services[NAMES[2]]["spec"] = {}
    await enable(control, 0.0)
    assert control.services[NAMES[2]]["spec"]["service"] == gateway["service"]
    assert status_of(control.found()) == "enabled"
    del control.services[NAMES[2]]
    assert status_of(control.found()) == "unhealthy"
    await disable(control)
    assert status_of(control.found()) == "disabled"
    assert "v1alpha2.work.karmada.io" in control.services


async def test_gateway_that_does_not_answer_is_named() -> None:
    control: Any = ControlPlane(answers=False)
    with pytest.raises(Failed, match=r"v1beta1\.metrics\.k8s\.io: no route to the gateway.*--apiservice-timeout"):
        await enable(control, 0.0)
    assert status_of(control.found()) == "unhealthy"


async def test_control_plane_without_a_gateway_is_refused() -> None:
    control: Any = ControlPlane(prepared=False)
    with pytest.raises(Failed, match="karmadactl init makes it"):
        await enable(control, 0.0)
    assert control.services == {}


async def test_status_is_unknown_without_the_control_plane(tmp_path: Path) -> None:
    assert await status(Reached(kubeconfig=str(tmp_path / "none"))) == "unknown"
