"""Decodes heartbeats of agents: known fields only, of bounded length, at a bounded rate."""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from schemas.agent import Expiry, Hello, Sample
from services._rules.kubernetes.quantity import QuantityError, parse

LARGEST: Final = 1 << 20
"""Bytes of one heartbeat; a larger one is not read."""
PER_SECOND: Final = 10
"""Heartbeats of one cluster that are read in a second; further ones are redundant."""

_LAST_TIME: Final = 253_402_300_800.0
"""The year 10000, in seconds since 1970."""

_Text = Annotated[str, Meta(max_length=256)]
_Count = Annotated[int, Meta(ge=0, le=1 << 40)]


class _Kind(Struct):
    name: _Text
    kind: _Text


class _Served(Struct, rename={"group_version": "groupVersion"}):
    group_version: _Text
    resources: list[_Kind] = []


class _Nodes(Struct, frozen=True, rename="camel"):
    total_num: _Count = 0
    ready_num: _Count = 0


class _Grade(Struct):
    grade: _Count
    count: _Count


class _Amounts(Struct, frozen=True, rename="camel", omit_defaults=True):
    allocatable: dict[str, str] = {}
    allocated: dict[str, str] = {}
    allocating: dict[str, str] = {}
    allocatable_modelings: list[_Grade] = []


class _Summary(Struct, rename="camel"):
    kubernetes_version: _Text = ""
    api_enablements: list[_Served] = []
    node_summary: _Nodes = _Nodes()
    resource_summary: _Amounts = _Amounts()


class Malformed(ValueError):
    """A heartbeat that is not read; the message is the reason."""


def heard(data: bytes, now: float) -> Sample | None:
    """The sample in a heartbeat, as of now by our clock; None in one without. Raises Malformed.

    The member's clock is not believed, and of a summary only what a Cluster's status may hold is taken.
    """
    if len(data) > LARGEST:
        raise Malformed(f"{len(data)} bytes, at most {LARGEST} are read")
    try:
        sample = msgspec.json.decode(data, type=Hello).sample
        if sample is None:
            return None
        return replace(
            sample,
            at=now,
            error=sample.error[:1024],
            cause=sample.cause[:1024],
            summary=_known(sample.summary),
            expiry=_plausible(sample.expiry),
            identity=sample.identity[:256],
            answers=sample.answers[:64] if sample.answers is not None else None,
        )
    except (msgspec.MsgspecError, QuantityError, RecursionError) as error:
        raise Malformed(str(error)) from None


def _plausible(expiry: Expiry | None) -> Expiry | None:
    """The end of credentials, where it is a time that a calendar has."""
    if expiry is None or not 0 < expiry.at < _LAST_TIME:
        return None
    since = expiry.since if 0 < expiry.since < expiry.at else 0.0
    return Expiry(at=expiry.at, since=since, what=expiry.what[:256])


def _known(summary: dict[str, Any] | None) -> dict[str, Any] | None:
    """The known fields of a summary; raises what does not fit."""
    if summary is None:
        return None
    checked = msgspec.convert(summary, _Summary)
    amounts = checked.resource_summary
    for part in (amounts.allocatable, amounts.allocated, amounts.allocating):
        for amount in part.values():
            parse(amount)
    known: dict[str, Any] = msgspec.to_builtins(checked)
    return known


class HeartbeatRate(Struct):
    """Counts the heartbeats of one cluster in the current second."""

    second: int = 0
    count: int = 0

    def allows(self, now: float) -> bool:
        """Whether one more is read."""
        if int(now) != self.second:
            self.second, self.count = int(now), 0
        self.count += 1
        return self.count <= PER_SECOND
