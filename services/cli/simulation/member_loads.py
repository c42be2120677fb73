"""Sets and shows the loads of simulated members."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from services.cli.common.running import Failed
from services.cli.simulation.fault_ports import KINDS, Rows, put, show

_PATH: Final = "/load"
_ROWS: Final = Rows(
    ("namespace", "kind", "name", "cpu", "memory"),
    lambda load: (load["namespace"], load["kind"], load["name"], load.get("cpu"), load.get("memory")),
    "No loads are set: pods use a share of what they request.\n",
)


class Wanted(Struct, frozen=True, kw_only=True):
    """What was asked for on the command line."""

    target: str
    namespace: str
    cpu: str
    memory: str
    reset: bool

    def body(self) -> dict[str, str]:
        """The request to a member; raises Failed."""
        kind, slash, name = self.target.partition("/")
        known = next((full for full, names in KINDS.items() if kind.lower() in names), "")
        if not slash or not name or not known:
            shown = ", ".join(names[0] for names in KINDS.values())
            raise Failed(f"{self.target!r} names no workload: use KIND/NAME with one of {shown}, such as deploy/web")
        if self.reset == bool(self.cpu or self.memory):
            raise Failed("say what it uses with --cpu or --memory, or take the load back with --reset")
        body = {"kind": known, "namespace": self.namespace, "name": name}
        if self.reset:
            return {**body, "cpu": "", "memory": ""}
        return body | ({"cpu": self.cpu} if self.cpu else {}) | ({"memory": self.memory} if self.memory else {})


async def show_loads(directory: Path, clusters: Sequence[str], output: str, *, asked: bool) -> int:
    """Print the loads of some members, or of all; raises Failed."""
    if asked:
        raise Failed("name what is to use that much, such as deploy/web")
    return await show(directory, clusters, output, _PATH, _ROWS)


async def set_loads(directory: Path, clusters: Sequence[str], output: str, wanted: Wanted) -> int:
    """Set a load in the members that have its target; raises Failed where none has it, or one cannot be asked."""
    return await put(directory, clusters, output, _PATH, wanted.body(), _ROWS)
