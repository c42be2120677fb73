"""A ground whose agent reaches the hub through a proxy only, so that its network can be taken away."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

from services.cli.common.layout import agent_process
from tests.e2e.fleet import Fleet
from tests.faults.ground import Ground
from tests.faults.proxy import Proxy

HEARTBEAT: Final = 1.0
GRACE: Final = 3.5
_HUB: Final = "FLEETLOG_TEST_AGENT_HUB"
_COMMAND: Final = "from tests.faults.ground_network import up; up()"
_PATIENCE: Final = 10.0


def up() -> None:
    """`fleetlog up` whose agents connect to another address than the services."""
    from tests.faults import launching

    hub = os.environ.pop(_HUB)
    agents = agent_process("")
    launching.up(lambda name: {"FLEETLOG_NATS_URL": hub} if name.startswith(agents) else {})


class Faraway(Ground):
    """The installation of three members; the hub hears its agent every second, and misses it after a few."""

    def __init__(self, directory: Path) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._thread.start()
        self.proxy = Proxy(self._log_port)
        asyncio.run_coroutine_threadsafe(self.proxy.__aenter__(), self._loop).result(_PATIENCE)
        super().__init__(directory)

    def _log_port(self) -> int:
        return self.fleet.installation.port("nats")

    def environment(self) -> dict[str, str]:
        """Settings of every service, and the address of the proxy."""
        return {
            **super().environment(),
            _HUB: self.proxy.url,
            "FLEETLOG_AGENT_HEARTBEAT": str(HEARTBEAT),
            "FLEETLOG_CLUSTER_MONITOR_GRACE_PERIOD": str(GRACE),
        }

    def make_fleet(self) -> Fleet:
        """The installation, not started."""
        return Fleet(self.directory / "installation", self.arguments(), self.environment(), _COMMAND)

    def away(self, cut: bool) -> None:
        """The agent's network is gone: its connections break, or nothing comes through them any more."""
        self._do(self._cut if cut else self.proxy.hold)

    def back(self) -> None:
        """The agent's network is there again."""
        self._do(self._mend)

    def _cut(self) -> None:
        self.proxy.accept = False
        self.proxy.cut()

    def _mend(self) -> None:
        self.proxy.accept = True
        self.proxy.release()

    def _do(self, work: Callable[[], None]) -> None:
        done = threading.Event()

        def call() -> None:
            work()
            done.set()

        self._loop.call_soon_threadsafe(call)
        if not done.wait(_PATIENCE):
            raise TimeoutError("the proxy does not answer")

    def heal(self) -> None:
        """Take every fault back."""
        self.back()
        super().heal()

    def stop(self) -> None:
        """Stop it."""
        try:
            super().stop()
        finally:
            asyncio.run_coroutine_threadsafe(self.proxy.__aexit__(None, None, None), self._loop).result(_PATIENCE)
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(_PATIENCE)
