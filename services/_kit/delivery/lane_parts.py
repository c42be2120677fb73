"""Parts of a lane: settings, the source of its works, counters, settled objects."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from hashlib import blake2b
from typing import Final

from msgspec import Struct
from msgspec.json import Encoder
from msgspec.structs import replace

from schemas.events.observed import WorkObserved
from schemas.events.work import WorkEvent, WorkRendered
from schemas.keys import ObjectKey
from schemas.manifest import Manifest
from services._kit.base.log_errors import LogError
from services._kit.base.pacing import EXACT, Backoff
from services._kit.delivery.concurrency_limiter import too_much
from services._kit.delivery.kind_caches import UnknownKind
from services._kit.kube.client import ApiError, BadAnswer, Unreachable
from services._rules.delivery.drift import both
from services._rules.delivery.refusal_hints import hint_for
from services._rules.delivery.work_status import FAILED_SUMMARY
from services._rules.secrets.redaction import failure_of_secret, refusal_of_secret
from services._rules.secrets.secret_objects import is_secret

CREATED: Final = "created"
"""What was done to an object that was not there."""

_AT_ONCE: Final = 3
"""Repairs of one object that do not wait."""
_QUIET: Final = 60.0
"""Seconds without a change after which an object counts as quiet again."""
_REMEMBERED: Final = 20_000
_sorted: Final = Encoder(order="deterministic").encode


class LaneSettings(Struct, frozen=True, kw_only=True):
    """How much at once and how patiently; times in seconds."""

    concurrency: int = 24
    scripted_concurrency: int = 8
    """Objects under way at once whose interpretation takes a script or webhook; beside the others."""
    backoff: float = 0.1
    longest_backoff: float = 30.0
    longest_pause: float = 5.0


async def _nothing_to_keep(_: ObjectKey) -> None:
    """Of those whose works are on the log alone."""


class WorkSource(Struct, frozen=True):
    """Where a lane finds its works, the last report on each, and manifest bytes by digest.

    `previous` gives the bytes of the manifest that was applied before a work, None when none is known. `keep` returns
    once the work of an object outlives this process; a deletion waits for it. `identity` is the uid of the member's
    namespace kube-system, empty while it is not known.
    """

    work: Callable[[ObjectKey], tuple[WorkEvent, int] | None]
    observed: Callable[[ObjectKey], WorkObserved | None]
    blob: Callable[[str], Awaitable[bytes]]
    previous: Callable[[ObjectKey, WorkRendered], Awaitable[bytes | None]]
    report: Callable[[WorkObserved], None]
    now: Callable[[], float]
    keep: Callable[[ObjectKey], Awaitable[None]] = _nothing_to_keep
    identity: Callable[[], str] = str


class LaneStats(Struct):
    """Counters for metrics and tests."""

    created: int = 0
    updated: int = 0
    deleted: int = 0
    repaired: int = 0
    """Of those created and updated: what had been changed in the cluster."""
    unchanged: int = 0
    failed: int = 0


class Settled(Struct, frozen=True, gc=False):
    """What a comparison with the work at a position was based on: everything of an object but its status.

    `marks` is a digest of its labels and annotations; `interpreted` is since when its kind is interpreted as it was
    then.
    """

    seq: int
    uid: str
    generation: int
    marks: bytes
    interpreted: int = 0

    @classmethod
    def of(cls, live: Manifest, seq: int, interpreted: int = 0) -> Settled:
        """What there is to compare of a live object; kinds without a generation have 0 and no marks."""
        metadata = live["metadata"]
        generation = int(metadata.get("generation", 0))
        marks = (metadata.get("labels"), metadata.get("annotations"))
        digest = blake2b(_sorted(marks), digest_size=16).digest() if generation else b""
        return cls(seq, str(metadata.get("uid", "")), generation, digest, interpreted)


def since(before: WorkObserved | None, uid: str, applied: bool) -> float:
    """Since when a cluster holds a manifest or does not, by the report before; 0 where that changes now."""
    if before is None or before.uid != uid or before.applied != applied:
        return 0.0
    return before.since or before.at


def says_the_same(before: WorkObserved, event: WorkObserved) -> bool:
    """Whether an observation repeats the one before it; positions and times do not count.

    But each withdrawal is confirmed on its own: what was gone before it was asked for again proves nothing afterwards;
    and each repair is reported, though the object then is as it was.
    """
    if event.absent and before.work_seq < event.work_seq:
        return False
    if event.drift:
        return False
    return (
        before.uid == event.uid
        and before.digest == event.digest
        and before.applied == event.applied
        and before.absent == event.absent
        and before.reason == event.reason
        and before.message == event.message
        and before.health == event.health
        and before.status == event.status
        and before.endpoints == event.endpoints
        and before.member_uid == event.member_uid
    )


def instead_of(unsent: WorkObserved | None, event: WorkObserved) -> WorkObserved:
    """The observation to send for an unsent one and the next: what is seen now, and all that was done before it."""
    if unsent is None or not event.applied or unsent.uid != event.uid:
        return event
    # An object that was created and changed at once is reported as created.
    operation = unsent.operation if unsent.operation == CREATED else event.operation or unsent.operation
    return replace(event, operation=operation, drift=both(unsent.drift, event.drift))


def summary(error: str) -> str:
    """The message of a work whose only manifest could not be applied."""
    return f"{FAILED_SUMMARY}{error}"


def reported_failure(work: WorkEvent, error: Exception) -> str:
    """The reportable text of a failure: cluster, reason and remedy; nothing that could quote a Secret."""
    what = _redacted(work, error)
    if isinstance(error, UnknownKind | Unreachable):
        return f"cluster {work.cluster}: {what}"
    if not isinstance(error, ApiError):
        return what
    what = f"cluster {work.cluster}: {what}"
    remedy = hint_for(error.status, error.reason, error.message)
    return f"{what}; {remedy}" if remedy else what


def _redacted(work: WorkEvent, error: Exception) -> str:
    if not is_secret(work.api_version, work.kind) or isinstance(error, LogError | UnknownKind):
        return str(error)
    if isinstance(error, ApiError):
        return refusal_of_secret(error.status, error.reason, error.message)
    return failure_of_secret(error)


def holders(live: Manifest) -> list[str]:
    """Finalizers of an object; a namespace keeps its own in its spec."""
    finalizers = [*live["metadata"].get("finalizers", ())]
    if live["kind"] == "Namespace":
        finalizers += (live.get("spec") or {}).get("finalizers") or ()
    return finalizers


def uid_of(manifest: Manifest) -> str:
    """Uid of an object."""
    return str(manifest["metadata"].get("uid", ""))


class RepairBackoff:
    """Backoff of repairs per object: repeated changes to the same object are repaired ever less often."""

    def __init__(self, longest: float) -> None:
        self._longest = longest
        self._backoff = Backoff(1.0, longest, EXACT)
        self._done: dict[ObjectKey, tuple[int, float]] = {}

    def wait(self, key: ObjectKey, now: float) -> float:
        """Seconds from now until an object may be repaired."""
        count, at = self._done.get(key, (0, 0.0))
        if count < _AT_ONCE:
            return 0.0
        return min(max(0.0, at + self._pause(count) - now), self._longest)

    def repaired(self, key: ObjectKey, now: float) -> None:
        """An object was repaired."""
        count, at = self._done.pop(key, (0, 0.0))
        quiet = now - at > self._pause(count) + _QUIET
        self._done[key] = (1 if quiet else count + 1, now)
        if len(self._done) > _REMEMBERED:
            del self._done[next(iter(self._done))]

    def _pause(self, count: int) -> float:
        return self._backoff.pause(count - _AT_ONCE + 1) if count >= _AT_ONCE else 0.0


def is_passing(error: Exception) -> bool:
    """Whether an error concerns the cluster rather than the object."""
    return (
        isinstance(error, BadAnswer) or too_much(error) or (isinstance(error, ApiError) and error.status in (401, 502))
    )
