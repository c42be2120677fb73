"""The port to the member's own API server: what the loop reads, follows and writes, and how a write is refused."""

from collections.abc import AsyncIterator
from typing import NamedTuple, Protocol

from schemas.manifest import Manifest
from services.member_sim.world.world_model import Write


class Refused(Exception):
    """The server refused a write; ``code`` and ``reason`` are those of its Status."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.code, self.reason = code, reason


class Expired(Exception):
    """The history a watch needs is gone; list again."""


class Change(NamedTuple):
    """One event of a watch."""

    manifest: Manifest
    gone: bool


class WriteOutcome(NamedTuple):
    """What a write left behind: the object's new state, or that it is gone."""

    manifest: Manifest | None
    gone: bool


class Api(Protocol):
    """An API server seen from its own process; manifests are shared and never changed."""

    async def read(self, resource: str) -> tuple[list[Manifest], str]:
        """Return all objects of a resource that may matter (see ONLY_NAMED) and the revision of the list."""

    def watch(self, resource: str, revision: str) -> AsyncIterator[Change]:
        """Yield what changes after a revision; raises Expired when the history is gone."""

    async def perform(self, write: Write) -> WriteOutcome:
        """Carry out a write; raises Refused."""
