"""Decides when what is missing from lists of the control plane counts as deleted, and what is held until then.

The guard holds the identity of the control plane, the missing objects, and what an operator confirmed. Its inputs
are the log (`fold`) and the endpoint (`take_reading`, `lost`, `refused`, `found`); `decide` returns the facts to
append.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from hashlib import sha256
from typing import Final, Generic, TypeVar

from msgspec import Struct, field

from schemas.codec import Known
from schemas.events.control_plane import AbsenceConfirmed, AbsenceHeld, AbsenceReleased, ControlPlaneIdentified
from services._rules.absence.endpoint_identity import Judgement, Reading, judge

K = TypeVar("K", bound=Hashable)

NAMED: Final = 1000
"""Names of missing objects in one fact; more are counted only."""
RECORDED_SECONDS: Final = 600.0
"""Interval at which the revision of the control plane's store is recorded again."""
IDENTITY_CHANGED: Final = "IdentityChanged"
IDENTITY_UNKNOWN: Final = "IdentityUnknown"
WENT_BACK: Final = "RevisionWentBack"
DISAPPEARED: Final = "MassDisappearance"
BACK: Final = "ObjectsAreBack"
CONFIRMED: Final = "Confirmed"


class Limits(Struct, frozen=True, kw_only=True):
    """How much of a kind may be missing from one list without a confirmation.

    Held is what is at least `count` objects and at least `share` of those that are known of the kind. Raises ValueError
    for limits that make no sense.
    """

    share: float = 0.2
    count: int = 5

    def __post_init__(self) -> None:
        """Refuse what holds everything or nothing."""
        if not 0 < self.share <= 1:
            raise ValueError(f"{self.share:g} is no share; use one above 0, up to 1")
        if self.count < 1:
            raise ValueError(f"a count of {self.count} is too small; use 1 or more")

    def sudden(self, missing: int, known: int, *, vital: bool = False) -> bool:
        """Whether so many missing of so many known are too many; of what is vital, all of two or more always are."""
        if vital and missing >= known >= 2:
            return True
        return missing >= max(1, self.count) and missing >= self.share * known


class Noted(Struct, frozen=True):
    """Uid of a control plane (empty: not known), and the highest revision that its store was seen at."""

    uid: str
    revision: int


class Guard(Struct, Generic[K], kw_only=True):
    """What one reader of the control plane knows about absence. Keys are whatever it calls objects.

    `missing` are keys that are held, by kind; `refused` those that lists of a control plane that is not trusted lack.
    `doubted` is true from a fall of the revision (or a start while something is held) until it is known of every kind
    what is missing: whatever its first list lacks is held; `vouched` are the kinds of which it is known.
    """

    scope: str
    limits: Limits = Limits()
    identity: ControlPlaneIdentified | None = None
    held: AbsenceHeld | None = None
    held_at: int = 0
    confirmed: AbsenceConfirmed | None = None
    confirmed_at: int = 0
    reading: Reading | None = None
    judgement: Judgement | None = None
    adopted: str = ""
    """The uid that is known before the log has it."""
    highest: int = 0
    missing: dict[str, set[K]] = field(default_factory=dict)
    refused: dict[str, set[K]] = field(default_factory=dict)
    passing: set[K] = field(default_factory=set)
    """Keys whose absence was confirmed, or is plainly said by the control plane."""
    doubted: bool = False
    vouched: set[str] = field(default_factory=set)
    why: str = ""
    """Why what is missing is held; empty while nothing is."""

    @property
    def uid(self) -> str:
        """Uid of the control plane, empty while it is not known."""
        return self.adopted or (self.identity.uid if self.identity is not None else "")

    @property
    def trusted(self) -> bool:
        """Whether answers of the control plane count; unknown until its identity was read for the first time."""
        return self.judgement is not None and self.judgement.trusted

    def holds(self, kind: str, key: K) -> bool:
        """Whether an object is missing and held."""
        return key in self.missing.get(kind, ())

    @property
    def count(self) -> int:
        """How many objects are held."""
        return sum(map(len, (self.missing if self.trusted else self.refused).values()))


def fold(guard: Guard[K], seq: int, event: Known) -> list[K]:
    """Take in a fact about the control plane or about this scope; keys whose absence counts from now on."""
    match event:
        case ControlPlaneIdentified():
            same = guard.reading is not None and guard.uid == event.uid
            if guard.uid not in ("", event.uid):
                # Another one takes its place, but the missing objects of this scope are not confirmed.
                doubt(guard, DISAPPEARED)
            guard.highest = max(guard.highest, event.revision) if same else event.revision
            guard.identity, guard.adopted = event, ""
        case AbsenceHeld() if event.scope == guard.scope:
            guard.held, guard.held_at = event, seq
            if guard.judgement is None and event.reason in (WENT_BACK, DISAPPEARED):
                # A start while something is held: what the first lists lack is what was held.
                guard.doubted, guard.why = True, event.reason
        case AbsenceReleased() if event.scope == guard.scope:
            guard.held = None
            if guard.judgement is None:
                guard.doubted, guard.why = False, ""
        case AbsenceConfirmed() if event.scope == guard.scope:
            guard.confirmed, guard.confirmed_at = event, seq
            if guard.held is not None and guard.held_at == event.held_at:
                return _let_pass(guard, event)
        case _:
            pass
    return []


