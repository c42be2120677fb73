"""compose.yaml and compose.ha.yaml: every service in a container of its own, on one machine with a container engine."""

from __future__ import annotations

from typing import Final

from k8s.neighbours import log_server, monitoring, opensearch, stock
from k8s.shapes import DONE, LISTENS, LOCAL, READY, STARTED, Shape, confined, published
from k8s.shared import (
    FRONTS,
    HTTP,
    IMAGE,
    RUN,
    SECRETS_KEYS,
    WITH_API,
    Manifest,
    environment,
    log_files,
)
from schemas.topology import OPTIONAL, SERVICES, WITHOUT_LOG
from services._rules.identity.accounts import HUB_USER
from services._rules.kubernetes.rbac.service_roles import dns
from services.cli.installation.certificate_files import AGENTS, AUTHORIZATION, SEED, WITH_CONTROL
from services.cli.secrets.secret_keys import READERS

PUSH: Final = ("member1", "member2")
PULL: Final = "member3"
MEMBERS: Final = (*PUSH, PULL)
"""Simulated members; the last has an agent."""
_ACCESS: Final = {"log/ca.crt": "ca.crt", "log/hub.password": "hub.password"}
_KEYS: Final = {"secrets/secrets-keys.json": "secrets-keys.json"}


def compose(shape: Shape) -> Manifest:
    """One composition."""
    services: dict[str, Manifest] = {}
    if shape.shared:
        services["setup"] = _setup(shape)
    services |= {name: log_server(shape, name) for name in shape.nats}
    if not shape.shared:
        services |= stock(shape)
    services["embedded"] = _embedded(shape)
    services |= {name: _member(shape, name) for name in MEMBERS}
    services["join"] = _join(shape)
    services |= {dns(service): _service(shape, service) for service in SERVICES if _runs(shape, service)}
    services["agent"] = _agent(shape)
    services["fleetlog"] = _commands(shape)
    services |= monitoring(shape)
    services["opensearch"] = opensearch()
    found: Manifest = {"name": "fleetlog" if shape.shared else "fleetlog-ha", "services": services}
    if shape.volumes:
        found["volumes"] = {name: {} for name in sorted(shape.volumes)}
    return found


def _runs(shape: Shape, service: str) -> bool:
    """Whether a composition has a service: the embedded API server needs no other to admit."""
    return not shape.shared or service not in WITHOUT_LOG


def _ours(shape: Shape, module: str) -> Manifest:
    return {
        "image": IMAGE,
        "command": [module],
        **confined(shape),
        "stop_grace_period": "20s",
        "restart": "unless-stopped",
    }


def _after(shape: Shape, *, joined: bool = False) -> Manifest:
    """What has to be there before: the log's servers, and what `join` makes where the composition has it."""
    join = {"join": DONE if shape.shared else {**DONE, "required": False}} if joined else {}
    return {"depends_on": {**dict.fromkeys(shape.nats, STARTED), **join}}


def _setup(shape: Shape) -> Manifest:
    """Makes certificates, identities and keys at the first start; builds the image of all others."""
    return {
        "image": IMAGE,
        "build": ".",
        "entrypoint": ["fleetlog"],
        "command": [
            *("containers", "prepare", "--dir", RUN, "--agent", PULL),
            *("--port", "${FLEETLOG_CONTROL_PORT:-6443}"),
        ],
        **confined(shape),
        # The image of the log's server has no directory for data: mounted here, it gets the owner of ours.
        "volumes": [*shape.files({}, writes=True), *(shape.data(name) for name in shape.nats)],
    }


def _log_settings(shape: Shape) -> dict[str, str]:
    return {
        "FLEETLOG_NATS_URL": shape.log,
        "FLEETLOG_NATS_USER": HUB_USER,
        "FLEETLOG_NATS_PASSWORD_FILE": shape.place(_ACCESS, f"{RUN}/log/hub.password"),
        "FLEETLOG_TLS_CA": shape.place(_ACCESS, f"{RUN}/log/ca.crt"),
    }


