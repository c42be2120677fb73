"""Makes the certificates, kubeconfigs and secrets that compose.yaml and the manifests in k8s/ expect, in one directory.

One authority signs for the servers (log, control plane, gateway) and for the services' identities in the control plane;
the front proxy has an authority of its own, because a holder of one of its certificates may act for any user.
"""

from __future__ import annotations

import base64
import re
import secrets
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from services._kit.base.private_files import private_text
from services._rules.identity.accounts import AgentIdentity, accounts_config
from services.apiserver.auth.certificate_authority import Authority
from services.apiserver.auth.kubeconfig_files import write as write_kubeconfig
from services.cli.common.layout import HUB_USER
from services.cli.common.running import Failed, complain
from services.cli.installation.gateway_setup import VERSIONS, api_service, gateway_service
from services.cli.nats.nkeys import new_seed, public_key

ADMIN: Final = "fleetlog-admin"
NAMESPACE: Final = "fleetlog-system"
CONTROL: Final = "https://kube-apiserver:6443"
GATEWAY_PORT: Final = 8443
SERVERS: Final = {
    "nats": ("nats", "nats-1", "nats-2", "nats-3", "*.nats", f"*.nats.{NAMESPACE}.svc"),
    "etcd": ("etcd", f"etcd.{NAMESPACE}.svc"),
    "kube-apiserver": ("kube-apiserver", f"kube-apiserver.{NAMESPACE}.svc", "10.96.0.1"),
    "gateway": ("gateway", f"gateway.{NAMESPACE}.svc", "fleetlog-gateway.karmada-system.svc"),
}
"""Servers and the names they are called by."""
WITH_CONTROL: Final = ("cluster_monitor", "detector", "estimator", "executor", "status_aggregator")
"""Services that talk to the control plane."""
AGENTS: Final = "agents"
SEED: Final = "nkey.seed"
_CLUSTER: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,46}[a-z0-9])?")
_MASTERS: Final = "system:masters"


def write(directory: Path, control: str, agents: Sequence[str], dropped: Sequence[str]) -> int:
    """Write everything into a new directory; into one that is there, only the accounts of agents. Raises Failed."""
    if dropped:
        shut_out(directory, dropped)
    if (agents or dropped) and made(directory):
        admit(directory, agents)
    else:
        make(directory, control or CONTROL, agents)
    complain(f"certificates, kubeconfigs and secrets are in {directory}; docs/deploy.md says who gets which")
    return 0


def user_of(service: str) -> str:
    """The name of a service's user in the control plane."""
    return f"fleetlog:{service}"


def made(directory: Path) -> bool:
    """Whether a directory holds certificates already."""
    return (directory / "authority").exists()


def make(directory: Path, control: str = CONTROL, agents: Iterable[str] = ()) -> int:
    """Write everything into a directory that has none of it yet; raises Failed where it has."""
    if made(directory):
        raise Failed(f"{directory} holds certificates already; give another --out, or remove it to start afresh")
    from services._kit.content.master_keys import new_master_keys

    authority = Authority(directory / "authority")
    authority.load()
    proxy = Authority(directory / "authority" / "front-proxy", "fleetlog-front-proxy-ca")
    proxy.load()
    proxy.client("front-proxy-client", ())
    private_text(directory / "ca.crt", authority.ca_pem.decode())
    private_text(directory / "front-proxy-ca.crt", proxy.ca_pem.decode())
    for name, hosts in SERVERS.items():
        wanted = sorted({*hosts, "localhost", "127.0.0.1"})
        _pair(directory / "tls" / name, authority.issue(name, (), wanted, peer=True))
    _pair(directory / "tls" / "etcd-client", authority.issue("kube-apiserver", (), None))
    _pair(directory / "tls" / "front-proxy", proxy.issue("front-proxy-client", (), None))
    # An API server signs the tokens of ServiceAccounts with the key of a pair and checks them with its certificate.
    _pair(directory / "tls" / "service-accounts", authority.issue("service-accounts", (), None))
    for user, name, groups in ((ADMIN, "admin", (_MASTERS,)), *((user_of(s), s, ("fleetlog",)) for s in WITH_CONTROL)):
        cert, key = authority.issue(user, groups, None)
        path = directory / "kubeconfigs" / name
        write_kubeconfig(path, server=control, name=name, ca=authority.ca_pem, cert=cert, key=key)
    # In Kubernetes the log's servers read it out of their environment as a value: a letter makes it a text.
    password, token = f"p{secrets.token_hex(24)}", secrets.token_urlsafe(24)
    private_text(directory / "hub.password", password)
    private_text(directory / "apiserver.env", f"FLEETLOG_NATS_URL={_store_url(password)}\n")
    private_text(directory / "gateway.tokens", f'{token},admin,admin,"{_MASTERS}"\n')
    new_master_keys().save(directory / "secrets-keys.json")
    private_text(directory / "aggregation.json", _aggregation(authority.ca_pem))
    admit(directory, agents)
    return 0


def admit(directory: Path, agents: Iterable[str]) -> None:
    """Give agents of pull members a key each, and write the accounts of the log's servers; raises Failed.

    An agent that has a key keeps it; one without has no account afterwards.
    """
    try:
        password = (directory / "hub.password").read_text(encoding="utf-8")
    except OSError as error:
        raise Failed(f"{directory} holds no certificates yet ({error.strerror}); make them first") from None
    for cluster in agents:
        if not _CLUSTER.fullmatch(cluster):
            raise Failed(f"{cluster!r} is no name of a cluster: use at most 48 lower-case letters, digits and '-'")
        own = directory / AGENTS / cluster
        if not (own / SEED).exists():
            private_text(own / SEED, new_seed("user"))
        private_text(own / "cluster.json", _pull_member(cluster))
    seeds = sorted((directory / AGENTS).glob(f"*/{SEED}"))
    known = [AgentIdentity(path.parent.name, public_key(path.read_text(encoding="utf-8"))) for path in seeds]
    private_text(directory / "nats" / "accounts.conf", accounts_config(HUB_USER, password.strip(), known))


def shut_out(directory: Path, agents: Iterable[str]) -> None:
    """Take agents their keys; `admit` then writes accounts without them. Raises Failed for one that has none."""
    for cluster in agents:
        seed = directory / AGENTS / cluster / SEED
        if not _CLUSTER.fullmatch(cluster) or not seed.exists():
            raise Failed(f"no agent of {cluster!r} in {directory / AGENTS}")
        seed.unlink()


def _pull_member(cluster: str) -> str:
    """The Cluster object of a pull member, for `kubectl apply`."""
    manifest = {
        "apiVersion": "cluster.karmada.io/v1alpha1",
        "kind": "Cluster",
        "metadata": {"name": cluster},
        "spec": {"syncMode": "Pull"},
    }
    return msgspec.json.format(msgspec.json.encode(manifest)).decode()


def _aggregation(ca: bytes) -> str:
    """What makes the control plane send bindings and works to the gateway, for `kubectl apply`."""
    bundle = base64.b64encode(ca).decode()
    items = [*gateway_service("gateway"), *(api_service(*version, bundle, GATEWAY_PORT) for version in VERSIONS)]
    return msgspec.json.format(msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": items})).decode()


def _store_url(password: str) -> str:
    return ",".join(f"tls://{HUB_USER}:{password}@nats-{number}:4222" for number in (1, 2, 3))


def _pair(stem: Path, pair: tuple[bytes, bytes]) -> None:
    for suffix, data in zip((".crt", ".key"), pair, strict=True):
        private_text(stem.with_name(stem.name + suffix), data.decode())
