"""Decides an agent's requests: where its consumer starts, which manifests it gets, and which reports are stored."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from schemas.agent import Hello
from schemas.envelope import Provenance
from schemas.events.observed import WorkObserved
from schemas.subjects import escape, observed
from services._rules.delivery.drift import bounded
from services._rules.delivery.plausibility import LARGEST_STATUS, misreported
from services._rules.endpoints.reported_slices import refused as implausible
from services._rules.endpoints.reported_slices import reports_endpoints
from services._rules.identity.accounts import agent_consumer
from services._rules.interpreter.configuration import FILTERS
from services.registrar.state import RegistrarState

NANOSECOND: Final = 1_000_000_000
KEPT_WITHOUT_AGENT: Final = 3600.0
"""Seconds after which the server forgets the consumer of an agent that does not ask any more."""
_HEALTHS: Final = frozenset({"Healthy", "Unhealthy", "Unknown"})
_OPERATIONS: Final = frozenset({"", "created", "updated", "kept", "deleted"})
_LONGEST: Final = {"uid": 128, "digest": 128, "reason": 256, "message": 32_768, "member_uid": 128}
KEPT_BYTES: Final = 64 << 20
"""Bytes that the statuses of one cluster's objects may have together."""


class Welcome(Struct, frozen=True):
    """The agent may read from `start` on; 0: the last fact of every work first."""

    start: int


HELD: Final = "the log was restored and is being compared with the control plane; works come when that is done"


class Turned(Struct, frozen=True):
    """The agent is not served for now; `problem` is the reason."""

    problem: str


def welcome(
    state: RegistrarState, cluster: str, hello: Hello, log: str, last: int, *, held: bool = False
) -> Welcome | Turned:
    """Whether an agent may read, and from where; `log` and `last` are the log's identity and its last position.

    While a restore `held` delivery back, an agent gets no works; it keeps what it was given before.
    """
    member = state.members.get(cluster)
    if member is None:
        return Turned(f"there is no cluster {cluster} in the control plane; register it with syncMode Pull")
    if member.mode != "Pull":
        return Turned(f"cluster {cluster} has syncMode {member.mode or 'unset'}; only pull members have an agent")
    if held and hello.fresh:
        return Turned(HELD)
    seen = hello.sample.identity if hello.sample is not None else ""
    if seen and member.identity and seen != member.identity:
        return Turned(
            f"this cluster is not the member {cluster}: the uid of its namespace kube-system is {seen[:64]}, that of "
            f"the member is {member.identity}; join this one under another name, or accept it in the place of "
            f"{cluster} with `fleetlog confirm-absence member/{cluster}`"
        )
    continues = hello.log == log and hello.uid == member.uid and 0 < hello.after <= last
    return Welcome(hello.after + 1 if continues else 0)


def consumer_config(cluster: str, start: int) -> dict[str, Any]:
    """The one consumer of an agent, without acknowledgements and in the server's memory.

    It holds the works of its cluster, and what users configured about the interpretation of objects: that is for all.
    """
    config: dict[str, Any] = {
        "durable_name": agent_consumer(cluster),
        "description": "made by the registrar for the agent of this cluster",
        "filter_subjects": [f"work.{escape(cluster)}.>", *FILTERS],
        "ack_policy": "none",
        "replay_policy": "instant",
        "deliver_policy": "by_start_sequence" if start else "last_per_subject",
        "max_waiting": 16,
        "mem_storage": True,
        "num_replicas": 1,
        "inactive_threshold": int(KEPT_WITHOUT_AGENT * NANOSECOND),
    }
    if start:
        config["opt_start_seq"] = start
    return config


def may_have(state: RegistrarState, cluster: str, digest: str) -> bool:
    """Whether a current work of the cluster names this digest."""
    works = state.works.get(cluster)
    return works is not None and digest in works.named


def examine(
    state: RegistrarState, cluster: str, event: WorkObserved, position: int, now: float, most: int = KEPT_BYTES
) -> WorkObserved | str:
    """A report as it is stored, or why it never will be.

    An agent reports only on its own cluster and on objects with a work there, in bounded size. Of statuses of more than
    `most` bytes together the one that is too much is left out, which the report states. The status aggregator checks
    the numbers, because it can record a problem on the object.
    """
    if event.cluster != cluster:
        return f"a report on cluster {event.cluster[:64]!r} from the agent of {cluster}"
    works = state.works.get(cluster)
    asked = works.asked(event.key) if works is not None else None
    if asked is None:
        return f"{cluster} was given no work of {event.key}"
    problem = misreported(event, asked, position)
    if problem:
        return problem
    if event.health not in _HEALTHS or event.operation not in _OPERATIONS:
        return f"unknown health {event.health[:32]!r} or operation {event.operation[:32]!r}"
    for name, longest in _LONGEST.items():
        if len(getattr(event, name)) > longest:
            return f"{name} is longer than {longest} characters"
    if event.status is not UNSET:
        size = len(bytes(event.status))
        if size > LARGEST_STATUS:
            return f"a status larger than {LARGEST_STATUS} bytes"
        try:
            msgspec.json.decode(event.status, type=dict[str, Any])
        except (msgspec.MsgspecError, RecursionError):
            return "the status is no JSON object"
        if state.kept.get(cluster, 0) - state.sizes.get(observed(cluster, event.key), 0) + size > most:
            why = f"status: has {size} bytes, and the statuses of cluster {cluster} may have {most} together"
            event = replace(event, status=UNSET, health="Unknown", message=why)
    if not isinstance(event.endpoints, UnsetType):
        if not reports_endpoints(event.key):
            return "endpoints of an object that exports none"
        if problem := implausible(event.endpoints):
            return problem
    return replace(event, at=min(event.at, now), drift=bounded(event.drift), prev=0, provenance=Provenance())


def is_stored(state: RegistrarState, event: WorkObserved) -> bool:
    """Whether this very report is the last on its object: the agent asks again when an answer was lost."""
    last = state.observed.get(observed(event.cluster, event.key))
    return last is not None and last[1] == event.at