def _let_pass(guard: Guard[K], event: AbsenceConfirmed) -> list[K]:
    keys = [key for held in guard.missing.values() for key in held] if guard.trusted else []
    guard.passing.update(key for kept in (guard.missing, guard.refused) for held in kept.values() for key in held)
    guard.missing.clear()
    guard.refused.clear()
    guard.doubted, guard.why = False, ""
    if not guard.trusted and event.identity and guard.reading is not None and guard.reading.uid == event.identity:
        # What it lacks counts as deleted once its own list confirms that.
        guard.adopted, guard.judgement, guard.highest = event.identity, Judgement.SAME, guard.reading.revision
    return keys


def noted(guard: Guard[K]) -> Noted:
    """What is known now of the control plane."""
    return Noted(guard.uid, guard.highest)


def take_reading(guard: Guard[K], reading: Reading, before: Noted) -> Judgement:
    """Take in a reading of the identity at the control plane's address; the judgement is whether its lists count.

    `before` is what was known when the question was asked: the answer may be older than what was learned since.
    """
    guard.reading = reading
    confirmed = guard.confirmed
    if (
        confirmed is not None
        and reading.uid
        and confirmed.identity == reading.uid != guard.uid
        and guard.held is not None
        and confirmed.held_at == guard.held_at
    ):
        guard.adopted, guard.highest = reading.uid, reading.revision
    guard.judgement = judge(guard.uid, before.revision if before.uid == guard.uid else 0, reading)
    match guard.judgement:
        case Judgement.FIRST:
            guard.adopted, guard.highest = reading.uid, reading.revision
        case Judgement.WENT_BACK:
            guard.highest = reading.revision
            doubt(guard)
        case Judgement.SAME:
            guard.highest = max(guard.highest, reading.revision)
            guard.refused.clear()
        case _:
            pass
    return guard.judgement


def doubt(guard: Guard[K], why: str = WENT_BACK) -> None:
    """Take in that the store of the control plane is another one or went back: what its next lists lack is held."""
    guard.doubted, guard.why = True, why
    guard.vouched.clear()


def lost(guard: Guard[K], kind: str, absent: Collection[K], known: int, *, vital: bool = False) -> set[K]:
    """The keys missing from a complete list of a kind that are held; the others count as deleted.

    `absent` are recorded objects that the list lacks, `known` is how many are recorded of the kind.
    """
    before = guard.missing.get(kind, set())
    new = {key for key in absent if key not in guard.passing}
    held = new & before
    rest = new - before
    if guard.doubted and kind not in guard.vouched:
        held = new
    elif guard.limits.sudden(len(rest), known, vital=vital):
        held, guard.why = new, guard.why or DISAPPEARED
    guard.vouched.add(kind)
    _keep(guard.missing, kind, held)
    return held


def refused(guard: Guard[K], kind: str, absent: Iterable[K]) -> None:
    """Keep what a list lacks that does not count: an operator needs it to confirm."""
    _keep(guard.refused, kind, set(absent))


def found(guard: Guard[K], kind: str, key: K) -> bool:
    """Take in that an object is there; whether it was held."""
    guard.passing.discard(key)
    return gone(guard, kind, key)


def gone(guard: Guard[K], kind: str, key: K) -> bool:
    """Take in that the control plane said of one object that it was deleted; whether it was held."""
    held = guard.missing.get(kind)
    if held is None or key not in held:
        return False
    held.discard(key)
    _keep(guard.missing, kind, held)
    return True


def _keep(kept: dict[str, set[K]], kind: str, keys: set[K]) -> None:
    if keys:
        kept[kind] = keys
    else:
        kept.pop(kind, None)


def why_gone(guard: Guard[K], key: K, deleted: bool) -> str:
    """The evidence that an object is gone, for the fact about it; `deleted` when a watch delivered the deletion."""
    if key in guard.passing and guard.confirmed is not None:
        return f"missing from the control plane, confirmed by {guard.confirmed.by} at #{guard.confirmed_at}"
    return "deleted from the control plane" if deleted else "missing from a complete list of the control plane"


def settles(guard: Guard[K], kinds: Collection[str]) -> bool:
    """Whether a reason to hold ends: nothing is missing, of no recorded kind (`kinds`) where there was doubt."""
    if not guard.trusted or guard.missing or (guard.doubted and not guard.vouched.issuperset(kinds)):
        return False
    return guard.doubted or bool(guard.why)