def _embedded(shape: Shape) -> Manifest:
    """The control plane's API server, under the name that kubeconfigs of the services know."""
    keys = shape.place(_KEYS, SECRETS_KEYS)
    mounts = shape.files(_ACCESS | _KEYS, writes=shape.shared)
    if not shape.shared:
        mounts += shape.files({"authority": "authority"}, writes=True)
    return {
        **_ours(shape, "services.apiserver"),
        **({} if shape.shared else {"profiles": ["embedded"]}),
        "environment": {
            **_log_settings(shape),
            "FLEETLOG_APISERVER_HOST": "0.0.0.0",
            "FLEETLOG_APISERVER_DATA_DIR": f"{RUN}/authority",
            "FLEETLOG_APISERVER_TLS_NAMES": "kube-apiserver",
            "FLEETLOG_APISERVER_AUTHORIZATION": AUTHORIZATION,
            "FLEETLOG_APISERVER_SERVICE_ROLES": "1",
            "FLEETLOG_APISERVER_REPLICAS": str(len(shape.nats)),
            "FLEETLOG_SECRETS_KEY_FILE": keys,
        },
        "volumes": mounts,
        "networks": {"default": {"aliases": ["kube-apiserver"]}},
        "ports": published("FLEETLOG_CONTROL_PORT", 6443),
        "healthcheck": LISTENS,
        **_after(shape),
    }


def _member(shape: Shape, name: str) -> Manifest:
    """One simulated cluster, which leaves its kubeconfig for `join`."""
    log = {f"FLEETLOG_MEMBER_{key.removeprefix('FLEETLOG_')}": value for key, value in _log_settings(shape).items()}
    mounts = shape.files(_ACCESS, writes=shape.shared)
    if not shape.shared:
        mounts += shape.files({"members": "members"}, writes=True)
    return {
        **_ours(shape, "services.member_sim"),
        **({} if shape.shared else {"profiles": ["members"]}),
        "environment": {
            **log,
            "FLEETLOG_MEMBER_NAME": name,
            "FLEETLOG_MEMBER_HOST": "0.0.0.0",
            "FLEETLOG_MEMBER_PORT": "6443",
            "FLEETLOG_MEMBER_PUBLIC_URL": f"https://{name}:6443",
            "FLEETLOG_MEMBER_REPLICAS": str(len(shape.nats)),
            "FLEETLOG_MEMBER_DATA_DIR": "/data",
            "FLEETLOG_MEMBER_KUBECONFIG": f"{RUN}/members/{name}.kubeconfig",
        },
        "volumes": [*mounts, shape.data(name)],
        "healthcheck": LISTENS,
        **_after(shape),
    }


def _join(shape: Shape) -> Manifest:
    """Definitions, aggregated kinds and members, once at each start."""
    push = (part for name in PUSH for part in ("--push", name))
    places = {f"{RUN}/{target}": f"{RUN}/{source}" for target, source in _ACCESS.items()}
    settings = {name: places.get(value, value) for name, value in _log_settings(shape).items()}
    return {
        "image": IMAGE,
        **({} if shape.shared else {"profiles": ["members"]}),
        "entrypoint": ["fleetlog"],
        "command": ["containers", "join", "--dir", RUN, *push, "--agent", PULL, "--replicas", str(len(shape.nats))],
        **confined(shape),
        "environment": settings,
        "volumes": shape.files({}, writes=True) if shape.shared else [f"./deploy:{RUN}"],
        "depends_on": {
            # With a stock control plane it waits for that one.
            "embedded": STARTED if shape.shared else {**STARTED, "required": False},
            **dict.fromkeys(MEMBERS, STARTED),
        },
    }


def _shares_identity(shape: Shape, service: str) -> bool:
    """Whether a service is the hub at the log: users of their own part nothing that can read the others' passwords."""
    return shape.shared and service not in WITHOUT_LOG


