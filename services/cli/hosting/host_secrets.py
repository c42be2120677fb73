"""Makes the certificates of an installation, and the Secrets that carry them to its pods."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

from schemas.manifest import Manifest
from services._kit.base.private_files import private_text
from services._rules.kubernetes.rbac.service_roles import SIGNER_OF_AGENTS, dns
from services.apiserver.auth.kubeconfig_files import write as write_kubeconfig
from services.cli.common.running import Failed
from services.cli.hosting.host_manifests import external_secret, secret
from services.cli.hosting.wanted_installation import Wanted
from services.cli.installation import certificate_files
from services.cli.members.reached_addresses import ReachedAddresses
from services.cli.renewal.renewed_pairs import FRONT_PROXY

KUBECONFIG: Final = "karmada-apiserver.config"
CLUSTER: Final = "karmada-apiserver"
_SERVING: Final = ("nats", "gateway", "search", "webhook")
_OURS: Final = frozenset({"authority", "kubeconfigs", "passwords", "tls", "nats", "pki", KUBECONFIG})
"""What an installation leaves in its directories; where something of it lies, they may be emptied."""


def make_files(wanted: Wanted, addresses: list[str]) -> Path:
    """Make everything, also what was there; the kubeconfig of the control plane. Raises Failed."""
    for directory in dict.fromkeys((wanted.data, wanted.pki)):
        _empty(directory)
    wanted.data.mkdir(parents=True, exist_ok=True, mode=0o700)
    wanted.pki.mkdir(parents=True, exist_ok=True, mode=0o700)
    _take_authority(wanted)
    reached = ReachedAddresses(
        tuple(addresses),
        wanted.port,
        wanted.log_port,
        further=(*wanted.addresses, *wanted.names),
        names=("kubernetes", "kubernetes.default", "kubernetes.default.svc"),
    )
    try:
        certificate_files.make(
            wanted.pki, namespace=wanted.namespace, reached=reached, lifetime=wanted.lifetime or None
        )
    except ValueError as error:
        raise Failed(f"the authority cannot be used: {error}") from None
    return _write_kubeconfig(wanted, addresses[0])


def _empty(directory: Path) -> None:
    """Remove what an earlier installation left, and nothing else."""
    try:
        found = {entry.name for entry in directory.iterdir()}
    except FileNotFoundError:
        return
    except OSError as error:
        raise Failed(f"{directory}: {error.strerror}; give another --karmada-data") from None
    if not found:
        return
    if not found & _OURS:
        raise Failed(
            f"{directory} holds files that no installation wrote ({', '.join(sorted(found)[:3])}); "
            "give another --karmada-data, or empty it"
        )
    shutil.rmtree(directory)


def _take_authority(wanted: Wanted) -> None:
    for given, name in zip(wanted.authority, ("ca.crt", "ca.key"), strict=True):
        if given:
            private_text(wanted.pki / "authority" / name, _text(Path(given).expanduser()))


def _write_kubeconfig(wanted: Wanted, address: str) -> Path:
    """The administrator's kubeconfig, which leads to a node."""
    from services._rules.kubernetes.rbac.user_names import MASTERS
    from services.apiserver.auth.certificate_authority import Authority

    authority = Authority(wanted.pki / "authority", lifetime=wanted.lifetime)
    authority.load()
    cert, key = authority.issue("system:admin", (MASTERS,), None)
    path = wanted.data / KUBECONFIG
    host = f"[{address}]" if ":" in address else address
    server = f"https://{host}:{wanted.port}"
    write_kubeconfig(path, server=server, name=CLUSTER, ca=authority.ca_pem, cert=cert, key=key)
    return path


def host_secrets(wanted: Wanted) -> list[Manifest]:
    """The Secrets that the pods mount, from the files that were made."""
    pki, tls = wanted.pki, wanted.pki / "tls"

    serving = {name: {f"tls.{end}": _text(tls / f"{name}.{end}") for end in ("crt", "key")} for name in _SERVING}
    authority = {"ca.crt": _text(pki / "ca.crt")}
    front = {name: _text(path) for name, path in _of_fronts(pki).items()}
    texts = {
        "fleetlog-log": {**authority, "observer.password": _text(pki / certificate_files.OBSERVER_PASSWORD)},
        f"fleetlog-log-{dns(SIGNER_OF_AGENTS)}": {
            **authority,
            certificate_files.LOG_URL: _text(pki / certificate_files.LOG_URL),
        },
        "fleetlog-nats-accounts": {"accounts.conf": _text(pki / "nats" / "accounts.conf")},
        **{
            f"fleetlog-log-{dns(path.name)}": {**authority, "password": _text(path)}
            for path in sorted((pki / certificate_files.PASSWORDS).iterdir())
        },
        "fleetlog-nats-tls": {**authority, **serving["nats"]},
        "fleetlog-secrets-keys": {"secrets-keys.json": _text(pki / "secrets-keys.json")},
        "fleetlog-gateway": {**serving["gateway"], **front},
        "fleetlog-search": {**serving["search"], **front},
        "fleetlog-webhook": serving["webhook"],
        "fleetlog-authorities": {**authority, "front-proxy-ca.crt": front["front-proxy-ca.crt"]},
        "fleetlog-kube-apiserver": {path.name: _text(path) for path in sorted(tls.iterdir())},
    }
    if not wanted.etcd.servers:
        texts["fleetlog-etcd"] = {**authority, **{f"etcd.{end}": _text(tls / f"etcd.{end}") for end in ("crt", "key")}}
    for path in sorted((pki / "kubeconfigs").iterdir()):
        if path.name != "admin":
            texts[f"fleetlog-control-{dns(path.name)}"] = {"kubeconfig": _text(path)}
    if not any(wanted.authority):
        texts["fleetlog-authority"] = {
            **{f"ca.{end}": _text(pki / certificate_files.AUTHORITY / f"ca.{end}") for end in ("crt", "key")},
            **{
                f"front-proxy-ca.{end}": _text(pki / certificate_files.AUTHORITY / FRONT_PROXY / f"ca.{end}")
                for end in ("crt", "key")
            },
        }
    etcd = wanted.etcd
    outside = {"ca.crt": etcd.ca, "tls.crt": etcd.cert, "tls.key": etcd.key}
    given = {name: _text(Path(path).expanduser()) for name, path in outside.items() if path}
    return [
        *(secret(name, wanted.namespace, contents) for name, contents in texts.items()),
        *external_secret(wanted, given),
    ]


def _of_fronts(pki: Path) -> dict[str, Path]:
    """Files of services that answer people: whom they believe."""
    return {"tokens": pki / "gateway.tokens", "front-proxy-ca.crt": pki / "front-proxy-ca.crt"}


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Failed(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from None
