"""What a Cluster and its Secret say of a member: usable as a whole, or refused with the place that is wrong."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from schemas.agent import Expiry
from services._kit.credentials.expiry import BadCredentials, credentials_of
from services._kit.credentials.kubeconfig import kubeconfig_expiry
from services.apiserver.auth.token_signing import ServiceAccountTokens
from services.cluster_monitor.readiness import EXPIRING, WARNING_SECONDS, warns_at, with_expiry

NOT_AFTER = datetime(2030, 5, 1, tzinfo=UTC)
SPEC = {"apiEndpoint": "https://member:6443", "secretRef": {"namespace": "karmada-cluster", "name": "m1"}}


def pair(end: datetime = NOT_AFTER) -> tuple[str, str]:
    """A certificate that signs itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "fleetlog")])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(end - timedelta(days=365))
        .not_valid_after(end)
        .sign(key, hashes.SHA256())
    )
    form = serialization.PrivateFormat.PKCS8
    private = key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
    return made.public_bytes(serialization.Encoding.PEM).decode(), private.decode()


CERT, KEY = pair()
_, OTHER_KEY = pair()


def secret(**data: str) -> dict[str, Any]:
    """A Secret with these values."""
    encoded = {name: base64.b64encode(value.encode()).decode() for name, value in data.items()}
    return {"metadata": {"name": "m1"}, "data": encoded}


def test_a_token_and_a_ca_are_enough():
    found = credentials_of(SPEC, secret(token="abc\n", caBundle=CERT))
    assert (found.server, found.token, found.client_pem, found.expiry) == ("https://member:6443", "abc", None, None)
    assert "abc" not in repr(found)


def test_tokens_of_the_control_plane_are_sent_to_no_member():
    own = {**secret(token="abc", caBundle=CERT), "type": "kubernetes.io/service-account-token"}
    with pytest.raises(BadCredentials, match="Secret karmada-cluster/m1 is the token of a ServiceAccount"):
        credentials_of(SPEC, own)


def test_client_certificate_opens_a_client():
    found = credentials_of(SPEC, secret(clientCert=CERT, clientKey=KEY, caBundle=CERT))
    assert found.open().server == "https://member:6443"
    what = "the client certificate in Secret karmada-cluster/m1"
    since = (NOT_AFTER - timedelta(days=365)).timestamp()
    assert found.expiry == Expiry(at=NOT_AFTER.timestamp(), since=since, what=what)


def test_a_token_that_ends_says_so():
    token = ServiceAccountTokens().sign({"exp": 2000, "iat": 1000})
    found = credentials_of(SPEC, secret(token=token, caBundle=CERT))
    assert found.expiry == Expiry(at=2000, since=1000, what="the token in Secret karmada-cluster/m1")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({}, "neither token nor clientCert"),
        ({"clientCert": CERT, "caBundle": CERT}, "has clientCert but no clientKey"),
        ({"clientKey": KEY, "caBundle": CERT}, "has clientKey but no clientCert"),
        ({"clientCert": CERT, "clientKey": OTHER_KEY, "caBundle": CERT}, "clientKey does not belong to clientCert"),
        ({"clientCert": "none", "clientKey": KEY, "caBundle": CERT}, "key clientCert is no certificate"),
        ({"clientCert": CERT, "clientKey": "none", "caBundle": CERT}, "key clientKey is no private key"),
        ({"token": "t"}, "no caBundle"),
        ({"token": "t", "caBundle": "none"}, "key caBundle is no certificate"),
        ({"token": "a\r\nX-Remote-User: admin", "caBundle": CERT}, "key token holds characters"),
    ],
)
def test_invalid_credential_is_named_with_secret_and_key(data, words):
    with pytest.raises(BadCredentials, match=words) as refused:
        credentials_of(SPEC, secret(**data))
    assert "Secret karmada-cluster/m1" in str(refused.value)


@pytest.mark.parametrize("value", ["%%%", "x", base64.b64encode(b"\xff\xfe").decode()])
def test_invalid_base64_is_named(value):
    broken = secret(caBundle=CERT)
    broken["data"]["token"] = value
    with pytest.raises(BadCredentials, match="Secret karmada-cluster/m1: key token is no base64"):
        credentials_of(SPEC, broken)


@pytest.mark.parametrize(("field", "words"), [("apiEndpoint", "spec.apiEndpoint"), ("secretRef", "spec.secretRef")])
def test_a_cluster_without_an_address_or_a_secret_is_named(field, words):
    with pytest.raises(BadCredentials, match=words):
        credentials_of({**SPEC, field: None}, secret(token="t", caBundle=CERT))


def test_expiry_is_reported_ahead_by_lifetime():
    year = Expiry(at=400 * 86_400.0, since=35 * 86_400.0, what="x")
    hour = Expiry(at=1_003_600.0, since=1_000_000.0, what="x")
    assert warns_at(year) == year.at - WARNING_SECONDS
    assert warns_at(hour) == hour.at - 360.0
    assert warns_at(Expiry(at=5e8, what="x")) == 5e8 - WARNING_SECONDS


def test_expiry_condition_ends_with_new_credentials():
    soon = Expiry(at=2_000_000.0, since=1_000_000.0, what="the token in Secret a/b")
    ready = {"type": "Ready", "status": "True"}
    assert with_expiry([ready], soon, 1_500_000.0) == [ready]
    before = with_expiry([ready], soon, 1_950_000.0)
    assert [entry["type"] for entry in before] == ["Ready", EXPIRING]
    assert (before[1]["status"], before[1]["reason"]) == ("True", "ExpiresSoon")
    assert before[1]["message"] == "the token in Secret a/b expires at 1970-01-24T03:33:20Z; renew it before"
    after = with_expiry(before, soon, 2_000_001.0)
    assert after[1]["reason"] == "Expired"
    assert after[1]["lastTransitionTime"] == before[1]["lastTransitionTime"]
    mended = with_expiry(after, None, 2_000_002.0)
    assert (mended[1]["status"], mended[1]["reason"]) == ("False", "CredentialsValid")


def test_expiry_of_a_kubeconfig_is_read_from_its_files(tmp_path):
    (tmp_path / "client.pem").write_text(CERT)
    file = tmp_path / "config"
    file.write_text(
        "current-context: a\n"
        "contexts: [{name: a, context: {cluster: c, user: u}}]\n"
        "clusters: [{name: c, cluster: {server: 'https://h'}}]\n"
        "users: [{name: u, user: {client-certificate: client.pem, client-key: client.key}}]\n"
    )
    found = kubeconfig_expiry(file)
    assert found is not None
    assert found.at == NOT_AFTER.timestamp()
    assert kubeconfig_expiry(tmp_path / "none") is None