def _service(shape: Shape, service: str) -> Manifest:
    files = _files(shape, service)
    settings = {name: shape.place(files, value) for name, value in environment(service, shape.log).items()}
    if _shares_identity(shape, service):
        del settings["FLEETLOG_NATS_INBOX_PREFIX"]
        settings |= _log_settings(shape)
    if "FLEETLOG_TOPOLOGY_REPLICAS" in settings:
        settings["FLEETLOG_TOPOLOGY_REPLICAS"] = str(len(shape.nats))
    entry: Manifest = {
        **_ours(shape, f"services.{service}"),
        "environment": settings,
        "volumes": shape.files(files),
        "healthcheck": READY,
        **_after(shape, joined=True),
    }
    if shape.instances > 1:
        entry["scale"] = shape.instances
    if service in WITHOUT_LOG:
        entry["profiles"] = ["stock"]
        del entry["depends_on"]
    if service in OPTIONAL:
        entry["profiles"] = [dns(service)]
    return entry


def _agent(shape: Shape) -> Manifest:
    """The agent of one pull member; where files lie in ./deploy, of the one whose name is in FLEETLOG_AGENT."""
    cluster = PULL if shape.shared else f"${{FLEETLOG_AGENT:-{PULL}}}"
    own = f"{RUN}/{AGENTS}/{cluster}" if shape.shared else f"{RUN}/agent"
    return {
        **_ours(shape, "services.agent"),
        **({} if shape.shared else {"profiles": ["pull", "members"]}),
        "environment": {
            "FLEETLOG_NATS_URL": shape.log,
            "FLEETLOG_NATS_NKEY_FILE": f"{own}/{SEED}",
            "FLEETLOG_TLS_CA": shape.place(_ACCESS, f"{RUN}/log/ca.crt"),
            "FLEETLOG_HTTP_HOST": "0.0.0.0",
            "FLEETLOG_HTTP_PORT": str(HTTP),
            "FLEETLOG_AGENT_CLUSTER": cluster,
            "FLEETLOG_AGENT_KUBECONFIG": f"{own}/kubeconfig",
            "FLEETLOG_AGENT_DATA_DIR": "/data",
            # This member is there to try things out with.
            "FLEETLOG_AGENT_REQUESTS": "all" if shape.shared else "${FLEETLOG_AGENT_REQUESTS:-}",
        },
        "volumes": [
            *shape.files({"log/ca.crt": "ca.crt", "agent": f"{AGENTS}/{cluster}"}),
            shape.data(f"agent-{cluster}"),
        ],
        "healthcheck": READY,
        **_after(shape, joined=True),
    }


def _commands(shape: Shape) -> Manifest:
    """The commands, with the services' identity at the log and the administrator's at the control plane."""
    files = {**_ACCESS, **_KEYS, "control/kubeconfig": "kubeconfigs/admin"}
    return {
        "image": IMAGE,
        "profiles": ["tools"],
        "entrypoint": ["fleetlog"],
        "command": ["status"],
        **confined(shape),
        "environment": {
            **_log_settings(shape),
            "KUBECONFIG": shape.place(files, f"{RUN}/control/kubeconfig"),
        },
        "volumes": shape.files(files),
    }


def _files(shape: Shape, service: str) -> dict[str, str]:
    """Files of a service: where it finds them below RUN, and where `prepare` and `fleetlog certs` write them."""
    files = dict(_ACCESS) if _shares_identity(shape, service) else log_files(service)
    if service in WITH_CONTROL:
        files["control/kubeconfig"] = f"kubeconfigs/{service}"
    if service in READERS:
        files |= _KEYS
    if service in WITH_API:
        files |= {f"{service}/tls.{part}": f"tls/{service}.{part}" for part in ("crt", "key")}
    if service in FRONTS:
        files |= {
            f"{service}/tokens": "gateway.tokens",
            f"{service}/front-proxy-ca.crt": "front-proxy-ca.crt",
        }
    return files


def development() -> Manifest:
    """What is laid over compose.yaml to run the code of a working copy: a restarted service runs what is there."""
    ours = ("embedded", *MEMBERS, *(dns(service) for service in SERVICES if _runs(LOCAL, service)), "agent", "fleetlog")
    entry: Manifest = {
        "environment": {"PYTHONPATH": "/app/source"},
        "volumes": [f"./{name}:/app/source/{name}:ro" for name in ("schemas", "services")],
    }
    return {"services": dict.fromkeys(("setup", "join", *ours), entry)}
