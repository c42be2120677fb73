"""Decides what an agent gets: a consumer and where it starts, which manifests, and which of its reports are stored."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import UNSET, Struct
from msgspec.structs import replace

from schemas.agent import Hello
from schemas.envelope import Provenance
from schemas.events.observed import WorkObserved
from schemas.subjects import escape, observed
from services._rules.accounts import agent_consumer
from services._rules.drift import bounded
from services._rules.interpreter.configured import FILTERS
from services.registrar.state import RegistrarState

NANOSECOND: Final = 1_000_000_000
KEPT_WITHOUT_AGENT: Final = 3600.0
"""Seconds after which the server forgets the consumer of an agent that does not ask any more."""
_HEALTHS: Final = frozenset({"Healthy", "Unhealthy", "Unknown"})
_OPERATIONS: Final = frozenset({"", "created", "updated", "kept", "deleted"})
_LONGEST: Final = {"uid": 128, "digest": 128, "reason": 256, "message": 32_768, "member_uid": 128}
_LARGEST_STATUS: Final = 1 << 20


class Welcome(Struct, frozen=True):
    """The agent may read from `start` on; 0: the last fact of every work first."""

    start: int


class Turned(Struct, frozen=True):
    """The agent has to wait for somebody; the reason says for whom."""

    problem: str


def welcome(state: RegistrarState, cluster: str, hello: Hello, log: str, last: int) -> Welcome | Turned:
    """Whether an agent may read, and from where; `log` and `last` are the log's identity and its last position."""
    member = state.members.get(cluster)
    if member is None:
        return Turned(f"there is no cluster {cluster} in the control plane; register it with syncMode Pull")
    if member.mode != "Pull":
        return Turned(f"cluster {cluster} has syncMode {member.mode or 'unset'}; only pull members have an agent")
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


def examine(state: RegistrarState, cluster: str, event: WorkObserved, position: int, now: float) -> WorkObserved | str:
    """A report as it is stored, or why it never will be.

    An agent speaks only of its own cluster and of objects that were given to it, in bounded words.
    """
    if event.cluster != cluster:
        return f"a report on cluster {event.cluster} from the agent of {cluster}"
    works = state.works.get(cluster)
    if works is None or event.key not in works.digests:
        return f"{cluster} was given no work of {event.key}"
    if event.work_seq > position:
        return f"work position {event.work_seq} is ahead of the log"
    if event.health not in _HEALTHS or event.operation not in _OPERATIONS:
        return f"unknown health {event.health[:32]!r} or operation {event.operation[:32]!r}"
    for name, longest in _LONGEST.items():
        if len(getattr(event, name)) > longest:
            return f"{name} is longer than {longest} characters"
    if event.status is not UNSET:
        if len(bytes(event.status)) > _LARGEST_STATUS:
            return f"a status larger than {_LARGEST_STATUS} bytes"
        try:
            msgspec.json.decode(event.status, type=dict[str, Any])
        except (msgspec.MsgspecError, RecursionError):
            return "the status is no JSON object"
    return replace(event, at=min(event.at, now), drift=bounded(event.drift), prev=0, provenance=Provenance())


def is_stored(state: RegistrarState, event: WorkObserved) -> bool:
    """Whether this very report is the last on its object: the agent asks again when an answer was lost."""
    last = state.observed.get(observed(event.cluster, event.key))
    return last is not None and last[1] == event.at
