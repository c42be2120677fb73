"""What was found out about an installation, and what could not be: the input of every finding."""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field

from schemas.agent import Expiry
from schemas.instance import InstanceReport
from services._rules.log.stream_limits import Fill
from services.cli.overview.status_facts import Overview


class Store(Struct, frozen=True):
    """What the log's servers hold of what they may hold, in bytes; `most` -1 where nothing bounds it."""

    bytes: int
    most: int = -1


class Process(Struct, frozen=True):
    """One process of an installation on this machine, and whether it runs."""

    name: str
    running: bool
    pid: int = 0


class Answer(Struct, frozen=True):
    """What a process answered to /readyz on this machine; `error` says why there is no answer."""

    name: str
    ready: bool = False
    reasons: dict[str, str] = {}
    error: str = ""


class Disk(Struct, frozen=True):
    """Room on the disk of a directory, in bytes."""

    path: str
    free: int
    size: int


class ParkedRecord(Struct, frozen=True):
    """What stream PARKED says about one key of a service: the last record, and how many there are."""

    service: str
    key: str
    reason: str
    position: int
    at: float
    times: int = 1
    subject: str = ""
    readable: bool = False
    """Whether a later message took the place of one that could not be read."""


class Facts(Struct, kw_only=True):
    """Everything that was found out; None is what was not looked at or could not be, as `unchecked` says."""

    now: float
    version: str
    where: str = ""
    """The log's address."""
    overview: Overview | None = None
    instances: list[InstanceReport] | None = None
    leading: dict[str, str] = field(default_factory=dict)
    """The instance that shows heartbeats, by service."""
    fills: list[Fill] | None = None
    store: Store | None = None
    topology: list[str] | None = None
    parked: list[ParkedRecord] | None = None
    processes: list[Process] | None = None
    answers: list[Answer] | None = None
    disk: Disk | None = None
    certificates: list[Expiry] = field(default_factory=list)
    control_plane: str | None = None
    """Why the control plane does not answer; empty when it does."""
    checked: list[str] = field(default_factory=list)
    unchecked: dict[str, str] = field(default_factory=dict)
    """Why something could not be looked at, by what it was."""

    def heard(self) -> dict[str, float]:
        """When each member was heard of last, as far as any instance says."""
        found: dict[str, float] = {}
        for report in self.instances or ():
            said: Any = report.facts.get("heard")
            if isinstance(said, dict):
                for name, at in said.items():
                    if isinstance(at, int | float):
                        found[str(name)] = max(float(at), found.get(str(name), 0.0))
        return found
