"""Renews certificates in Secrets of a cluster: those in the last third of their life, by an authority at hand.

Each Secret is read, decided and written by itself, in the version that was read: what another run or a person wrote
meanwhile is never overwritten, and what is wrong with one Secret keeps no other from being renewed.
"""

from __future__ import annotations

import base64
import binascii
import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from schemas.manifest import Manifest
from services._kit.kube.client import ApiError, KubeClient, Unreachable, resource_path
from services._rules.kubernetes.rbac.service_roles import USERS, dns
from services.apiserver.auth.certificate_authority import Authority
from services.cli.common.running import Failed, complain
from services.cli.renewal.host_cluster import opened_host
from services.cli.renewal.renewed_pairs import SIGNER, Certificate, authorities_in

SECRETS: Final = (
    *("fleetlog-nats-tls", "fleetlog-gateway", "fleetlog-search", "fleetlog-webhook"),
    *("fleetlog-kube-apiserver", "fleetlog-etcd"),
    *(f"fleetlog-control-{dns(service)}" for service in USERS),
)
"""Secrets of an installation that hold certificates."""
CERTIFICATE_OF_MANAGER: Final = "cert-manager.io/certificate-name"
"""Annotation of a Secret that cert-manager writes."""
_KUBECONFIG: Final = "kubeconfig"
_ATTEMPTS: Final = 5


@dataclass(frozen=True)
class Renewal:
    """What is renewed: Secrets of a namespace, by the authority in a directory; `kubeconfig` is empty in a pod."""

    namespace: str
    names: Sequence[str]
    authority: Path
    kubeconfig: str = ""


@dataclass
class Decided:
    """What becomes of one Secret: keys to write, names of what is renewed, and when the first of the others ends."""

    changes: dict[str, bytes] = field(default_factory=dict)
    renewed: list[str] = field(default_factory=list)
    ends: dt.datetime | None = None
    foreign: list[str] = field(default_factory=list)

    def keep(self, end: dt.datetime) -> None:
        """A certificate stays."""
        self.ends = end if self.ends is None else min(self.ends, end)


def decide(place: str, data: Mapping[str, bytes], authorities: Sequence[Authority], now: dt.datetime) -> Decided:
    """What becomes of a Secret with this data; raises Failed where something has to be renewed and cannot be."""
    found = Decided()
    due: list[tuple[str, Certificate, _Place]] = []
    for name, pem, written in _certificates(place, data):
        certificate = Certificate(f"{place}: {name}", pem, authorities)
        if not certificate.ours:
            found.foreign.append(name)
        if certificate.due(now):
            due.append((name, certificate, written))
        else:
            found.keep(certificate.ends)
    if due and found.foreign:
        ending, first = ", ".join(name for name, _, _ in due), min(one.ends for _, one, _ in due)
        raise Failed(
            f"{place}: {ending} ends at {first:%Y-%m-%d}, and {', '.join(found.foreign)} was signed by none of the "
            "authorities at hand; the Secret is left as it is: renew it where it was made"
        )
    for name, certificate, written in due:
        written.write(found.changes, *certificate.renewed())
        found.renewed.append(name)
    return found


class _Place:
    """Where a certificate and its key stand: two keys of a Secret, or a user of a kubeconfig in one."""

    def __init__(self, certificate: str, key: str, document: Manifest | None = None, user: Any = None) -> None:
        self._certificate, self._key = certificate, key
        self._document, self._user = document, user

    def write(self, changes: dict[str, bytes], certificate: bytes, key: bytes) -> None:
        """Put another pair there."""
        if self._document is None:
            changes |= {self._certificate: certificate, self._key: key}
            return
        self._user["client-certificate-data"] = base64.b64encode(certificate).decode()
        self._user["client-key-data"] = base64.b64encode(key).decode()
        changes[self._certificate] = msgspec.json.format(msgspec.json.encode(self._document), indent=2) + b"\n"


def _certificates(place: str, data: Mapping[str, bytes]) -> Iterator[tuple[str, bytes, _Place]]:
    """Certificates with a key beside them; authorities have none there, and the pair that signs tokens stays."""
    for name in sorted(data):
        stem, dot, end = name.rpartition(".")
        if dot and end == "crt" and f"{stem}.key" in data and stem != SIGNER:
            yield name, data[name], _Place(name, f"{stem}.key")
    if _KUBECONFIG in data:
        yield from _in_kubeconfig(place, data[_KUBECONFIG])


def _in_kubeconfig(place: str, text: bytes) -> Iterator[tuple[str, bytes, _Place]]:
    import yaml

    try:
        # JSON is YAML.
        document = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        for entry in document.get("users") or ():
            user = entry.get("user") or {}
            if pem := user.get("client-certificate-data"):
                yield (
                    f"{_KUBECONFIG} of {entry['name']}",
                    base64.b64decode(pem, validate=True),
                    _Place(_KUBECONFIG, "", document, user),
                )
    except (yaml.YAMLError, AttributeError, KeyError, TypeError, binascii.Error) as error:
        raise Failed(f"{place}: its {_KUBECONFIG} cannot be read: {error}") from None


async def renew_secrets(wanted: Renewal) -> int:
    """Renew what is due and print what became of each Secret; 1 when something could not be renewed that ends soon."""
    authorities = authorities_in(wanted.authority)
    if not authorities:
        complain(f"no authority is in {wanted.authority}: nothing can be renewed, and what ends soon is an error")
    failed = renewed = 0
    async with opened_host(wanted.kubeconfig) as host:
        for name in wanted.names:
            try:
                said = await _renew(host, wanted.namespace, name, authorities)
            except (Failed, ApiError, Unreachable, binascii.Error) as error:
                complain(f"error: {error}" if isinstance(error, Failed) else f"error: Secret {name}: {error}")
                failed += 1
                continue
            print(f"{name}: {said}", flush=True)
            renewed += said.startswith("renewed")
    print(f"{renewed} of {len(wanted.names)} Secrets renewed, {failed} failed")
    return 1 if failed else 0


async def _renew(host: KubeClient, namespace: str, name: str, authorities: Sequence[Authority]) -> str:
    path = resource_path("", "v1", "secrets", namespace, name)
    for _ in range(_ATTEMPTS):
        try:
            secret = await host.get(path)
        except ApiError as error:
            if error.status == 404:
                return "is not there"
            raise
        if CERTIFICATE_OF_MANAGER in (secret["metadata"].get("annotations") or {}):
            return "is renewed by cert-manager"
        data = {key: base64.b64decode(value) for key, value in (secret.get("data") or {}).items()}
        decided = decide(f"Secret {name}", data, authorities, dt.datetime.now(dt.UTC))  # noqa: TID251 - a command
        if not decided.changes:
            return _stays(decided)
        written = {key: base64.b64encode(value).decode() for key, value in decided.changes.items()}
        try:
            # The version that was read stands in it: the server refuses it where there is a later one.
            await host.request("PUT", path, body={**secret, "data": {**(secret.get("data") or {}), **written}})
        except ApiError as error:
            if error.status != 409:
                raise
        else:
            return f"renewed {', '.join(decided.renewed)}"
    raise Failed(f"Secret {name} is written by others all the time; it is left for the next run")


def _stays(decided: Decided) -> str:
    if decided.ends is None:
        return "holds no certificate"
    by_others = f"; not by an authority at hand: {', '.join(decided.foreign)}" if decided.foreign else ""
    return f"good until {decided.ends:%Y-%m-%d}{by_others}"
