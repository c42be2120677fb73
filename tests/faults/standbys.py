"""Second instances of the services that lead, beside those of a running installation."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from services.cli.installation import environment as surroundings
from services.cli.installation.up import SERVICES
from tests.e2e.fleet import Fleet
from tests.support.ending import ends_with_us
from tests.support.ports import Reserved

LEADING = tuple(name for name in SERVICES if name != "gateway")
"""The gateway's instances all serve; none leads."""
_PATIENCE = 60.0


class Standbys:
    """Processes `<service>-<number>`; the supervisor of the installation does not know of them."""

    def __init__(
        self, fleet: Fleet, takeover_after: float, variables: Mapping[str, str] = MappingProxyType({}), number: int = 1
    ) -> None:
        self._fleet = fleet
        self._variables = variables
        self._number = number
        self._takeover_after = takeover_after
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._reserved: dict[str, Reserved] = {}

    def start(self, services: Iterable[str] = LEADING) -> None:
        """Start those that do not run."""
        installation, layout = self._fleet.installation, self._fleet.layout
        for name in services:
            process = self._running.get(name)
            if process is not None and process.poll() is None:
                continue
            instance = f"{name}-{self._number}"
            self._reserved[name] = Reserved()
            known = surroundings.known_to(name, {"FLEETLOG_CONTROL_KUBECONFIG": str(layout.identity(name))})
            environment = {
                **{variable: text for variable, text in os.environ.items() if not variable.startswith("FLEETLOG_")},
                **known,
                "FLEETLOG_NATS_URL": installation.log_access,
                "FLEETLOG_INSTANCE": instance,
                "FLEETLOG_HTTP_PORT": str(self._reserved[name].number),
                "FLEETLOG_TAKEOVER_AFTER": str(self._takeover_after),
                **self._variables,
            }
            with (layout.directory / "logs" / f"{instance}.log").open("ab") as out:
                self._running[name] = ends_with_us(
                    subprocess.Popen(
                        [sys.executable, "-m", f"services.{name}"], env=environment, stdout=out, stderr=out
                    )
                )

    def signal(self, service: str, number: signal.Signals) -> None:
        """Send a signal to one; one that was killed is forgotten."""
        process = self._running[service]
        process.send_signal(number)
        if number == signal.SIGKILL:
            process.wait(_PATIENCE)
            del self._running[service]
            del self._reserved[service]

    @property
    def ports(self) -> dict[str, int]:
        """Where each answers questions about itself, by service."""
        return {name: each.number for name, each in self._reserved.items()}

    @property
    def pids(self) -> list[int]:
        """Process ids."""
        return [process.pid for process in self._running.values()]

    @property
    def present(self) -> bool:
        """Whether any of them runs."""
        return bool(self._running)

    def thaw(self) -> None:
        """Let those run on that were frozen."""
        for process in self._running.values():
            process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        """End all, in good order."""
        for process in self._running.values():
            process.send_signal(signal.SIGCONT)
            process.terminate()
        for process in self._running.values():
            try:
                process.wait(_PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(_PATIENCE)
        self._running.clear()
        self._reserved.clear()
