"""Requests are read as they are meant, and refused with what is wrong with them."""

from __future__ import annotations

import os

import pytest
from multidict import CIMultiDict

from services._kit.base.settings import SettingsError
from services._kit.log.fact_history import origin
from services._kit.log.stream_port import Message
from services._kit.proxying.front_identity import Authenticator, Unauthenticated, certificate_of, parse_tokens
from services.apiserver.openapi.serve import OpenApi
from services.gateway.gateway_history import key_of
from services.gateway.protocol.served_kinds import VERSIONS, served, target_of
from services.gateway.settings import GatewaySettings
from services.gateway.views.view_shapes import GROUP


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("apis/work.karmada.io/v1alpha2/resourcebindings", ("ResourceBinding", "", "", "")),
        ("apis/work.karmada.io/v1alpha2/namespaces/a/resourcebindings/b", ("ResourceBinding", "a", "b", "")),
        (
            "apis/work.karmada.io/v1alpha2/clusterresourcebindings/b/status",
            ("ClusterResourceBinding", "", "b", "status"),
        ),
        ("apis/work.karmada.io/v1alpha1/namespaces/a/works", ("Work", "a", "", "")),
        ("apis/work.karmada.io/v1alpha2/works", None),
        ("apis/work.karmada.io/v1alpha2/namespaces/a/clusterresourcebindings", None),
        ("apis/apps/v1/deployments", None),
        ("apis/work.karmada.io/v1alpha2", None),
    ],
)
def test_paths_of_served_kinds(path, expected):
    target = target_of(served(), path.split("/"))
    found = target and (target[0].resource.kind, target[1].namespace, target[1].name, target[1].subresource)
    assert found == expected


def test_gateway_without_authentication_is_refused():
    with pytest.raises(SettingsError, match="FLEETLOG_FRONT_PROXY_CA"):
        Authenticator(GatewaySettings(), "gateway")


def test_plain_http_stays_on_loopback():
    assert certificate_of(GatewaySettings(token_file="t"), lambda: 0.0) is None
    with pytest.raises(SettingsError, match="FLEETLOG_SERVING_CERT"):
        certificate_of(GatewaySettings(token_file="t", api_host="0.0.0.0"), lambda: 0.0)


def test_tokens_are_read_again_when_their_file_changes(tmp_path):
    file = tmp_path / "tokens"
    file.write_text('one,ann,1,"a,b"\n')
    authenticator = Authenticator(GatewaySettings(token_file=str(file)), "gateway")
    assert authenticator.identify(bearer("one"), None).groups == ("a", "b")
    file.write_text("two\n")
    os.utime(file, ns=(1, 1))
    assert authenticator.identify(bearer("two"), None).user == "fleetlog:gateway"
    with pytest.raises(Unauthenticated, match="not known"):
        authenticator.identify(bearer("one"), None)


def bearer(token):
    return CIMultiDict({"Authorization": f"Bearer {token}"})


def test_a_file_without_tokens_is_refused():
    with pytest.raises(ValueError, match="no token"):
        parse_tokens("# nothing here\n\n")


def test_documents_name_every_kind_and_no_verb_that_writes():
    registry = served()
    openapi = OpenApi(registry)
    listed = [item for name in VERSIONS for item in registry.api_resource_list(GROUP, name)["resources"]]
    assert {verb for item in listed for verb in item["verbs"]} == {"get", "list", "watch"}
    for item in listed:
        assert item["kind"].encode() in openapi.find("openapi/v2").body
    assert b"projection of the log" in openapi.find(f"openapi/v3/apis/{GROUP}/v1alpha1").body
    assert registry.api_resource_list(GROUP, "v9") is None
    assert openapi.find(f"openapi/v3/apis/{GROUP}/v9") is None


def test_history_keys_and_origins():
    assert str(key_of("deployments.apps", "default", "nginx")) == "deployments.apps/default/nginx"
    assert key_of("namespaces", "_", "shop").namespace == ""
    headers = {"Nats-Stream-Source": "FACTS 42 > > placement.1.x"}
    assert origin(Message("placement.1.x", 7, 0.0, headers, b"")) == 42
    assert origin(Message("placement.1.x", 7, 0.0, {}, b"")) == 7


def test_kinds_of_the_gateway_are_explained_field_by_field() -> None:
    kinds = {(kind.resource.kind, kind.resource.version): kind for kind in served().all()}
    assert len(kinds) == 5
    for (name, _), kind in kinds.items():
        schema = kind.schema
        assert schema is not None
        assert "A projection of the log" in schema["description"]
        for part in ("spec", "status"):
            assert schema["properties"][part]["description"], name
    binding = kinds["ResourceBinding", "v1alpha2"].schema
    assert binding is not None
    assert binding["properties"]["spec"]["properties"]["clusters"]["description"] == "The clusters that were chosen."
