"""Processes that stand still."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from tests.e2e.fleet import until


def stand_still(pid: int) -> None:
    """Stop a process and return once it stands: a signal that comes before would still be acted on."""
    os.kill(pid, signal.SIGSTOP)

    def stands() -> bool:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"

    until(f"process {pid} stands still", stands)
