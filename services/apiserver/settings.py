"""Settings of the API server, from arguments or from FLEETLOG_* environment variables."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from services._kit.base.settings import gates_of
from services._rules.kubernetes.rbac.user_names import MASTERS
from services.apiserver.auth.authentication import parse_tokens
from services.apiserver.auth.authorization import modes_of
from services.apiserver.auth.openid_tokens import OpenIdSettings
from services.apiserver.core.outbound import Outbound
from services.apiserver.core.request_context import Identity

DEFAULT_VERSION = "v1.36.0+fleetlog"
PREFIX: Final = "FLEETLOG_APISERVER_"
GATES: Final = "FLEETLOG_FEATURE_GATES"
NO_EXECUTE: Final = "FLEETLOG_ENABLE_NO_EXECUTE_TAINT_EVICTION"
SHARED: Final = (GATES, NO_EXECUTE)
"""Variables of services that are read here as well."""
VARIABLES: Final = frozenset(
    PREFIX + name
    for name in (
        *("ADMIN_TOKEN", "ADMISSION", "AGGREGATE", "ALLOW_LOCAL_EXTENSIONS", "AUDIT_LOG", "AUTHORIZATION"),
        *("BOOTSTRAP_TOKENS", "CONTROLLERS"),
        *("DATA_DIR", "DROP_UNREADABLE", "EVENT_TTL", "GUARD_SECONDS", "HOST", "KUBECONFIG", "PORT", "PREFIX"),
        *("OIDC_CA_FILE", "OIDC_CLIENT_ID", "OIDC_GROUPS_CLAIM", "OIDC_GROUPS_PREFIX", "OIDC_ISSUER_URL"),
        *("OIDC_REQUIRED_CLAIM", "OIDC_SIGNING_ALGS", "OIDC_USERNAME_CLAIM", "OIDC_USERNAME_PREFIX"),
        *("PUBLIC_URL", "QUEUE", "QUEUE_SECONDS", "REPLICAS", "REQUEST_SECONDS", "SEATS", "SERVICE_CIDR"),
        *("SERVICE_ROLES", "STREAM", "TLS", "TLS_NAMES", "TOKEN_FILE", "TRACK_FIELDS", "VERSION", "WATCHES"),
    )
)
"""Every variable that is read here and in `__main__`."""


class Limits(msgspec.Struct, kw_only=True, frozen=True):
    """What one request and one user may take of a server; members of system:masters wait for no seat.

    A request takes `request_seconds` at most, watches left out. `seats` is how many are worked on at a time, by levels
    of users; a user of a level without a free seat has `queue` requests that wait for `queue_seconds`; more are
    answered 429. A user has `watches` open watches at most. The others are seconds after which a connection is closed.
    """

    request_seconds: float = 34.0
    seats: int = 600
    queue: int = 100
    queue_seconds: float = 15.0
    watches: int = 10_000
    handshake_seconds: float = 10.0
    head_seconds: float = 32.0
    idle_seconds: float = 180.0
    unread_seconds: float = 60.0


class Settings(msgspec.Struct, kw_only=True):
    """How one API server runs.

    `data_dir` holds certificates, keys and the kubeconfig. `controllers` turns on what a kube-controller-manager does:
    the lifecycle of namespaces, the garbage collector, tokens in Secrets, and the end of finished Jobs; the last is off
    without `finished_jobs`, for servers of which another part does it. `track_fields` off leaves managedFields out
    until an object is first applied. `aggregate` maps group/version to the URL of the server that answers for it.
    `public_url` is where members reach this server; empty: where it listens. `bootstrap_tokens` lets their bearers in
    and publishes cluster-info. `admission` applies the defaults and rules of Karmada's kinds, some of them by
    `feature_gates`, and protects objects from deletion: what a control plane does and a member does not.
    An edit of a guarded policy is measured for `guard_seconds` at most.
    `no_execute_policies` lets a ClusterTaintPolicy evict. `quotas` enforces ResourceQuotas by their status, and with
    `controllers` measures it. `namespace_objects` gives namespaces their default ServiceAccount and the certificate
    authority, with `controllers`. What a cluster with pods does and a control plane of templates does not:
    `service_accounts` gives pods a ServiceAccount that exists and its token, `protect_volumes` keeps claims, volumes
    and VolumeAttributesClasses while they are in use. `allow_local_extensions` names addresses of this machine and its
    links that webhooks and aggregated servers may be at (CIDRs, addresses with a port, "1" for all).
    """

    data_dir: Path | None = None
    git_version: str = DEFAULT_VERSION
    tokens: dict[str, Identity] = {}
    tls: bool = True
    tls_names: tuple[str, ...] = ()
    controllers: bool = True
    finished_jobs: bool = True
    authorization: str = "AlwaysAllow"
    """AlwaysAllow, MastersOnly, RBAC, or Node,RBAC."""
    openid: OpenIdSettings | None = None
    """The OpenID Connect provider whose users are let in."""
    service_roles: bool = False
    """Whether the roles of Fleetlog's services are written at the start, where roles decide."""
    audit_log: Path | None = None
    aggregate: dict[str, str] = {}
    service_cidr: str = "10.96.0.0/16"
    kubeconfig: Path | None = None
    public_url: str = ""
    bootstrap_tokens: bool = False
    max_body: int = 3 * 1024 * 1024
    track_fields: bool = True
    admission: bool = True
    guard_seconds: int = 10
    feature_gates: tuple[str, ...] = ()
    no_execute_policies: bool = False
    quotas: bool = True
    namespace_objects: bool = True
    protect_volumes: bool = False
    service_accounts: bool = False
    allow_local_extensions: tuple[str, ...] = ()
    event_ttl: float = 3600.0
    """Seconds for which Events stay after they were written last."""
    limits: Limits = Limits()


