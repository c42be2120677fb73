"""Makes certificates, kubeconfigs and secrets of services: for compose.yaml and k8s/, and for a laptop installation.

One authority signs for the servers (log, control plane, gateway) and for the services' identities in the control plane;
the front proxy has an authority of its own, because a holder of one of its certificates may act for any user.
"""

from __future__ import annotations

import base64
import datetime as dt
import re
import secrets
from collections.abc import Iterable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from schemas.topology import SERVICES, WITHOUT_LOG
from services._kit.base.private_files import private_json, private_text
from services._rules.admission.webhook_configurations import Target, webhook_configurations
from services._rules.identity.accounts import (
    OBSERVER_USER,
    SYSTEM_USER,
    AgentIdentity,
    Passwords,
    accounts_config,
)
from services._rules.kubernetes.rbac.service_roles import (
    RULES,
    SCRAPER,
    SERVICE_GROUP,
    SERVICE_NAMESPACE,
    USERS,
    dns,
    user_of,
)
from services._rules.kubernetes.rbac.user_names import MASTERS
from services.apiserver.auth.certificate_authority import LIFETIME, Authority
from services.apiserver.auth.kubeconfig_files import write as write_kubeconfig
from services.cli.common.layout import CONTROL as EMBEDDED
from services.cli.common.layout import Installation, Layout
from services.cli.common.running import Failed, complain
from services.cli.installation.gateway_setup import api_services, gateway_service, member_access
from services.cli.members.reached_addresses import ReachedAddresses
from services.cli.members.registration_objects import bootstrap_objects
from services.cli.nats.nkeys import new_seed, public_key
from services.cli.renewal.host_cluster import opened_host
from services.cli.renewal.log_secrets import ACCOUNTS_KEY, ACCOUNTS_SECRET, Accounts, read_accounts, write_secret
from services.cli.renewal.renewed_pairs import FRONT_PROXY, FRONT_PROXY_NAME, SIGNER, Certificate, authorities_in
from services.cli.search import search_setup

