"""An installation whose log three servers keep together, each stream on all of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.faults.ground import Ground, Unavailable
from tests.natscluster import Cluster
from tests.natsserver import find_binary


class ThreeNodes(Ground):
    """Three push members; the accounts of a log that is not ours give no agent an identity."""

    def __init__(self, directory: Path) -> None:
        if find_binary() is None:
            raise Unavailable("no nats-server found")
        self.cluster = Cluster(directory / "log")
        super().__init__(directory)

    def arguments(self) -> Sequence[str]:
        """Arguments of `fleetlog up`."""
        return ("--nats", self.cluster.urls)

    def start(self) -> None:
        """Start the log's servers, then everything else."""
        self.cluster.start()
        super().start()

    def heal(self) -> None:
        """Take every fault back; nodes that were killed run again."""
        self.cluster.heal()
        super().heal()

    def stop(self) -> None:
        """Stop everything, the log's servers last."""
        super().stop()
        self.cluster.stop()
