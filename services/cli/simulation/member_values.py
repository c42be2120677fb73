"""Sets and shows the values of custom and external metrics of simulated members."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from services.cli.common.running import Failed
from services.cli.simulation.fault_ports import KINDS, Rows, put, show

_PATH: Final = "/metric"


def _row(item: dict[str, Any]) -> tuple[Any, ...]:
    of = item.get("kind") or item.get("resource") or ""
    labels = ",".join(f"{key}={value}" for key, value in sorted(item.get("labels", {}).items()))
    return item["metric"], item.get("namespace", ""), f"{of}/{item['name']}" if of else "", labels, item.get("value")


_ROWS: Final = Rows(("metric", "namespace", "of", "labels", "value"), _row, "No values of metrics are set.\n")


class WantedValue(Struct, frozen=True, kw_only=True):
    """What was asked for on the command line."""

    metric: str
    of: str
    value: str
    labels: tuple[str, ...]
    window: int
    age: int
    reset: bool
    namespace: str

    def body(self) -> dict[str, object]:
        """The request to a member; raises Failed."""
        if self.reset == bool(self.value):
            raise Failed("say the value with --value, or take it back with --reset")
        measured = {"metric": self.metric, "window": self.window, "age": self.age, "labels": self._labels()}
        return {**measured, "value": self.value, "namespace": self.namespace, **self._of()}

    def _of(self) -> dict[str, str]:
        if not self.of:
            return {}
        kind, slash, name = self.of.partition("/")
        if not slash or not kind or not name:
            raise Failed(f"--of {self.of!r}: use KIND/NAME such as deploy/web, or PLURAL.GROUP/NAME of an object")
        known = next((full for full, names in KINDS.items() if kind.lower() in names), "")
        return {"kind": known, "name": name} if known else {"resource": kind, "name": name}

    def _labels(self) -> dict[str, str]:
        found = {}
        for text in self.labels:
            key, equals, value = text.partition("=")
            if not equals or not key:
                raise Failed(f"--label {text!r}: use KEY=VALUE")
            found[key] = value
        return found


async def show_values(directory: Path, clusters: Sequence[str], output: str, *, asked: bool) -> int:
    """Print the values of some members, or of all; raises Failed."""
    if asked:
        raise Failed("name the metric first, such as http_requests")
    return await show(directory, clusters, output, _PATH, _ROWS)


async def set_values(directory: Path, clusters: Sequence[str], output: str, wanted: WantedValue) -> int:
    """Set a value in the members that have its target; raises Failed where none has it, or one cannot be asked."""
    return await put(directory, clusters, output, _PATH, wanted.body(), _ROWS)
