"""Acts on one object of a member: brings it to what is desired, deletes it, or lets go of it."""

from __future__ import annotations

from typing import Any, Final, assert_never

from msgspec import Struct

from schemas.keys import ObjectKey
from services._kit.delivery.interpreted import Interpretation, Offered
from services._kit.delivery.kinds import Kind
from services._kit.delivery.parts import LaneStats, holders, uid_of
from services._kit.delivery.reports import LEAVING
from services._kit.kube import ApiError, KubeClient, encode
from services._rules.delivery import (
    Create,
    Leave,
    Refuse,
    Remove,
    Replace,
    apply_action,
    may_write,
    withdraw_action,
)

Manifest = dict[str, Any]
_CONFLICT_TRIES: Final = 5


class Ended(Struct, frozen=True):
    """What there is to report of an object whose work was withdrawn."""

    absent: bool = False
    operation: str = ""
    reason: str = ""
    message: str = ""
    member_uid: str = ""


class Acting:
    """The writes of one lane."""

    def __init__(self, cluster: str, client: KubeClient, stats: LaneStats, interpretation: Interpretation) -> None:
        self._cluster = cluster
        self._client = client
        self._stats = stats
        self._interpretation = interpretation

    async def bring(
        self,
        kind: Kind,
        key: ObjectKey,
        desired: Manifest,
        live: Manifest | None,
        previous: Manifest | None,
        offered: Offered,
    ) -> tuple[Manifest | None, str, str]:
        """Make the live object what is desired; the object now, what was done, or why it was refused.

        Raises ApiError, Unreachable and InterpretError.
        """
        for _ in range(_CONFLICT_TRIES):
            wanted = None
            if offered.retain and live is not None and may_write(desired, live):
                wanted = await self._interpretation.retain(desired, live, self._cluster)
            action = apply_action(desired, live, self._cluster, previous, wanted)
            match action:
                case Leave():
                    self._stats.unchanged += 1
                    return live, "", ""
                case Refuse():
                    return live, "", action.message
                case Create():
                    try:
                        live = await self._client.create(kind.path(key.namespace), encode(action.manifest))
                    except ApiError as error:
                        if error.reason != "AlreadyExists":
                            raise
                        live = await self._read(kind, key)
                        continue
                    self._stats.created += 1
                    kind.written(live)
                    return live, "created", ""
                case Replace():
                    before = (live or {}).get("metadata", {}).get("resourceVersion")
                    try:
                        live = await self._client.update(kind.path(key.namespace, key.name), encode(action.manifest))
                    except ApiError as error:
                        if error.status == 404:
                            live = None
                        elif error.reason == "Conflict":
                            live = await self._read(kind, key)
                        else:
                            raise
                        continue
                    kind.written(live)
                    if live["metadata"].get("resourceVersion") == before:
                        return live, "", ""
                    self._stats.updated += 1
                    return live, "updated", ""
                case Remove():
                    raise AssertionError("a rendered work never removes")
                case _:
                    assert_never(action)
        return live, "", "the object keeps changing under our hands; it is tried again"

    async def _read(self, kind: Kind, key: ObjectKey) -> Manifest | None:
        try:
            return await self._client.get(kind.path(key.namespace, key.name))
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    async def withdraw(self, kind: Kind, key: ObjectKey, *, keep: bool) -> Ended | None:
        """Delete the object, or (`keep`) let go of it; what there is to tell, None while the watch has to bring it.

        Raises ApiError and Unreachable.
        """
        live = kind.live.get((key.namespace, key.name))
        action = withdraw_action(live, keep=keep)
        match action:
            case Remove():
                try:
                    await self._client.delete(
                        kind.path(key.namespace, key.name), propagation="Background", uid=action.uid
                    )
                    self._stats.deleted += 1
                except ApiError as error:
                    if error.status == 404:
                        kind.live.pop((key.namespace, key.name), None)
                        return Ended(absent=True)
                    if error.reason != "Conflict":
                        raise
                    # A conflict means another object of this name: the watch brings it.
            case Replace():
                answer = await self._client.update(kind.path(key.namespace, key.name), encode(action.manifest))
                kind.live.pop((key.namespace, key.name), None)
                return Ended(absent=True, operation="kept", member_uid=uid_of(answer))
            case Leave():
                if live is None:
                    return Ended(absent=True)
                # Only something in the member can let it go; whether it ever does is not for us to wait for.
                held = ", ".join(holders(live)) or "its grace period"
                message = f"deleted, and held in the cluster by {held}"
                return Ended(reason=LEAVING, message=message, member_uid=uid_of(live))
            case Create() | Refuse():
                raise AssertionError("a withdrawn work never creates")
            case _:
                assert_never(action)
        return None
