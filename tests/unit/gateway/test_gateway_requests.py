"""Requests are read as they are meant, and refused with what is wrong with them."""

from __future__ import annotations

import os

import pytest
from multidict import CIMultiDict

from services._kit.base.settings import SettingsError
from services._kit.log.fact_history import origin
from services._kit.log.stream_port import Message
from services.gateway.gateway_history import key_of
from services.gateway.http.gateway_api import target_of
from services.gateway.protocol import openapi_documents as openapi
from services.gateway.protocol import served_resources as resources
from services.gateway.protocol.front_auth import Authenticator, parse_tokens, tls_of
from services.gateway.protocol.query_selectors import options_of
from services.gateway.protocol.status_answers import Failure, Form, discovery_version, form_of
from services.gateway.settings import GatewaySettings
from services.gateway.views.view_shapes import age

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        ("", Form()),
        ("application/json", Form()),
        (f"{TABLE},application/json", Form("Table", "v1")),
        ("application/json;as=Table;v=v9;g=meta.k8s.io,application/json", Form()),
        ("application/vnd.kubernetes.protobuf,application/json;q=0.5", Form()),
        (
            "application/json;q=0.1,application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
            Form("PartialObjectMetadataList", "v1"),
        ),
    ],
)
def test_the_accept_header_chooses_the_form(accept, form):
    assert form_of(accept) == form


def test_unsupported_media_type_is_refused():
    with pytest.raises(Failure) as refused:
        form_of("text/html")
    assert refused.value.code == 406


def test_discovery_is_aggregated_when_it_is_preferred():
    aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    assert discovery_version(f"{aggregated},application/json") == "v2"
    assert discovery_version(f"application/json,{aggregated}") == ""


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
    target = target_of(path.split("/"))
    found = target and (target.resource.kind, target.namespace, target.name, target.subresource)
    assert found == expected


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ({"labelSelector": "a in"}, "labelSelector"),
        ({"fieldSelector": "spec.replicas=1"}, "field label not supported: spec.replicas"),
        ({"fieldSelector": "metadata.name"}, "metadata.name=NAME"),
        ({"limit": "-1"}, "whole number"),
        ({"resourceVersion": "x"}, "resourceVersion"),
        ({"resourceVersionMatch": "Exact"}, "needs a resourceVersion"),
        ({"sendInitialEvents": "true"}, "resourceVersionMatch=NotOlderThan"),
        ({"includeObject": "Half"}, "includeObject"),
    ],
)
def test_a_query_that_cannot_be_read_is_refused(query, words):
    with pytest.raises(Failure) as refused:
        options_of(query)
    assert refused.value.code == 400
    assert words in refused.value.message


def test_gateway_without_authentication_is_refused():
    with pytest.raises(SettingsError, match="FLEETLOG_FRONT_PROXY_CA"):
        Authenticator(GatewaySettings())


def test_plain_http_stays_on_loopback():
    assert tls_of(GatewaySettings(token_file="t")) is None
    with pytest.raises(SettingsError, match="FLEETLOG_SERVING_CERT"):
        tls_of(GatewaySettings(token_file="t", api_host="0.0.0.0"))


def test_tokens_are_read_again_when_their_file_changes(tmp_path):
    file = tmp_path / "tokens"
    file.write_text('one,ann,1,"a,b"\n')
    authenticator = Authenticator(GatewaySettings(token_file=str(file)))
    assert authenticator.identify(bearer("one"), None).groups == ("a", "b")
    file.write_text("two\n")
    os.utime(file, ns=(1, 1))
    assert authenticator.identify(bearer("two"), None).user == "fleetlog:gateway"
    with pytest.raises(Failure) as refused:
        authenticator.identify(bearer("one"), None)
    assert refused.value.code == 401


def bearer(token):
    return CIMultiDict({"Authorization": f"Bearer {token}"})


def test_a_file_without_tokens_is_refused():
    with pytest.raises(ValueError, match="no token"):
        parse_tokens("# nothing here\n\n")


def test_documents_name_every_kind_and_no_verb_that_writes():
    listed = [item for version in resources.VERSIONS for item in resources.resource_list(version)["resources"]]
    assert {verb for item in listed for verb in item["verbs"]} == {"get", "list", "watch"}
    for item in listed:
        assert item["kind"].encode() in openapi.v2()
    assert resources.resource_list("v9") is None
    assert openapi.v3("v9") is None


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (125, "2m5s"),
        (3600, "60m"),
        (4 * 3600 + 60, "4h1m"),
        (50 * 3600, "2d2h"),
        (30 * 86400, "30d"),
        (800 * 86400, "2y70d"),
        (-60, "<invalid>"),
    ],
)
def test_ages_have_at_most_two_units(seconds, text):
    assert age(1000.0, 1000.0 + seconds) == text


def test_history_keys_and_origins():
    assert str(key_of("deployments.apps", "default", "nginx")) == "deployments.apps/default/nginx"
    assert key_of("namespaces", "_", "shop").namespace == ""
    headers = {"Nats-Stream-Source": "FACTS 42 > > placement.1.x"}
    assert origin(Message("placement.1.x", 7, 0.0, headers, b"")) == 42
    assert origin(Message("placement.1.x", 7, 0.0, {}, b"")) == 7
