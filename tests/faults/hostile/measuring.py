"""The processes of an installation, and the memory that each has."""

from __future__ import annotations

from pathlib import Path


def processes(run: Path) -> dict[str, int]:
    """Process ids by name, from the directory with the pid files; services of one process are one."""
    found: dict[int, str] = {}
    for path in sorted(run.glob("*.pid")):
        try:
            pid = int(path.read_text())
            name = Path(f"/proc/{pid}/comm").read_text().strip().removeprefix("fl-")
        except (OSError, ValueError):
            continue
        # The process has the name of the group; its services have pid files as well.
        if pid not in found or path.stem == name:
            found[pid] = path.stem
    return {name: pid for pid, name in found.items()}


def resident(pid: int) -> float:
    """Resident memory in MiB, 0 when the process is gone."""
    try:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
    except OSError:
        return 0.0
    return 0.0
