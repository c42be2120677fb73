"""Names of the files and ports of a laptop installation: what lies where below its directory."""

from __future__ import annotations

import os
import secrets
import socket
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct

from services._kit.base.private_files import private_json
from services._rules.identity.accounts import HUB_USER, Passwords

CONTROL = "control"
_PORTS: Final = range(20_000, 32_000)
_RESERVED_SECONDS: Final = 120.0
"""How long an installation has to bind a port that it chose."""
SERVICES_CREDS: Final = "services"
"""Directory beside the hub's credentials with those of each service."""
QUORUM_OF: Final = 3
"""Servers that keep a stream where there are that many: one of them may fail."""


def agent_process(cluster: str) -> str:
    """Name of the process that looks after a pull member."""
    return f"agent-{cluster}"


class Member(Struct, frozen=True, kw_only=True):
    """One member of the installation; `kubeconfig` is set for clusters that are not simulated here."""

    name: str
    kubeconfig: str = ""
    nodes: int = 3
    mode: Literal["Push", "Pull"] = "Push"
    """Who applies its works: the control plane, or an agent beside the member."""

    @property
    def simulated(self) -> bool:
        """Whether this installation plays the cluster itself."""
        return not self.kubeconfig


class Installation(Struct, kw_only=True):
    """What was chosen at the first start and stays: members, ports and secrets of this directory."""

    members: list[Member]
    ports: dict[str, int]
    token: str
    nats_url: str = ""
    nats_creds: str = ""
    """File with the identity of everything here, where that server asks for accounts that an operator signed."""
    control_kubeconfig: str = ""
    nats_token: str = ""
    """Password of the services' user of the log's server."""
    observer_token: str = ""
    """Password of observers, who read the log and write nothing; empty: there are none."""
    service_tokens: dict[str, str] = {}
    """Passwords by service: each writes its own subjects only."""
    system_token: str = ""
    """Password of who asks the log's server how it is."""
    agents: dict[str, str] = {}
    """Public key by cluster of the agents that may connect."""
    descheduler: bool = False
    """Whether the descheduler runs, too."""
    webhook: str = ""
    """Host under which a control plane that is not ours asks this machine about policies; empty: it does not ask."""
    replicas: int = 0
    """Servers that keep each stream; 0: as many as the number of URLs suggests."""

    @property
    def log_replicas(self) -> int:
        """Servers that keep each stream: the number that was chosen, else three of three servers and more."""
        return self.replicas or (QUORUM_OF if self.nats_url.count(",") >= QUORUM_OF - 1 else 1)

    @property
    def log_url(self) -> str:
        """URL of the log's server (several with commas), without a secret."""
        return self.nats_url or f"nats://127.0.0.1:{self.port('nats')}"

    @property
    def log_access(self) -> str:
        """URL of the log's server with the services' identity in it."""
        return self.nats_url or f"nats://{HUB_USER}:{self.nats_token}@127.0.0.1:{self.port('nats')}"

    @property
    def log_options(self) -> dict[str, Any]:
        """Options of a client that connects to `log_access`: the identity that no URL can hold."""
        return {"user_credentials": self.nats_creds} if self.nats_creds else {}

    @property
    def log_passwords(self) -> Passwords:
        """Who may talk to the log's server, with which password."""
        return Passwords(
            hub=self.nats_token, services=self.service_tokens, observer=self.observer_token, system=self.system_token
        )

    @property
    def pull_members(self) -> list[Member]:
        """Members with an agent that this installation runs."""
        return [member for member in self.members if member.mode == "Pull"]

    def port(self, name: str) -> int:
        """The loopback port of a process, chosen once."""
        if name not in self.ports:
            self.ports[name] = free_port(set(self.ports.values()))
        return self.ports[name]


