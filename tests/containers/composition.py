"""A composition under test: started from the shipped files, looked at from outside, disturbed, and removed."""

from __future__ import annotations

import logging
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import docker
from docker.models.containers import Container
from testcontainers.compose import DockerCompose

from tests.e2e.fleet import Kubectl, until
from tests.support.ports import Reserved

log = logging.getLogger(__name__)

SECONDS: Final = 240.0
"""How long something may take while two dozen containers start on two cores."""
PUBLISHED: Final = ("CONTROL", "LOG", "PROMETHEUS", "GRAFANA")


class Composition:
    """Containers of one project, at ports of this machine that no composition of a user has."""

    def __init__(
        self,
        files: Sequence[str],
        context: Path,
        place: Path,
        *,
        project: str,
        profiles: Sequence[str] = (),
        variables: Mapping[str, str] | None = None,
    ) -> None:
        self.place = place
        self.project = project
        self._reserved = {name: Reserved() for name in PUBLISHED}
        self.ports = {name: each.number for name, each in self._reserved.items()}
        told = {f"FLEETLOG_{name}_PORT": str(port) for name, port in self.ports.items()}
        told |= {"COMPOSE_PROJECT_NAME": project, **(variables or {})}
        settings = place / "compose.env"
        settings.write_text("".join(f"{name}={value}\n" for name, value in told.items()))
        self.compose = DockerCompose(
            context, compose_file_name=list(files), env_file=str(settings), profiles=list(profiles)
        )
        self.engine = docker.from_env()

    def run(self, *words: str, check: bool = True, seconds: float = SECONDS, over: Sequence[Path] = ()) -> str:
        """Output of one `docker compose` command, with the files of `over` laid over ours; raises RuntimeError."""
        laid = (part for path in over for part in ("-f", str(path)))
        done = subprocess.run(
            [*self.compose.docker_compose_command(), *laid, *words],
            capture_output=True,
            text=True,
            cwd=self.compose.context,
            timeout=seconds,
            check=False,
        )
        if check and done.returncode:
            raise RuntimeError(f"docker compose {' '.join(words)}: {done.stderr}{done.stdout}")
        return done.stdout

    def command(self, program: str, *words: str) -> str:
        """Output of one of our commands, in a container of its own."""
        return self.run("run", "--rm", "-T", "--entrypoint", program, "fleetlog", *words)

    def container(self, service: str, number: int = 1) -> Container:
        """One container of a service."""
        return self.engine.containers.get(f"{self.project}-{service}-{number}")

    def containers(self) -> list[Container]:
        """All that run."""
        return self.engine.containers.list(filters={"label": f"com.docker.compose.project={self.project}"})

    def kubectl(self) -> Kubectl:
        """kubectl of this machine with the kubeconfig that the composition made for it."""
        kubeconfig = self.place / "control.kubeconfig"
        self.run("cp", "join:/run/fleetlog/control.kubeconfig", str(kubeconfig))
        return Kubectl(kubeconfig)

    def healthy(self, container: Container) -> bool:
        """Whether the engine calls a container healthy."""
        container.reload()
        return bool(container.attrs["State"].get("Health", {}).get("Status") == "healthy")

    def until_healthy(self, *containers: Container) -> None:
        """Wait until containers run and are healthy; those without a probe only run."""
        for container in containers:

            def well(one: Container = container) -> bool:
                one.reload()
                state = one.attrs["State"]
                return bool(state["Running"]) and state.get("Health", {}).get("Status", "healthy") == "healthy"

            until(f"{container.name} is well", well, SECONDS)

    def kill(self, container: Container) -> None:
        """End a process without a chance to write anything."""
        container.kill("SIGKILL")

    @contextmanager
    def cut_off(self, container: Container) -> Iterator[None]:
        """Without its network, and back in it under the names it had."""
        (name,) = container.attrs["NetworkSettings"]["Networks"]
        aliases = container.attrs["NetworkSettings"]["Networks"][name]["Aliases"]
        network = self.engine.networks.get(name)
        network.disconnect(container, force=True)
        try:
            yield
        finally:
            network.connect(container, aliases=aliases)

    @contextmanager
    def frozen(self, container: Container) -> Iterator[None]:
        """Paused as a whole."""
        container.pause()
        try:
            yield
        finally:
            container.unpause()

    def memory(self) -> dict[str, float]:
        """MiB that each service uses, without what the kernel may drop."""

        def used(one: Container) -> tuple[str, float]:
            memory = one.stats(stream=False, one_shot=True)["memory_stats"]
            held = memory["usage"] - memory.get("stats", {}).get("inactive_file", 0)
            return one.labels["com.docker.compose.service"], round(held / 2**20, 1)

        # The engine takes a second for each.
        with ThreadPoolExecutor() as pool:
            return dict(pool.map(used, self.containers()))

    def close(self) -> None:
        """Remove containers, networks and volumes.

        Of a container that was killed or cut off the engine may keep the endpoint in its network, though the container
        is gone. Only a restart of the engine ends that; such an empty network is left.
        """
        try:
            # All at once: `down` stops each before what it depends on, one after the other.
            self.run("--profile", "*", "kill", "--remove-orphans", check=False)
            self.run("--profile", "*", "down", "--volumes", "--remove-orphans", "--timeout", "5")
        except RuntimeError as error:
            if "has active endpoints" not in str(error) or self._left():
                raise
            log.warning("%s: the engine keeps an empty network: %s", self.project, error)
        finally:
            self.engine.close()

    def _left(self) -> bool:
        """Whether containers or volumes are there, or a network that somebody is in."""
        ours = {"label": f"com.docker.compose.project={self.project}"}
        networks = self.engine.networks.list(filters=ours, greedy=True)
        return bool(
            self.engine.containers.list(all=True, filters=ours)
            or self.engine.volumes.list(filters=ours)
            or any(network.containers for network in networks)
        )
