"""Settings of the API server, from arguments or from FLEETLOG_* environment variables."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from services._kit.base.settings import gates_of
from services.apiserver.auth.authentication import parse_tokens
from services.apiserver.core.request_context import SYSTEM_MASTERS, Identity

DEFAULT_VERSION = "v1.30.0+fleetlog"
PREFIX: Final = "FLEETLOG_APISERVER_"
GATES: Final = "FLEETLOG_FEATURE_GATES"
NO_EXECUTE: Final = "FLEETLOG_ENABLE_NO_EXECUTE_TAINT_EVICTION"
SHARED: Final = (GATES, NO_EXECUTE)
"""Variables of services that are read here as well."""
VARIABLES: Final = frozenset(
    PREFIX + name
    for name in (
        *("ADMIN_TOKEN", "ADMISSION", "AGGREGATE", "AUDIT_LOG", "AUTHORIZATION", "BOOTSTRAP_TOKENS", "CONTROLLERS"),
        *("DATA_DIR", "DROP_UNREADABLE", "HOST", "KUBECONFIG", "PORT", "PREFIX", "PROFILE", "PUBLIC_URL", "REPLICAS"),
        *("SERVICE_CIDR", "STREAM", "TLS", "TLS_NAMES", "TOKEN_FILE", "TRACK_FIELDS", "VERSION"),
    )
)
"""Every variable that is read here and in `__main__`."""


class Settings(msgspec.Struct, kw_only=True):
    """How one API server runs.

    `data_dir` holds certificates, keys and the kubeconfig. `controllers` turns the built-in namespace lifecycle and the
    garbage collector on. `track_fields` off leaves managedFields out until an object is first applied. `aggregate` maps
    group/version to the URL of the server that answers for it. `public_url` is where members reach this server; empty:
    where it listens. `bootstrap_tokens` lets their bearers in and publishes cluster-info. `admission` applies the
    defaults and rules of Karmada's kinds, some of them by `feature_gates`, and protects objects from deletion: what a
    control plane does and a member does not. `no_execute_policies` lets a ClusterTaintPolicy evict.
    """

    data_dir: Path | None = None
    git_version: str = DEFAULT_VERSION
    tokens: dict[str, Identity] = {}
    tls: bool = True
    tls_names: tuple[str, ...] = ()
    controllers: bool = True
    authorization: str = "AlwaysAllow"
    audit_log: Path | None = None
    aggregate: dict[str, str] = {}
    service_cidr: str = "10.96.0.0/16"
    kubeconfig: Path | None = None
    public_url: str = ""
    bootstrap_tokens: bool = False
    max_body: int = 8 * 1024 * 1024
    profile: str = "current"
    track_fields: bool = True
    admission: bool = True
    feature_gates: tuple[str, ...] = ()
    no_execute_policies: bool = False


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


def from_environment(environ: Mapping[str, str] = os.environ) -> Settings:
    """Read FLEETLOG_APISERVER_* variables; raises ValueError naming the variable that cannot be read."""

    def text(name: str, default: str = "") -> str:
        return environ.get(f"FLEETLOG_APISERVER_{name}", default)

    tokens: dict[str, Identity] = {}
    if text("TOKEN_FILE"):
        tokens.update(parse_tokens(Path(text("TOKEN_FILE")).read_text(encoding="utf-8")))
    if text("ADMIN_TOKEN"):
        tokens[text("ADMIN_TOKEN")] = Identity("admin", "admin", (SYSTEM_MASTERS,))
    aggregate = {}
    for item in text("AGGREGATE").split(","):
        if item.strip():
            name, found, url = item.strip().partition("=")
            if not found or "/" not in name:
                raise ValueError(f"FLEETLOG_APISERVER_AGGREGATE: use group/version=https://host:port, not {item!r}")
            aggregate[name] = url
    gates = tuple(item for item in environ.get(GATES, "").split(",") if item.strip())
    gates_of(gates)
    return Settings(
        data_dir=Path(text("DATA_DIR", ".fleetlog/apiserver")),
        git_version=text("VERSION", DEFAULT_VERSION),
        tokens=tokens,
        tls=flag(environ, "TLS", default=True),
        tls_names=tuple(n for n in text("TLS_NAMES").split(",") if n),
        controllers=flag(environ, "CONTROLLERS", default=True),
        authorization=text("AUTHORIZATION", "AlwaysAllow"),
        audit_log=Path(text("AUDIT_LOG")) if text("AUDIT_LOG") else None,
        aggregate=aggregate,
        service_cidr=text("SERVICE_CIDR", "10.96.0.0/16"),
        kubeconfig=Path(text("KUBECONFIG")) if text("KUBECONFIG") else None,
        public_url=text("PUBLIC_URL"),
        bootstrap_tokens=flag(environ, "BOOTSTRAP_TOKENS", default=True),
        profile=text("PROFILE", "current"),
        track_fields=flag(environ, "TRACK_FIELDS", default=True),
        admission=flag(environ, "ADMISSION", default=True),
        feature_gates=gates,
        no_execute_policies=_truth(environ, NO_EXECUTE, default=False),
    )