def flag(environ: Mapping[str, str], name: str, *, default: bool) -> bool:
    """A variable FLEETLOG_APISERVER_<name> that is on or off; raises ValueError for anything else."""
    return _truth(environ, f"FLEETLOG_APISERVER_{name}", default=default)


def _truth(environ: Mapping[str, str], name: str, *, default: bool) -> bool:
    value = environ.get(name, "1" if default else "0").lower()
    if value in ("1", "true", "yes", "on"):
        return True
    if value in ("0", "false", "no", "off"):
        return False
    raise ValueError(f"{name}: use 1 or 0, not {value!r}")


def whole_number(environ: Mapping[str, str], name: str, default: int) -> int:
    """A variable FLEETLOG_APISERVER_<name> that is a whole number; raises ValueError for anything else."""
    value = environ.get(f"FLEETLOG_APISERVER_{name}", "")
    try:
        return int(value) if value else default
    except ValueError:
        raise ValueError(f"FLEETLOG_APISERVER_{name}: give a whole number, not {value!r}") from None


def _positive(environ: Mapping[str, str], name: str, default: int) -> int:
    found = whole_number(environ, name, default)
    if found < 1:
        raise ValueError(f"FLEETLOG_APISERVER_{name}: give a number from 1 on, not {found}")
    return found


def _limits(environ: Mapping[str, str]) -> Limits:
    return Limits(
        request_seconds=_positive(environ, "REQUEST_SECONDS", 34),
        seats=_positive(environ, "SEATS", 600),
        queue=_positive(environ, "QUEUE", 100),
        queue_seconds=_positive(environ, "QUEUE_SECONDS", 15),
        watches=_positive(environ, "WATCHES", 10_000),
    )


