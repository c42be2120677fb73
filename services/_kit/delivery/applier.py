"""Applies one object in a member: creates or updates it, deletes it, or releases it."""

from __future__ import annotations

from typing import Final, assert_never

from msgspec import Struct

from schemas.events.observed import Drift
from schemas.keys import ObjectKey
from schemas.manifest import Manifest
from services._kit.delivery.concurrency_limiter import LimitedClient
from services._kit.delivery.interpretation_levels import Interpretation, Offered
from services._kit.delivery.kind_caches import Kind, Kinds
from services._kit.delivery.lane_metrics import WriteMetrics
from services._kit.delivery.lane_parts import CREATED, LaneStats, holders, uid_of
from services._kit.kube.api import MANAGER, ApiError, encode, is_absent
from services._rules.delivery.apply import (
    Create,
    Leave,
    Refuse,
    Remove,
    Replace,
    apply_action,
    may_write,
    withdraw_action,
)
from services._rules.delivery.drift import removed, repaired
from services._rules.delivery.observations import LEAVING

_CONFLICT_TRIES: Final = 5


class ApplyResult(Struct, frozen=True):
    """How bringing an object in line went: the object now, what was done, whose changes were undone, or a refusal."""

    live: Manifest | None
    operation: str = ""
    drift: tuple[Drift, ...] = ()
    refusal: str = ""


class DeleteResult(Struct, frozen=True):
    """What there is to report of an object whose work was withdrawn."""

    absent: bool = False
    operation: str = ""
    reason: str = ""
    message: str = ""
    member_uid: str = ""


class Applier:
    """The writes of one lane to its cluster, with the kinds that are followed there."""

    def __init__(
        self,
        cluster: str,
        client: LimitedClient,
        kinds: Kinds,
        stats: LaneStats,
        interpretation: Interpretation,
        written: WriteMetrics,
    ) -> None:
        self._cluster = cluster
        self.kinds = kinds
        self._client = client
        self._stats = stats
        self._interpretation = interpretation
        self._written = written

    async def bring(
        self,
        kind: Kind,
        key: ObjectKey,
        desired: Manifest,
        live: Manifest | None,
        previous: Manifest | None,
        offered: Offered,
        *,
        held: bool,
    ) -> ApplyResult:
        """Make the live object what is desired; `held` where it was so before, so that a difference is drift.

        Raises ApiError, Unreachable and InterpretError.
        """
        read = False
        for _ in range(_CONFLICT_TRIES):
            wanted = None
            if offered.retain and live is not None and may_write(desired, live):
                wanted = await self._interpretation.retain(desired, live, self._cluster)
            action = apply_action(desired, live, self._cluster, previous, wanted)
            match action:
                case Leave():
                    self._stats.unchanged += 1
                    return ApplyResult(live)
                case Refuse():
                    return ApplyResult(live, refusal=action.message)
                case Create():
                    try:
                        with self._written.creating(self._cluster, kind, again=held):
                            live = await self._client.create(kind.path(key.namespace), encode(action.manifest))
                    except ApiError as error:
                        if error.reason != "AlreadyExists":
                            raise
                        live = await self._read(kind, key)
                        continue
                    self._stats.created += 1
                    kind.written(live)
                    return ApplyResult(live, CREATED, removed(action.manifest) if held else ())
                case Replace():
                    before = _version(live)
                    if held and not read:
                        # The watch omits managed fields; they are read only where their managers are to be reported.
                        live, read = await self._read(kind, key), True
                        if _version(live) != before:
                            continue
                    drift = repaired(action.manifest, live or {}, MANAGER) if held else ()
                    try:
                        with self._written.updating(self._cluster, kind):
                            place = kind.path(key.namespace, key.name)
                            live = await self._client.update(place, encode(action.manifest))
                    except ApiError as error:
                        if error.status == 404:
                            live = None
                        elif error.reason == "Conflict":
                            live = await self._read(kind, key)
                        else:
                            raise
                        continue
                    kind.written(live)
                    changed = _version(live) != before
                    self._written.updated(self._cluster, kind, changed=changed)
                    if not changed:
                        return ApplyResult(live)
                    self._stats.updated += 1
                    return ApplyResult(live, "updated", drift)
                case Remove():
                    raise AssertionError("a rendered work never removes")
                case _:
                    assert_never(action)
        return ApplyResult(live, refusal="the object keeps changing under our hands; it is tried again")

    async def live(self, kind: Kind, key: ObjectKey) -> Manifest | None:
        """The object in the cluster, read from there where it is not kept at hand; raises ApiError and Unreachable."""
        place = (key.namespace, key.name)
        if kind.has_to_be_read(place):
            kind.was_read(place, found := await self._read(kind, key))
            return found
        return kind.live.get(place)

    async def _read(self, kind: Kind, key: ObjectKey) -> Manifest | None:
        try:
            return await self._client.get(kind.path(key.namespace, key.name))
        except ApiError as error:
            if is_absent(error):
                return None
            raise

    async def withdraw(self, kind: Kind, key: ObjectKey, *, keep: bool) -> DeleteResult | None:
        """Delete the object, or (`keep`) release it; returns the result, None until the object is seen to be gone.

        An answer alone does not prove that: a deletion counts once the watch or a refusal (404) confirms it.

        Raises ApiError and Unreachable.
        """
        live = await self.live(kind, key)
        action = withdraw_action(live, keep=keep)
        match action:
            case Remove():
                try:
                    with self._written.deleting(self._cluster, kind):
                        place = kind.path(key.namespace, key.name)
                        await self._client.delete(place, propagation="Background", uid=action.uid)
                    self._stats.deleted += 1
                except ApiError as error:
                    if is_absent(error):
                        kind.live.drop((key.namespace, key.name))
                        return DeleteResult(absent=True)
                    if error.reason != "Conflict":
                        raise
                    # A conflict means another object of this name: the watch brings it.
            case Replace():
                answer = await self._client.update(kind.path(key.namespace, key.name), encode(action.manifest))
                kind.live.drop((key.namespace, key.name))
                return DeleteResult(absent=True, operation="kept", member_uid=uid_of(answer))
            case Leave():
                if live is None:
                    return DeleteResult(absent=True)
                # Only something in the member can let it go; whether it ever does is not for us to wait for.
                held = ", ".join(holders(live)) or "its grace period"
                message = f"deleted, and held in the cluster by {held}"
                return DeleteResult(reason=LEAVING, message=message, member_uid=uid_of(live))
            case Create() | Refuse():
                raise AssertionError("a withdrawn work never creates")
            case _:
                assert_never(action)
        return None


def _version(manifest: Manifest | None) -> str:
    return str(((manifest or {}).get("metadata") or {}).get("resourceVersion", ""))
