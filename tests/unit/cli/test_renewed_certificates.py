"""`fleetlog certs --renew`: what ends soon is made again by the same authority for the same names, all else stays."""

from __future__ import annotations

import base64
import datetime as dt
from pathlib import Path
from typing import Final

import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from services.apiserver.auth.certificate_authority import Authority
from services.cli.common.running import Failed
from services.cli.installation.certificate_files import complete, make, renew
from services.cli.members.reached_addresses import ReachedAddresses

LIFE: Final = dt.timedelta(days=90)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    make(tmp_path / "deploy", lifetime=LIFE)
    return tmp_path / "deploy"


def at(days: float) -> dt.datetime:
    return dt.datetime.now(dt.UTC) + dt.timedelta(days=days)


def certificates(directory: Path) -> dict[str, x509.Certificate]:
    """Of servers and of kubeconfigs, by file."""
    found = {path.name: path.read_bytes() for path in (directory / "tls").glob("*.crt")}
    for path in (*(directory / "kubeconfigs").iterdir(), *directory.glob("control.kubeconfig")):
        user = msgspec.json.decode(path.read_bytes())["users"][0]["user"]
        found[path.name] = base64.b64decode(user["client-certificate-data"])
    return {name: x509.load_pem_x509_certificate(data) for name, data in found.items()}


def told(one: x509.Certificate) -> tuple[object, ...]:
    """What users of a certificate rely on."""
    usage = one.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    names: list[str] = []
    if ExtendedKeyUsageOID.SERVER_AUTH in usage:
        names = sorted(str(n.value) for n in one.extensions.get_extension_for_class(x509.SubjectAlternativeName).value)
    return one.subject, one.issuer, set(usage), names


def test_certificates_in_their_last_third_are_made_again(directory: Path) -> None:
    before = certificates(directory)
    files = renew(directory, at(61))
    after = certificates(directory)
    changed = {name for name in before if before[name] != after[name]}
    assert changed == before.keys() - {"service-accounts.crt"}
    assert {Path(file).name for file in files} == changed
    assert {name: told(one) for name, one in after.items()} == {name: told(one) for name, one in before.items()}


def test_certificates_before_it_stay(directory: Path) -> None:
    before = certificates(directory)
    assert renew(directory, at(58)) == []
    assert certificates(directory) == before


def test_keys_fit_and_authorities_stay(directory: Path) -> None:
    authority = (directory / "authority" / "ca.crt").read_bytes()
    renew(directory, at(61))
    assert (directory / "authority" / "ca.crt").read_bytes() == authority == (directory / "ca.crt").read_bytes()
    for name in ("gateway", "front-proxy"):
        key = serialization.load_pem_private_key((directory / "tls" / f"{name}.key").read_bytes(), None)
        public = certificates(directory)[f"{name}.crt"].public_key()
        assert key.public_key() == public


def test_a_certificate_of_another_authority_is_named(directory: Path, tmp_path: Path) -> None:
    other = Authority(tmp_path / "other", lifetime=LIFE)
    other.load()
    (directory / "tls" / "webhook.crt").write_bytes(other.issue("webhook", (), ["webhook"])[0])
    with pytest.raises(Failed, match=r"webhook\.crt was signed by none of the authorities"):
        renew(directory, at(61))


def test_a_directory_without_certificates_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Failed, match="make them first"):
        renew(tmp_path, at(0))


def test_identity_in_a_kubeconfig_stays(directory: Path) -> None:
    renew(directory, at(61))
    detector = certificates(directory)["detector"].subject
    assert detector.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value == "fleetlog:detector"


REACHED = ReachedAddresses(("fleet.example", "fd00::7"), 32443, 32422)


def names_in(one: x509.Certificate) -> set[str]:
    return {str(n.value) for n in one.extensions.get_extension_for_class(x509.SubjectAlternativeName).value}


def test_addresses_are_in_certificates_and_ways(tmp_path: Path) -> None:
    make(tmp_path, reached=REACHED.checked())
    found = certificates(tmp_path)
    for server in ("kube-apiserver", "nats"):
        assert {"fleet.example", "fd00::7", "localhost"} <= names_in(found[f"{server}.crt"])
    assert "fleet.example" not in names_in(found["gateway.crt"])
    people = msgspec.json.decode((tmp_path / "control.kubeconfig").read_bytes())
    assert people["clusters"][0]["cluster"]["server"] == "https://fleet.example:32443"
    inside = msgspec.json.decode((tmp_path / "kubeconfigs/detector").read_bytes())
    assert inside["clusters"][0]["cluster"]["server"] == "https://kube-apiserver:6443"
    assert (tmp_path / "log.url").read_text() == "tls://fleet.example:32422,tls://[fd00::7]:32422"
    assert "https://fleet.example:32443" in (tmp_path / "registration.json").read_text()
    with pytest.raises(Failed, match="neither a name nor an IP address"):
        ReachedAddresses(("fleet.example:6443",)).checked()


def test_what_an_earlier_version_did_not_make_is_made(directory: Path) -> None:
    new = ("control.kubeconfig", "log.url", "registration.json", "kubeconfigs/agent_signer")
    for name in new:
        (directory / name).unlink()
    before = certificates(directory)
    assert {str(Path(file).relative_to(directory)) for file in complete(directory, ReachedAddresses())} == set(new)
    assert complete(directory, ReachedAddresses()) == []
    after = certificates(directory)
    assert {name: after[name] for name in before} == before
    assert (directory / "log.url").read_text() == "tls://nats.fleetlog-system.svc:4222"
    # Further addresses come into the two servers that are reached by them; names that were there stay.
    changed = {Path(file).name for file in complete(directory, REACHED)}
    assert changed == {"kube-apiserver.crt", "nats.crt", "control.kubeconfig", "log.url", "registration.json"}
    names = names_in(certificates(directory)["nats.crt"])
    assert names == {*names_in(before["nats.crt"]), "fleet.example", "fd00::7"}


def test_a_control_plane_of_your_own_gets_no_registration(tmp_path: Path) -> None:
    make(tmp_path, reached=ReachedAddresses(("log.example",), control="https://cp.example"))
    assert (tmp_path / "log.url").read_text() == "tls://log.example:4222"
    made = [Path(file).name for file in complete(tmp_path, ReachedAddresses(("log2.example",)))]
    assert made == ["kube-apiserver.crt", "nats.crt", "log.url"]
    assert not (tmp_path / "registration.json").exists()
    assert not (tmp_path / "control.kubeconfig").exists()