def from_environment(environ: Mapping[str, str] = os.environ) -> Settings:
    """Read FLEETLOG_APISERVER_* variables; raises ValueError naming the variable that cannot be read."""

    def text(name: str, default: str = "") -> str:
        return environ.get(f"FLEETLOG_APISERVER_{name}", default)

    tokens: dict[str, Identity] = {}
    if text("TOKEN_FILE"):
        tokens.update(parse_tokens(Path(text("TOKEN_FILE")).read_text(encoding="utf-8")))
    if text("ADMIN_TOKEN"):
        tokens[text("ADMIN_TOKEN")] = Identity("admin", "admin", (MASTERS,))
    aggregate = {}
    for item in text("AGGREGATE").split(","):
        if item.strip():
            name, found, url = item.strip().partition("=")
            if not found or "/" not in name:
                raise ValueError(f"FLEETLOG_APISERVER_AGGREGATE: use group/version=https://host:port, not {item!r}")
            aggregate[name] = url
    gates = tuple(item for item in environ.get(GATES, "").split(",") if item.strip())
    gates_of(gates)
    allowed = tuple(text("ALLOW_LOCAL_EXTENSIONS", "0").split(","))
    Outbound(allowed)
    modes_of(text("AUTHORIZATION", "AlwaysAllow"))
    controllers, admission = flag(environ, "CONTROLLERS", default=True), flag(environ, "ADMISSION", default=True)
    return Settings(
        data_dir=Path(text("DATA_DIR", ".fleetlog/apiserver")),
        git_version=text("VERSION", DEFAULT_VERSION),
        tokens=tokens,
        tls=flag(environ, "TLS", default=True),
        tls_names=tuple(n for n in text("TLS_NAMES").split(",") if n),
        controllers=controllers,
        authorization=text("AUTHORIZATION", "AlwaysAllow"),
        openid=_openid(text),
        service_roles=flag(environ, "SERVICE_ROLES", default=False),
        audit_log=Path(text("AUDIT_LOG")) if text("AUDIT_LOG") else None,
        aggregate=aggregate,
        service_cidr=text("SERVICE_CIDR", "10.96.0.0/16"),
        kubeconfig=Path(text("KUBECONFIG")) if text("KUBECONFIG") else None,
        public_url=text("PUBLIC_URL"),
        bootstrap_tokens=flag(environ, "BOOTSTRAP_TOKENS", default=True),
        allow_local_extensions=allowed,
        track_fields=flag(environ, "TRACK_FIELDS", default=True),
        admission=admission,
        # A control plane of templates has no pods that use them; one without controllers leaves that to others.
        protect_volumes=not (controllers and admission),
        guard_seconds=whole_number(environ, "GUARD_SECONDS", 10),
        feature_gates=gates,
        no_execute_policies=_truth(environ, NO_EXECUTE, default=False),
        event_ttl=whole_number(environ, "EVENT_TTL", 3600),
        limits=_limits(environ),
    )


def _openid(text: Callable[[str], str]) -> OpenIdSettings | None:
    """The provider that variables name, if any; raises ValueError for what cannot work."""
    if not text("OIDC_ISSUER_URL"):
        return None
    required = (item.partition("=") for item in _parts(text("OIDC_REQUIRED_CLAIM")))
    found = OpenIdSettings(
        issuer=text("OIDC_ISSUER_URL"),
        client=text("OIDC_CLIENT_ID"),
        username_claim=text("OIDC_USERNAME_CLAIM") or "sub",
        username_prefix=text("OIDC_USERNAME_PREFIX"),
        groups_claim=text("OIDC_GROUPS_CLAIM"),
        groups_prefix=text("OIDC_GROUPS_PREFIX"),
        required={claim: value for claim, _, value in required},
        algorithms=_parts(text("OIDC_SIGNING_ALGS")) or ("RS256",),
        ca_file=Path(text("OIDC_CA_FILE")) if text("OIDC_CA_FILE") else None,
    )
    try:
        found.check()
    except ValueError as error:
        raise ValueError(f"OpenID Connect: {error}") from None
    return found


def _parts(text: str) -> tuple[str, ...]:
    """The items of a text with commas."""
    return tuple(item.strip() for item in text.split(",") if item.strip())