def settle(guard: Guard[K]) -> None:
    """Take in that nothing is missing: the reason to hold ends."""
    guard.doubted, guard.why = False, ""


def decide(
    guard: Guard[K], kinds: Collection[str], now: float, name: Callable[[K], str] = str
) -> tuple[AbsenceHeld | AbsenceReleased, ...]:
    """The fact that is due about this scope, if any; `kinds` are those that anything is recorded of."""
    if guard.judgement is None:
        # Nothing was seen since the start: what was held is held.
        return ()
    wanted = None if settles(guard, kinds) else _wanted(guard, kinds, now, name)
    if wanted is None:
        if guard.held is None:
            return ()
        confirmed = guard.confirmed is not None and guard.confirmed.held_at == guard.held_at
        reason, position = (CONFIRMED, guard.confirmed_at) if confirmed else (BACK, 0)
        return (AbsenceReleased(scope=guard.scope, reason=reason, confirmation=position),)
    held = guard.held
    if held is not None and (_says(held) == _says(wanted) or _says_part(guard, kinds, held, wanted)):
        return ()
    return (wanted,)


def _says_part(guard: Guard[K], kinds: Collection[str], held: AbsenceHeld, wanted: AbsenceHeld) -> bool:
    """Whether no more is known than what was held, because not every kind was listed since the start."""
    return (
        guard.doubted
        and not guard.vouched.issuperset(kinds)
        and (held.reason, held.identity, held.expected) == (wanted.reason, wanted.identity, wanted.expected)
        and all(count <= held.kinds.get(kind, 0) for kind, count in wanted.kinds.items())
    )


def _says(event: AbsenceHeld) -> tuple[object, ...]:
    return event.reason, event.identity, event.expected, event.digest, event.kinds


def _wanted(guard: Guard[K], kinds: Collection[str], now: float, name: Callable[[K], str]) -> AbsenceHeld | None:
    reading = guard.reading or Reading("")
    if not guard.trusted:
        other = bool(reading.uid)
        seen = f"has the identity {reading.uid}" if other else f"does not tell its identity ({reading.problem})"
        message = (
            f"what answers at the control plane's address {seen}, but the control plane is {guard.uid}: nothing that "
            "it says counts, and nothing is withdrawn. Let the address lead to the control plane again"
        )
        if other:
            message += ", or say that this one takes its place with `fleetlog confirm-absence`"
        return _held(guard, IDENTITY_CHANGED if other else IDENTITY_UNKNOWN, message, guard.refused, now, name)
    if not guard.missing and not guard.doubted:
        return None
    reason = guard.why or DISAPPEARED
    what = "is back at an older state" if reason == WENT_BACK else "lacks many objects at once that it had"
    unlisted = sorted(kind for kind in kinds if kind not in guard.vouched) if guard.doubted else []
    waits = f"; not listed yet: {', '.join(unlisted[:5])}" if unlisted else ""
    message = (
        f"the control plane {what}: {_counts(guard.missing) or 'nothing'} missing{waits}. Nothing of it is withdrawn "
        "until it is there again, or `fleetlog confirm-absence` says that it was meant to go"
    )
    return _held(guard, reason, message, guard.missing, now, name)


def _counts(missing: Mapping[str, Collection[object]]) -> str:
    return ", ".join(f"{len(keys)} {kind}" for kind, keys in sorted(missing.items())[:8])


def _held(
    guard: Guard[K],
    reason: str,
    message: str,
    missing: Mapping[str, Collection[K]],
    now: float,
    name: Callable[[K], str],
) -> AbsenceHeld:
    names = sorted(name(key) for keys in missing.values() for key in keys)
    return AbsenceHeld(
        scope=guard.scope,
        reason=reason,
        message=message,
        since=guard.held.since if guard.held is not None else now,
        identity=guard.reading.uid if guard.reading is not None else "",
        expected=guard.uid,
        kinds={kind: len(keys) for kind, keys in sorted(missing.items())},
        missing=tuple(names[:NAMED]),
        digest=sha256("\n".join(names).encode()).hexdigest()[:16] if names else "",
    )


def identify(guard: Guard[K], now: float) -> ControlPlaneIdentified | None:
    """The fact about the identity of the control plane, when it is due; for the single writer."""
    reading = guard.reading
    if reading is None or not guard.trusted or not reading.uid:
        return None
    known = guard.identity
    fact = ControlPlaneIdentified(uid=guard.uid, revision=guard.highest)
    if known is None or known.uid != guard.uid:
        confirmed = guard.confirmed
        position = guard.confirmed_at if known is not None and confirmed is not None else 0
        return ControlPlaneIdentified(uid=guard.uid, revision=guard.highest, confirmation=position)
    if guard.highest < known.revision:
        return fact
    if guard.highest > known.revision and now - known.provenance.decided_at >= RECORDED_SECONDS:
        return fact
    return None
