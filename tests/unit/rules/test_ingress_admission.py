"""A MultiClusterIngress is admitted by the rules of a Kubernetes Ingress."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from schemas.manifest import Manifest
from services._rules.admission import Admitted, Context, Denied
from tests.support.admitting import admit

CONTEXT = Context(namespace="default", identity="8d3c1c3e-5d0b-4a52-9d58-3b0f8f6d7a11", now="2026-01-01T00:00:00Z")
BACKEND = {"service": {"name": "web", "port": {"number": 80}}}
PATH = {"path": "/", "pathType": "Prefix", "backend": BACKEND}


def ingress(**spec: Any) -> Manifest:
    metadata = {"name": "shop", "namespace": "default"}
    return {
        "apiVersion": "networking.karmada.io/v1alpha1",
        "kind": "MultiClusterIngress",
        "metadata": metadata,
        "spec": spec,
    }


def with_path(**fields: Any) -> Manifest:
    """An ingress of one path with other fields; None takes one away."""
    path = {name: value for name, value in {**PATH, **fields}.items() if value is not None}
    return ingress(rules=[{"host": "shop.example.com", "http": {"paths": [path]}}])


def with_backend(backend: Manifest) -> Manifest:
    return ingress(defaultBackend=backend)


def with_service(**fields: Any) -> Manifest:
    return with_backend({"service": {**BACKEND["service"], **fields}})


def with_host(host: str) -> Manifest:
    return ingress(rules=[{"host": host, "http": {"paths": [PATH]}}])


BUCKET = {"apiGroup": "store.example.com", "kind": "Bucket", "name": "b"}


@pytest.mark.parametrize(
    "given",
    [
        with_backend(BACKEND),
        with_service(port={"name": "http"}),
        with_backend({"resource": BUCKET}),
        with_path(),
        with_path(path="/a/b", pathType="Exact"),
        with_path(path=None, pathType="ImplementationSpecific"),
        with_path(path="/a/%2e", pathType="Prefix"),
        with_host("*.example.com"),
        with_host(""),
        ingress(rules=[{"host": "shop.example.com"}]),
        ingress(defaultBackend=BACKEND, ingressClassName="nginx.example.com"),
        ingress(defaultBackend=BACKEND, tls=[{"hosts": ["*.example.com", "example.com"], "secretName": "shop"}]),
    ],
)
def test_a_good_ingress_is_admitted(given: Manifest) -> None:
    assert isinstance(verdict(given), Admitted)


@pytest.mark.parametrize(
    ("given", "field"),
    [
        (ingress(), "spec"),
        (with_backend({}), "spec.defaultBackend"),
        (with_backend({**BACKEND, "resource": BUCKET}), "spec.defaultBackend"),
        (with_service(name="Web"), "spec.defaultBackend.service.name"),
        (with_service(name="1web"), "spec.defaultBackend.service.name"),
        (with_service(name=""), "spec.defaultBackend.service.name"),
        (with_service(port={}), "spec.defaultBackend"),
        (with_service(port={"name": "http", "number": 80}), "spec.defaultBackend"),
        (with_service(port={"number": 70000}), "spec.defaultBackend.service.port.number"),
        (with_service(port={"name": "HTTP!"}), "spec.defaultBackend.service.port.name"),
        (with_backend({"resource": {**BUCKET, "kind": ""}}), "spec.defaultBackend.resource.kind"),
        (with_backend({"resource": {**BUCKET, "name": ""}}), "spec.defaultBackend.resource.name"),
        (with_host("192.0.2.1"), "spec.rules[0].host"),
        (with_host("Shop"), "spec.rules[0].host"),
        (with_host("*"), "spec.rules[0].host"),
        (with_host("a.*.example.com"), "spec.rules[0].host"),
        (ingress(rules=[{"http": {"paths": []}}]), "spec.rules[0].http.paths"),
        (with_path(pathType=None), "spec.rules[0].http.paths[0].pathType"),
        (with_path(pathType="Regex"), "spec.rules[0].http.paths[0].pathType"),
        (with_path(path=None), "spec.rules[0].http.paths[0].path"),
        (with_path(path="a"), "spec.rules[0].http.paths[0].path"),
        (with_path(path="a", pathType="ImplementationSpecific"), "spec.rules[0].http.paths[0].path"),
        *[
            (with_path(path=path, pathType=kind), "spec.rules[0].http.paths[0].path")
            for path in ("//", "/./", "/../", "/a%2fb", "/a%2Fb", "/a/..", "/a/.")
            for kind in ("Exact", "Prefix")
        ],
        (ingress(defaultBackend=BACKEND, tls=[{"hosts": ["Bad"]}]), "spec.tls[0].hosts[0]"),
        (ingress(defaultBackend=BACKEND, tls=[{"secretName": "Bad"}]), "spec.tls[0].secretName"),
        (ingress(defaultBackend=BACKEND, ingressClassName="Bad"), "spec.ingressClassName"),
        ({**with_backend(BACKEND), "metadata": {"name": "Bad", "namespace": "default"}}, "metadata.name"),
    ],
)
def test_a_bad_ingress_is_denied_by_field(given: Manifest, field: str) -> None:
    found = verdict(given)
    assert isinstance(found, Denied)
    assert field in [cause.field for cause in found.causes]


@pytest.mark.parametrize(
    ("status", "field"),
    [
        ({"loadBalancer": {"ingress": [{"ip": "nowhere"}]}}, "status.loadBalancer.ingress[0].ip"),
        ({"loadBalancer": {"ingress": [{"hostname": "Bad_Host"}]}}, "status.loadBalancer.ingress[0].hostname"),
        ({"loadBalancer": {"ingress": [{"hostname": "192.0.2.1"}]}}, "status.loadBalancer.ingress[0].hostname"),
        ({"loadBalancer": {"ingress": [{"ip": "192.0.2.1", "hostname": "lb.example.com"}]}}, ""),
    ],
)
def test_an_update_has_addresses_that_can_be(status: Manifest, field: str) -> None:
    old = with_backend(BACKEND)
    old["metadata"] |= {"uid": "u", "resourceVersion": "1"}
    found = verdict({**copy.deepcopy(old), "status": status}, old)
    if field:
        assert isinstance(found, Denied)
        assert field in [cause.field for cause in found.causes]
    else:
        assert isinstance(found, Admitted)


def test_an_update_keeps_what_does_not_change() -> None:
    old = with_backend(BACKEND)
    old["metadata"] |= {"uid": "u", "resourceVersion": "1"}
    new = copy.deepcopy(old)
    new["metadata"]["uid"] = "v"
    found = verdict(new, old)
    assert isinstance(found, Denied)
    assert "metadata.uid" in [cause.field for cause in found.causes]


def verdict(given: Manifest, old: Manifest | None = None) -> Admitted | Denied:
    return admit("MultiClusterIngress", "UPDATE" if old else "CREATE", given, old, CONTEXT)
