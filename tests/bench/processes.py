"""What the processes of an installation cost: CPU seconds and proportional memory, read from /proc."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from services.cli.common.layout import CONTROL, Layout, Member
from services.cli.installation.process_groups import GROUPS

_TICK: Final = os.sysconf("SC_CLK_TCK")
_LOG: Final = "nats"


def running(layout: Layout) -> dict[str, int]:
    """Process ids by name, each process once: one that runs several services has a name of its own."""
    names: dict[int, str] = {}
    for path in sorted((layout.directory / "run").glob("*.pid")):
        pid = int(path.read_text() or 0)
        if pid and Path(f"/proc/{pid}").exists() and names.get(pid) not in GROUPS:
            names[pid] = path.stem
    return {name: pid for pid, name in sorted(names.items(), key=lambda item: item[1])}


def cpu_seconds(pid: int) -> float:
    """User and system time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICK


def pss_mib(pid: int) -> float:
    """Proportional set size: shared pages are split between those who share them."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1024
    return 0.0


class Meter:
    """CPU used since it was made, by process and by part of the installation."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._members = {member.name for member in _members(layout)}
        self._began = self._now()

    def _now(self) -> dict[str, float]:
        return {name: cpu_seconds(pid) for name, pid in running(self._layout).items()}

    def used(self) -> dict[str, float]:
        """Seconds of CPU by process."""
        return {name: seconds - self._began.get(name, 0.0) for name, seconds in self._now().items()}

    def parts(self, used: Mapping[str, float]) -> dict[str, float]:
        """Seconds of CPU by part: our services, the control plane's API server, all members, the log.

        What is not run by the installation is left out.
        """
        parts: defaultdict[str, float] = defaultdict(float)
        for name, seconds in used.items():
            if name == CONTROL:
                parts["apiserver"] += seconds
            elif name == _LOG:
                parts["log"] += seconds
            elif name in self._members:
                parts["members"] += seconds
            else:
                parts["own"] += seconds
        return dict(parts)


def _members(layout: Layout) -> list[Member]:
    installation = layout.load()
    return list(installation.members) if installation is not None else []
