"""What a MultiClusterService may say: one case for each rule."""

from __future__ import annotations

from typing import Any

import pytest

from services._rules.admission import Admitted, Context, Denied
from services._rules.constants import MULTI_CLUSTER_SERVICE_ID_LABEL
from tests.support.admitting import admit

UUID = "8d3c1c3e-5d0b-4a52-9d58-3b0f8f6d7a11"
CONTEXT = Context(namespace="default", identity=UUID, now="2026-01-01T00:00:00Z")


def an_object(name: str = "web", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "default"}, "spec": {"types": ["CrossCluster"], **spec}}


def causes(obj: dict[str, Any], old: dict[str, Any] | None = None) -> list[str]:
    found = admit("MultiClusterService", "UPDATE" if old else "CREATE", obj, old, CONTEXT)
    return [cause.field for cause in found.causes] if isinstance(found, Denied) else []


@pytest.mark.parametrize(
    ("obj", "wrong"),
    [
        (an_object(), []),
        (an_object(types=["LoadBalancer"], ports=[{"name": "http", "port": 80}]), []),
        (an_object(providerClusters=[{"name": "m1"}], consumerClusters=[{"name": "m2"}]), []),
        (an_object(serviceProvisionClusters=["m1"], serviceConsumptionClusters=["m2"]), []),
        (an_object("web.default"), ["metadata.name"]),
        (an_object("1web"), ["metadata.name"]),
        (an_object("a" * 64), ["metadata.name"]),
        (an_object(types=["NodePort"]), ["spec.types[0]"]),
        # As Karmada has it: such an object is kept, and asks for nothing.
        (an_object(types=[]), []),
        (an_object(types=["CrossCluster", "LoadBalancer"]), ["spec.types"]),
        (an_object(ports=[{"name": "http", "port": 0}]), ["spec.ports[0].port"]),
        (an_object(ports=[{"name": "http", "port": 65536}]), ["spec.ports[0].port"]),
        (an_object(ports=[{"name": "HTTP!", "port": 80}]), ["spec.ports[0].name"]),
        (an_object(ports=[{"name": "a", "port": 1}, {"name": "a", "port": 2}]), ["spec.ports[1].name"]),
        (an_object(providerClusters=[{"name": "Member_1"}]), ["spec.providerClusters[0].name"]),
        (an_object(consumerClusters=[{"name": "Member_1"}]), ["spec.consumerClusters[0].name"]),
    ],
)
def test_rules_of_its_fields(obj: dict[str, Any], wrong: list[str]) -> None:
    assert causes(obj) == wrong


def test_its_type_cannot_be_changed() -> None:
    old = an_object()
    assert causes(an_object(types=["LoadBalancer"]), old) == ["spec.types"]
    assert causes(an_object(providerClusters=[{"name": "m1"}]), old) == []


def test_it_gets_an_identity_and_keeps_it() -> None:
    found = admit("MultiClusterService", "CREATE", an_object(), None, CONTEXT)
    assert isinstance(found, Admitted)
    assert found.object["metadata"]["labels"][MULTI_CLUSTER_SERVICE_ID_LABEL] == UUID
    other = Context(namespace="default", identity="another", now=CONTEXT.now)
    again = admit("MultiClusterService", "UPDATE", found.object, found.object, other)
    assert isinstance(again, Admitted)
    assert again.object["metadata"]["labels"][MULTI_CLUSTER_SERVICE_ID_LABEL] == UUID
