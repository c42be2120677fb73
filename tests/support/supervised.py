"""Installations that nothing runs of, and supervisors of their processes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from services.cli.common.layout import Layout, new_installation
from services.cli.installation.processes import Supervisor
from services.cli.supervision.liveness import Limits


def empty_installation(directory: Path) -> Layout:
    """An installation without members, not started."""
    made = Layout(directory)
    made.save(new_installation([]))
    return made


@contextmanager
def supervised(layout: Layout, limits: Limits | None = None) -> Iterator[Supervisor]:
    """A supervisor in this process; what it started is stopped in the end."""
    supervisor = Supervisor(layout, limits) if limits is not None else Supervisor(layout)
    try:
        yield supervisor
    finally:
        supervisor.stop()
