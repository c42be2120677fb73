"""Encodes events to bytes and decodes them by their subject's aggregate, upcasting old versions on the way."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Final, assert_never, get_args

import msgspec
from msgspec import Struct

from schemas.envelope import Event
from schemas.events.autoscaling import (
    AutoscalerReleased,
    AutoscalingEvent,
    ReplicasRecommended,
    ScheduleAdvanced,
    ScheduleReleased,
)
from schemas.events.binding import BindingEvent, BindingReleased, BindingRequested
from schemas.events.cluster import ClusterChanged, ClusterEvent, ClusterRemoved
from schemas.events.control_plane import (
    AbsenceConfirmed,
    AbsenceEvent,
    AbsenceHeld,
    AbsenceReleased,
    ConfirmationEvent,
    ControlPlaneIdentified,
    IdentityEvent,
)
from schemas.events.descheduling import DeschedulingEvent, ReplicasDescheduled
from schemas.events.endpoints import EndpointsCollected, EndpointsEvent, EndpointsReleased
from schemas.events.estimate import CapacityEstimated, EstimateEvent
from schemas.events.eviction import EvictionEvent, EvictionFinished, EvictionRequested
from schemas.events.lease import LeaseEvent, LeaseTaken
from schemas.events.observed import ObservedEvent, WorkObserved
from schemas.events.parked import KeyDropped, KeyParked, KeyRetried, ParkedEvent, UnparkedEvent
from schemas.events.placement import PlacementDecided, PlacementEvent, PlacementFailed, PlacementReleased
from schemas.events.policy import PolicyChanged, PolicyDeleted, PolicyEvent
from schemas.events.request import MemberRequested, RequestEvent
from schemas.events.restore import RestoreCompared, RestoreEvent, RestoreReleased, RestoreStarted
from schemas.events.rollup import RollupEvent, StatusRolledUp
from schemas.events.template import TemplateChanged, TemplateDeleted, TemplateEvent
from schemas.events.work import WorkEvent, WorkRendered, WorkWithdrawn
from schemas.subjects import (
    absence,
    autoscaling,
    cluster,
    confirmation,
    control_plane,
    endpoints,
    facet,
    lease,
    observed,
    parked,
    policy,
    requested,
    restore,
    unparked,
    work,
)
from schemas.upcasts import UPCASTS

Known = (
    TemplateEvent
    | PolicyEvent
    | ClusterEvent
    | BindingEvent
    | EstimateEvent
    | PlacementEvent
    | EvictionEvent
    | DeschedulingEvent
    | WorkEvent
    | ObservedEvent
    | RollupEvent
    | LeaseEvent
    | RestoreEvent
    | ParkedEvent
    | UnparkedEvent
    | IdentityEvent
    | AbsenceEvent
    | ConfirmationEvent
    | RequestEvent
    | AutoscalingEvent
    | EndpointsEvent
)

UNIONS: Final[Mapping[str, object]] = {
    "template": TemplateEvent,
    "policy": PolicyEvent,
    "cluster": ClusterEvent,
    "binding": BindingEvent,
    "estimate": EstimateEvent,
    "placement": PlacementEvent,
    "eviction": EvictionEvent,
    "descheduling": DeschedulingEvent,
    "work": WorkEvent,
    "observed": ObservedEvent,
    "rollup": RollupEvent,
    "lease": LeaseEvent,
    "restore": RestoreEvent,
    "parked": ParkedEvent,
    "unparked": UnparkedEvent,
    "identity": IdentityEvent,
    "absence": AbsenceEvent,
    "confirmation": ConfirmationEvent,
    "request": RequestEvent,
    "autoscaling": AutoscalingEvent,
    "endpoints": EndpointsEvent,
}


class DecodeError(ValueError):
    """Bytes on the log that this version cannot read; `unknown_tag` is set when a newer version wrote them."""

    def __init__(self, subject: str, why: str, unknown_tag: str = "") -> None:
        super().__init__(f"event on {subject}: {why}")
        self.subject = subject
        self.unknown_tag = unknown_tag


class _Tag(Struct):
    type: str = ""


_encoder = msgspec.json.Encoder()
_tag_decoder = msgspec.json.Decoder(_Tag)


@cache
def _decoder(aggregate: str) -> msgspec.json.Decoder[Known]:
    return msgspec.json.Decoder(UNIONS[aggregate])


@cache
def tags(aggregate: str) -> frozenset[str]:
    """Tags that this version reads on subjects of an aggregate."""
    union = UNIONS[aggregate]
    members: tuple[type[Event], ...] = get_args(union) or (union,)
    return frozenset(str(member.__struct_config__.tag) for member in members)


def encode(event: Event) -> bytes:
    """Bytes of an event as they stand on the log."""
    return _encoder.encode(event)


def decode(subject: str, data: bytes) -> Known:
    """The event behind bytes of a subject; raises DecodeError for unknown tags and malformed bytes."""
    aggregate = subject[: subject.find(".")]
    if aggregate not in UNIONS:
        raise DecodeError(subject, f"no event lives on {aggregate!r}")
    try:
        return _decoder(aggregate).decode(data)
    except msgspec.MsgspecError as error:
        return _decode_old(subject, aggregate, data, error)


def _decode_old(subject: str, aggregate: str, data: bytes, error: msgspec.MsgspecError) -> Known:
    try:
        tag = _tag_decoder.decode(data).type
    except msgspec.MsgspecError:
        raise DecodeError(subject, f"malformed: {error}") from error
    if tag in tags(aggregate):
        raise DecodeError(subject, f"{tag} is malformed: {error}") from error
    if tag not in UPCASTS:
        raise DecodeError(subject, f"unknown event {tag!r}; a newer version wrote it", unknown_tag=tag) from error
    fields = msgspec.json.decode(data, type=dict[str, object])
    while tag in UPCASTS:
        fields = UPCASTS[tag](fields)
        tag = str(fields["type"])
    try:
        return _decoder(aggregate).decode(_encoder.encode(fields))
    except msgspec.MsgspecError as late:
        raise DecodeError(subject, f"{tag} after upcasting: {late}") from late


def subject_of(event: Known) -> str:
    """Subject on which an event belongs; it is derived from the event alone."""
    match event:
        case TemplateChanged() | TemplateDeleted():
            return facet("template", event.key)
        case PolicyChanged() | PolicyDeleted():
            return policy(event.key)
        case ClusterChanged() | ClusterRemoved():
            return cluster(event.name)
        case BindingRequested() | BindingReleased():
            return facet("binding", event.key)
        case CapacityEstimated():
            return facet("estimate", event.key)
        case PlacementDecided() | PlacementFailed() | PlacementReleased():
            return facet("placement", event.key)
        case EvictionRequested() | EvictionFinished():
            return facet("eviction", event.key)
        case ReplicasDescheduled():
            return facet("descheduling", event.key)
        case WorkRendered() | WorkWithdrawn():
            return work(event.cluster, event.key)
        case WorkObserved():
            return observed(event.cluster, event.key)
        case StatusRolledUp():
            return facet("rollup", event.key)
        case LeaseTaken():
            return lease(event.service)
        case RestoreStarted() | RestoreReleased():
            return restore()
        case RestoreCompared():
            return restore(event.service)
        case KeyParked():
            return parked(event.service)
        case KeyRetried() | KeyDropped():
            return unparked(event.service, event.key)
        case ControlPlaneIdentified():
            return control_plane()
        case AbsenceHeld() | AbsenceReleased():
            return absence(event.scope)
        case AbsenceConfirmed():
            return confirmation(event.scope)
        case ReplicasRecommended() | AutoscalerReleased() | ScheduleAdvanced() | ScheduleReleased():
            return autoscaling(event.key)
        case EndpointsCollected() | EndpointsReleased():
            return endpoints(event.cluster, event.namespace, event.name)
        case MemberRequested():
            return requested(event.cluster, event.side)
        case _:
            assert_never(event)


__all__ = ["DecodeError", "Known", "decode", "encode", "subject_of", "tags"]