ADMIN: Final = "fleetlog-admin"
NAMESPACE: Final = SERVICE_NAMESPACE
CONTROL: Final = "https://kube-apiserver:6443"
GATEWAY_PORT: Final = 8443
SEARCH_PORT: Final = 8443
WEBHOOK_PORT: Final = 8443
WITH_CONTROL: Final = tuple(RULES)
"""Services that talk to the control plane."""
AUTHORIZATION: Final = "Node,RBAC"
"""How embedded control planes decide: by roles, and kubelets are confined to their node."""
AGENTS: Final = "agents"
AUTHORITY: Final = "authority"
"""Directory with the authority's certificate and key."""
SEED: Final = "nkey.seed"
KEY: Final = "nkey.pub"
"""In place of the seed, where an agent keeps that to itself."""
CA: Final = "ca.crt"
OBSERVER_PASSWORD: Final = "observer.password"
"""File with the password of people and programs that read the log and write nothing."""
SYSTEM_PASSWORD: Final = "system.password"
"""File with the password of who asks the log's servers how they are."""
PASSWORDS: Final = "passwords"
"""Directory with a file for the password of each service's user."""
PEOPLE_KUBECONFIG: Final = f"{EMBEDDED}.kubeconfig"
REGISTRATION: Final = "registration.json"
LOG_URL: Final = "log.url"
"""File with where agents of members reach the log."""
_MONITORING: Final = "system:monitoring"
"""The group that reads health and metrics."""
_CLUSTER: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,46}[a-z0-9])?")
_PULL_MEMBER: Final = {"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "spec": {"syncMode": "Pull"}}


def write(
    directory: Path,
    reached: ReachedAddresses,
    agents: Sequence[str],
    dropped: Sequence[str],
    renewed: Sequence[str] = (),
    *,
    certificates: bool = False,
) -> int:
    """Write everything into a new directory; into one that is there, only users and accounts of the log. Raises Failed.

    The users of `renewed` get new passwords. With `certificates`, those that end soon are renewed in one that is there.
    """
    reached = reached.checked()
    if certificates:
        files = renew(directory, dt.datetime.now(dt.UTC))  # noqa: TID251 - a command
        complain(
            "\n".join([*(f"renewed {file}" for file in files), f"{len(files)} certificates renewed in {directory}"])
        )
        complain("".join(f"made {file}\n" for file in complete(directory, reached)).rstrip("\n") or "all else is there")
        if not (agents or dropped or renewed):
            return 0
    if dropped:
        shut_out(directory, dropped)
    for user in renewed:
        _renew(directory, user)
    if (agents or dropped or renewed) and made(directory):
        admit(directory, agents)
    else:
        make(directory, agents, reached=reached)
    complain(f"certificates, kubeconfigs and secrets are in {directory}; docs/deploy.md says who gets which")
    return 0


async def write_with_secrets(
    directory: Path, agents: Sequence[str], dropped: Sequence[str], renewed: Sequence[str], *, namespace: str, host: str
) -> int:
    """Change users and accounts of the log, in a directory that is there and in the Secrets of a namespace.

    `host` is the kubeconfig of its cluster, empty in a pod. Raises Failed.
    """
    if not made(directory):
        raise Failed(f"{directory} holds no certificates yet: --secrets is for an installation that --out is of")
    async with opened_host(host) as client:
        accounts = await read_accounts(client, namespace)
        if accounts is not None:
            _take_over(directory, accounts, dropped, namespace)
        write(directory, ReachedAddresses(), agents, dropped, renewed)
        # Servers know a new password before a service is told it.
        for name, files in log_secrets(renewed).items():
            texts = {key: (directory / file).read_text(encoding="utf-8") for key, file in files.items()}
            try:
                done = await write_secret(
                    client, namespace, name, texts, accounts.revision if accounts and name == ACCOUNTS_SECRET else ""
                )
                print(f"Secret {name}: {done}", flush=True)
            except Failed as error:
                raise Failed(f"{error}; the files in {directory} are written: write it by hand") from None
    return 0


def _take_over(directory: Path, accounts: Accounts, dropped: Sequence[str], namespace: str) -> None:
    """Know the agents that were let in by the Secret of the installation; raises Failed where that is another one's."""
    if accounts.passwords.hub != (directory / "hub.password").read_text(encoding="utf-8").strip():
        raise Failed(
            f"Secret {ACCOUNTS_SECRET} of namespace {namespace} was not made from this directory; give the --out of "
            "that installation. Nothing was changed"
        )
    for agent in accounts.agents:
        own = _agent_key(directory, agent.cluster)
        if own and own != agent.public_key and agent.cluster not in dropped:
            raise Failed(
                f"the agent of {agent.cluster} has registered with another key than that in {directory / AGENTS}; "
                f"--drop-agent {agent.cluster} takes it both. Nothing was changed"
            )
        if not own:
            private_text(directory / AGENTS / agent.cluster / KEY, agent.public_key)


def log_secrets(renewed: Sequence[str]) -> dict[str, dict[str, str]]:
    """Secrets to write after accounts changed, and after these users got new passwords: files of their keys."""
    found = {ACCOUNTS_SECRET: {ACCOUNTS_KEY: f"nats/{ACCOUNTS_KEY}"}}
    for user in renewed:
        if user == OBSERVER_USER:
            found["fleetlog-log"] = {CA: CA, OBSERVER_PASSWORD: OBSERVER_PASSWORD}
        elif user != SYSTEM_USER:
            found[f"fleetlog-log-{dns(user)}"] = {CA: CA, "password": f"{PASSWORDS}/{user}"}
    return found


def made(directory: Path) -> bool:
    """Whether a directory holds certificates already."""
    return (directory / "kubeconfigs").exists()


def servers(namespace: str) -> dict[str, tuple[str, ...]]:
    """Servers and the names they are called by, in a namespace of a host cluster and in compose."""
    return {
        "nats": (
            *("nats", "nats-1", "nats-2", "nats-3", "*.nats"),
            *(f"{name}.{namespace}.svc" for name in ("nats", "*.nats", "log")),
        ),
        "etcd": ("etcd", f"etcd.{namespace}.svc"),
        "kube-apiserver": ("kube-apiserver", f"kube-apiserver.{namespace}.svc", "10.96.0.1"),
        "gateway": ("gateway", f"gateway.{namespace}.svc", "fleetlog-gateway.karmada-system.svc"),
        "search": ("search", f"search.{namespace}.svc", "fleetlog-search.karmada-system.svc"),
        "webhook": ("webhook", f"webhook.{namespace}.svc", "fleetlog-webhook.karmada-system.svc"),
    }


def make(
    directory: Path,
    agents: Iterable[str] = (),
    *,
    namespace: str = NAMESPACE,
    reached: ReachedAddresses = ReachedAddresses(),  # noqa: B008 - immutable
    lifetime: timedelta | None = None,
) -> int:
    """Write everything into a directory that has none of it yet; raises Failed where it has.

    Servers for people and agents are also reached as `reached` says; `lifetime` is that of certificates, the usual
    years if None. An authority that lies in `authority` already is used.
    """
    if made(directory):
        raise Failed(f"{directory} holds certificates already; give another --out, or remove it to start afresh")
    from services._kit.content.master_keys import new_master_keys

    authority = Authority(directory / AUTHORITY, lifetime=lifetime or LIFETIME)
    authority.load()
    proxy = Authority(directory / AUTHORITY / FRONT_PROXY, FRONT_PROXY_NAME, lifetime or LIFETIME)
    proxy.load()
    proxy.client("front-proxy-client", ())
    private_text(directory / CA, authority.ca_pem.decode())
    private_text(directory / "front-proxy-ca.crt", proxy.ca_pem.decode())
    for name, hosts in servers(namespace).items():
        wanted = sorted({*hosts, "localhost", "127.0.0.1", *reached.names_of(name)})
        _pair(directory / "tls" / name, authority.issue(name, (), wanted, peer=True))
    _pair(directory / "tls" / "etcd-client", authority.issue("kube-apiserver", (), None))
    _pair(directory / "tls" / "front-proxy", proxy.issue("front-proxy-client", (), None))
    # An API server signs the tokens of ServiceAccounts with the key of a pair and checks them with its certificate.
    _pair(directory / "tls" / SIGNER, authority.issue(SIGNER, (), None))
    _pair(directory / "tls" / SCRAPER, authority.issue(user_of(SCRAPER), (_MONITORING,), None))
    _write_users(directory, reached.control or CONTROL, authority, ("admin", *USERS))
    _write_ways(directory, reached, namespace, authority)
    # In Kubernetes the log's servers read it out of their environment as a value: a letter makes it a text.
    private_text(directory / "hub.password", f"p{secrets.token_hex(24)}")
    token = secrets.token_urlsafe(24)
    private_text(directory / "gateway.tokens", f'{token},admin,admin,"{MASTERS}"\n')
    new_master_keys().save(directory / "secrets-keys.json")
    # Simulated members in containers leave their kubeconfigs here.
    (directory / "members").mkdir(exist_ok=True)
    bundle = base64.b64encode(authority.ca_pem).decode()
    items = [*gateway_service("gateway"), *api_services(bundle, GATEWAY_PORT), *member_access()]
    items += [search_setup.search_service("search"), search_setup.api_service(bundle, SEARCH_PORT)]
    # Makes the control plane send bindings and works to the gateway, and searches to search, by `kubectl apply`.
    private_json(directory / "aggregation.json", {"apiVersion": "v1", "kind": "List", "items": items})
    # Makes it ask the webhook about policies and other kinds, likewise.
    asked = webhook_configurations(Target(bundle, url=f"https://webhook:{WEBHOOK_PORT}"))
    private_json(directory / "admission.json", {"apiVersion": "v1", "kind": "List", "items": asked})
    admit(directory, agents)
    return 0


def complete(directory: Path, reached: ReachedAddresses) -> list[str]:
    """Make what an earlier version did not, and let people and agents come by further addresses; the files.

    Certificates keep the names that they have. Raises Failed.
    """
    authority = Authority(directory / AUTHORITY)
    authority.load()
    found = []
    for server in ("kube-apiserver", "nats"):
        path = directory / "tls" / f"{server}.crt"
        names, wanted = Certificate(str(path), path.read_bytes(), [authority]).names, reached.names_of(server)
        if not names.issuperset(wanted):
            _pair(path.with_suffix(""), authority.issue(server, (), sorted(names.union(wanted)), peer=True))
            found.append(str(path))
    (known,) = msgspec.json.decode((directory / "kubeconfigs" / WITH_CONTROL[0]).read_bytes())["clusters"]
    missing = [user for user in USERS if not (directory / "kubeconfigs" / user).exists()]
    found += [str(path) for path in _write_users(directory, known["cluster"]["server"], authority, missing)]
    if reached.addresses or not (directory / LOG_URL).exists():
        outside = known["cluster"]["server"] if known["cluster"]["server"] != CONTROL else ""
        found += [str(path) for path in _write_ways(directory, replace(reached, control=outside), NAMESPACE, authority)]
    return found


def _write_users(directory: Path, server: str, authority: Authority, users: Iterable[str]) -> list[Path]:
    """Write kubeconfigs with which users of an installation reach the control plane from within it."""
    made = []
    for name in users:
        user, groups = (ADMIN, (MASTERS,)) if name == "admin" else (user_of(name), (SERVICE_GROUP,))
        cert, key = authority.issue(user, groups, None)
        path = directory / "kubeconfigs" / name
        write_kubeconfig(path, server=server, name=name, ca=authority.ca_pem, cert=cert, key=key)
        made.append(path)
    return made


def _write_ways(directory: Path, reached: ReachedAddresses, namespace: str, authority: Authority) -> list[Path]:
    """Write how people and agents come in; for a control plane that is not ours only where the log is."""
    private_text(directory / LOG_URL, reached.members or f"tls://nats.{namespace}.svc:4222")
    if reached.control:
        return [directory / LOG_URL]
    write_people_kubeconfig(directory, reached.people, authority)
    # Tells clusters that register themselves who the control plane is.
    told = bootstrap_objects(reached.people, base64.b64encode(authority.ca_pem).decode())
    private_json(directory / REGISTRATION, {"apiVersion": "v1", "kind": "List", "items": told})
    return [directory / name for name in (LOG_URL, PEOPLE_KUBECONFIG, REGISTRATION)]


def write_people_kubeconfig(directory: Path, server: str, authority: Authority) -> None:
    """Write the kubeconfig of people, who reach the control plane at this URL; with a certificate of its own."""
    cert, key = authority.issue(ADMIN, (MASTERS,), None)
    path = directory / PEOPLE_KUBECONFIG
    write_kubeconfig(path, server=server, name="fleetlog", ca=authority.ca_pem, cert=cert, key=key)


def write_identities(layout: Layout, installation: Installation, services: Iterable[str]) -> None:
    """Write a kubeconfig of its own for each service that talks to an embedded control plane.

    Who scrapes metrics gets a certificate. All are made again at every start, by the authority that the server finds
    in its directory.
    """
    authority = Authority(layout.data(EMBEDDED))
    authority.load()
    server = f"https://127.0.0.1:{installation.port(EMBEDDED)}"
    for service in services:
        if service in USERS:
            cert, key = authority.issue(user_of(service), (SERVICE_GROUP,), None)
            path = layout.identity(service)
            write_kubeconfig(path, server=server, name=service, ca=authority.ca_pem, cert=cert, key=key)
    _pair(layout.identity(SCRAPER).with_suffix(""), authority.issue(user_of(SCRAPER), (_MONITORING,), None))


def renew(directory: Path, now: dt.datetime) -> list[str]:
    """Make certificates of a directory again that are in the last third of their life; their files.

    Authorities stay, and so does the pair that signs the tokens of ServiceAccounts. Raises Failed.
    """
    if not made(directory):
        raise Failed(f"{directory} holds no certificates yet; make them first")
    authorities = authorities_in(directory / AUTHORITY)
    renewed = []
    for path in sorted((directory / "tls").glob("*.crt")):
        if path.stem != SIGNER and (pair := _renewed(authorities, path, path.read_bytes(), now)) is not None:
            _pair(path.with_suffix(""), pair)
            renewed.append(str(path))
    of_people = directory / PEOPLE_KUBECONFIG
    for path in (*sorted((directory / "kubeconfigs").iterdir()), *([of_people] if of_people.exists() else ())):
        document = msgspec.json.decode(path.read_bytes())
        user = document["users"][0]["user"]
        old = base64.b64decode(user["client-certificate-data"])
        if (pair := _renewed(authorities, path, old, now)) is not None:
            user["client-certificate-data"], user["client-key-data"] = (base64.b64encode(one).decode() for one in pair)
            private_json(path, document)
            renewed.append(str(path))
    return renewed


def _renewed(authorities: Sequence[Authority], path: Path, pem: bytes, now: dt.datetime) -> tuple[bytes, bytes] | None:
    """A new pair for a certificate that is in the last third of its life, None before."""
    old = Certificate(str(path), pem, authorities)
    return old.renewed() if old.due(now) else None


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
        if not has_agent(directory, cluster):
            private_text(own / SEED, new_seed("user"))
        private_json(own / "cluster.json", {**_PULL_MEMBER, "metadata": {"name": cluster}})
    known = [
        AgentIdentity(path.name, key)
        for path in sorted((directory / AGENTS).glob("*"))
        if (key := _agent_key(directory, path.name))
    ]
    passwords = Passwords(
        hub=password.strip(),
        services={name: _password(directory / PASSWORDS / name) for name in SERVICES if name not in WITHOUT_LOG},
        observer=_password(directory / OBSERVER_PASSWORD),
        system=_password(directory / SYSTEM_PASSWORD),
    )
    private_text(directory / "nats" / "accounts.conf", accounts_config(passwords, known))


def has_agent(directory: Path, cluster: str) -> bool:
    """Whether an agent has a key."""
    return bool(_agent_key(directory, cluster))


def _agent_key(directory: Path, cluster: str) -> str:
    """The public key of an agent; empty for one that has none."""
    own = directory / AGENTS / cluster
    if (own / SEED).exists():
        return public_key((own / SEED).read_text(encoding="utf-8"))
    return (own / KEY).read_text(encoding="utf-8").strip() if (own / KEY).exists() else ""


def _renew(directory: Path, user: str) -> None:
    """Remove the password of a user of the log, so that another one is made; raises Failed for an unknown user."""
    of_services = {name: directory / PASSWORDS / name for name in SERVICES if name not in WITHOUT_LOG}
    places = {OBSERVER_USER: directory / OBSERVER_PASSWORD, SYSTEM_USER: directory / SYSTEM_PASSWORD, **of_services}
    if user not in places:
        raise Failed(f"no user {user!r} of the log gets a password of its own; these do: {', '.join(sorted(places))}")
    if made(directory):
        places[user].unlink(missing_ok=True)


def _password(path: Path) -> str:
    """The password in a file, made if there is none."""
    if not path.exists():
        private_text(path, f"p{secrets.token_hex(24)}")
    return path.read_text(encoding="utf-8").strip()


def shut_out(directory: Path, agents: Iterable[str]) -> None:
    """Take agents their keys; `admit` then writes accounts without them. Raises Failed for one that has none."""
    for cluster in agents:
        if not _CLUSTER.fullmatch(cluster) or not has_agent(directory, cluster):
            raise Failed(f"no agent of {cluster!r} in {directory / AGENTS}")
        for name in (SEED, KEY):
            (directory / AGENTS / cluster / name).unlink(missing_ok=True)


def _pair(stem: Path, pair: tuple[bytes, bytes]) -> None:
    for suffix, data in zip((".crt", ".key"), pair, strict=True):
        private_text(stem.with_name(stem.name + suffix), data.decode())