class Layout:
    """Paths below the directory of an installation."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory.resolve()

    @property
    def state(self) -> Path:
        """File that holds the Installation."""
        return self.directory / "installation.json"

    def kubeconfig(self, name: str) -> Path:
        """Kubeconfig of the control plane (`control`) or of a member."""
        return self.directory / f"{name}.kubeconfig"

    def log(self, name: str) -> Path:
        """Log file of a process."""
        return self.directory / "logs" / f"{name}.log"

    def pid(self, name: str) -> Path:
        """File with the process id of a running process."""
        return self.directory / "run" / f"{name}.pid"

    @property
    def lock(self) -> Path:
        """File whose lock the supervisor holds."""
        return self.directory / "run" / "up.lock"

    @property
    def roll(self) -> Path:
        """File with the processes that the supervisor runs."""
        return self.directory / "run" / "processes.json"

    @property
    def troubles(self) -> Path:
        """File with the members that could not be used at the last start, and why."""
        return self.directory / "run" / "members.json"

    @property
    def control_access(self) -> Path:
        """Kubeconfig of a control plane that is not ours, for the services: a copy of the one that was given."""
        return self.data("control.kubeconfig")

    def identity(self, name: str) -> Path:
        """Kubeconfig of a service in an embedded control plane, where it has rights of its own."""
        return self.data("identities") / f"{name}.kubeconfig"

    def audit(self, name: str) -> Path:
        """Writes a simulated member saw, one JSON line each."""
        return self.directory / "audit" / f"{name}.jsonl"

    def data(self, name: str) -> Path:
        """Private data of a process: certificates, the store of nats-server."""
        return self.directory / "data" / name

    def agent(self, cluster: str) -> Path:
        """Private directory of a cluster's agent: its seed and what it keeps."""
        return self.data("agents") / cluster

    def agent_seed(self, cluster: str) -> Path:
        """Secret half of an agent's identity; there only while the identity is good."""
        return self.agent(cluster) / "nkey.seed"

    def agent_kubeconfig(self, cluster: str) -> Path:
        """How a cluster's agent reaches its member: by an identity of its own there."""
        return self.agent(cluster) / "member.kubeconfig"

    @property
    def observer_password(self) -> Path:
        """File with the password of observers, where there are any."""
        return self.data("observer.password")

    @property
    def system_password(self) -> Path:
        """File with the password of who asks the log's server how it is."""
        return self.data("system.password")

    def service_password(self, service: str) -> Path:
        """File with the password of a service's user."""
        return self.data("passwords") / service

    @property
    def hub_password(self) -> Path:
        """File with the password of the services' user."""
        return self.data("nats.password")

    def load(self) -> Installation | None:
        """The installation that was started here before, if any; raises ValueError when its file is damaged."""
        if not self.state.exists():
            return None
        try:
            return msgspec.json.decode(self.state.read_bytes(), type=Installation)
        except msgspec.MsgspecError as error:
            raise ValueError(f"{self.state} is damaged ({error}); move the directory away and start afresh") from error

    def save(self, installation: Installation) -> None:
        """Write the installation's file, readable by its owner only."""
        self.directory.mkdir(parents=True, exist_ok=True)
        for part in ("logs", "run", "audit", "data"):
            (self.directory / part).mkdir(exist_ok=True)
        private_json(self.state, installation)


def service_creds(hub_creds: str, service: str) -> Path | None:
    """The credentials of a service that lie beside those of the hub, if they do."""
    own = Path(hub_creds).parent / SERVICES_CREDS / f"{service}.creds"
    return own if hub_creds and own.is_file() else None


def new_installation(
    members: list[Member], *, nats_url: str = "", nats_creds: str = "", control_kubeconfig: str = ""
) -> Installation:
    """A fresh installation with its own secrets."""
    return Installation(
        members=members,
        ports={},
        token=secrets.token_urlsafe(24),
        nats_url=nats_url,
        nats_creds=nats_creds,
        control_kubeconfig=control_kubeconfig,
        nats_token=secrets.token_urlsafe(24),
    )


def free_port(taken: set[int]) -> int:
    """A port without a listener: the one after the last of the installation, the first at random.

    Below the ports that the kernel gives to connections and to servers without a wish: what is chosen here is bound
    later, and must still be free then. What another installation chose a moment ago is left to it.
    """
    ours = [port for port in taken if port in _PORTS]
    start = max(ours) + 1 if ours else secrets.choice(_PORTS)
    for step in range(len(_PORTS)):
        port = _PORTS[(start - _PORTS[0] + step) % len(_PORTS)]
        if port not in taken and _unbound(port) and _reserved(port):
            return port
    raise OSError(f"no port between {_PORTS[0]} and {_PORTS[-1]} is free on this machine")


def _unbound(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _reserved(port: int) -> bool:
    """Whether a port is ours until it is bound; not if another installation of this user chose it a moment ago."""
    mark = Path(tempfile.gettempdir()) / f"fleetlog-ports-{os.getuid()}" / str(port)
    with suppress(OSError):
        mark.parent.mkdir(mode=0o700)
    try:
        with suppress(FileNotFoundError):
            if time.time() - mark.stat().st_mtime < _RESERVED_SECONDS:
                return False
            mark.unlink()
        os.close(os.open(mark, os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        return False
    except OSError:
        # Without a place for marks only what is bound already is known.
        return True
    return True
