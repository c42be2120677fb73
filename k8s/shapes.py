"""What tells the compositions apart, and what all their containers have."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from k8s.shared import HTTP, NATS_NODES, RUN, Manifest
from services.cli.registration.confined_pods import USER

STARTED: Final = {"condition": "service_started"}
DONE: Final = {"condition": "service_completed_successfully"}


@dataclass(frozen=True)
class Shape:
    """What tells one composition from the other; `nats` are the names of the log's servers.

    `shared`: all containers share one volume with every key, which the composition makes itself. Otherwise each gets
    the files that it needs from ./deploy, and containers run as the user who made these.
    """

    nats: tuple[str, ...]
    instances: int
    shared: bool
    volumes: set[str] = field(default_factory=set)

    @property
    def log(self) -> str:
        """URLs of the log's servers."""
        return ",".join(f"tls://{name}:4222" for name in self.nats)

    @property
    def user(self) -> str:
        """As whom every container runs."""
        return f"{USER}:{USER}" if self.shared else "${FLEETLOG_USER:-1000:1000}"

    def data(self, name: str, target: str = "/data") -> str:
        """The mount of what one container keeps."""
        if not self.shared:
            return f"./deploy/data/{name}:{target}"
        self.volumes.add(name)
        return f"{name}:{target}"

    def files(self, wanted: dict[str, str], *, writes: bool = False) -> list[str]:
        """Mounts of files that `prepare` made: their places below RUN in the container, by those they have there."""
        if self.shared:
            self.volumes.add("installation")
            return [f"installation:{RUN}" + ("" if writes else ":ro")]
        ending = "" if writes else ":ro"
        return [f"./deploy/{source}:{RUN}/{target}{ending}" for target, source in wanted.items()]

    def place(self, wanted: dict[str, str], path: str) -> str:
        """Where a file is that is mounted at `path` where containers get single files."""
        inside = path.removeprefix(f"{RUN}/")
        return f"{RUN}/{wanted[inside]}" if self.shared and inside in wanted else path


LOCAL: Final = Shape(nats=("nats",), instances=1, shared=True)
HIGHLY_AVAILABLE: Final = Shape(
    nats=tuple(f"nats-{number}" for number in range(1, NATS_NODES + 1)), instances=2, shared=False
)


def confined(shape: Shape) -> Manifest:
    """What every container of ours has: no rights, nothing to write to but its volumes and /tmp."""
    return {
        "user": shape.user,
        "read_only": True,
        "tmpfs": ["/tmp:mode=1777"],
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges:true"],
    }


def _health(request: str, port: int) -> Manifest:
    """A probe that starts no interpreter: two dozen containers are asked all the time."""
    # Compose reads a single dollar as a variable of its own.
    asks = f"printf '{request}' >&3 && IFS= read -r line <&3 && [[ $$line == *' 200 '* ]]"
    script = f"exec 3<>/dev/tcp/127.0.0.1/{port}" + (f" && {asks}" if request else "")
    return {"test": ["CMD", "bash", "-c", script], "interval": "10s", "timeout": "5s", "retries": 30}


READY: Final = _health(r"GET /readyz HTTP/1.0\r\n\r\n", HTTP)
LISTENS: Final = _health("", 6443)


def published(variable: str, port: int) -> list[str]:
    return [f"127.0.0.1:${{{variable}:-{port}}}:{port}"]
