"""Decides conditions of a cluster: readiness with its taints (docs/sources.md#clusters), and expiring credentials."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from msgspec import Struct

from schemas.agent import Expiry
from schemas.manifest import Manifest
from services._rules import constants as const
from services.cluster_monitor.state import Probe, ReadyMemory

NOT_READY_TAINT: Final = const.TAINT_CLUSTER_NOT_READY
UNREACHABLE_TAINT: Final = const.TAINT_CLUSTER_UNREACHABLE


class Observed(Struct, frozen=True):
    """A condition as one probe suggests it."""

    status: str
    reason: str
    message: str


EXPIRING: Final = "CredentialsExpiring"
ANSWERS: Final = "AnswersRequests"
"""Of pull clusters: whether people reach the member through its agent."""
WARNING_SECONDS: Final = 7 * 86_400.0
"""How long before their end credentials are reported, at most."""
WARNING_SHARE: Final = 0.1
"""The same as a share of their whole life, for those that live shortly."""
_VALID: Final = Observed("False", "CredentialsValid", "the credentials of the cluster do not expire soon")


def observe(probe: Probe) -> Observed:
    """The Ready condition of a single probe."""
    if probe.error:
        return Observed("False", "StatusCollectionFailed", f"failed to create a ClusterClient: {probe.error}")
    if not probe.online:
        why = f": {probe.cause}" if probe.cause else ""
        return Observed("False", "ClusterNotReachable", f"cluster is not reachable{why}")
    if not probe.healthy:
        return Observed("False", "ClusterNotReady", "cluster is reachable but health endpoint responded without ok")
    return Observed("True", "ClusterReady", "cluster is healthy and ready to accept workloads")


def find_condition(conditions: list[Manifest], kind: str) -> Manifest | None:
    """The condition of a type, if present."""
    return next((condition for condition in conditions if condition.get("type") == kind), None)


def remembered(memory: ReadyMemory, probe: Probe) -> ReadyMemory:
    """What is remembered once a probe was taken in: a window opens when it says something else than those before."""
    status = observe(probe).status
    return memory if memory.observed == status else ReadyMemory(status, probe.at)


def filter_ready(
    published: Manifest | None,
    probe: Probe,
    memory: ReadyMemory,
    *,
    success_seconds: float,
    failure_seconds: float,
) -> Observed:
    """The condition to publish, where `memory` has the probe taken in.

    A flip between True and not-True is published by the first probe after a window during which all others said the
    same; a cluster without the condition publishes at once. What was published counts as observed before, so that a
    restart opens a window instead of flipping clusters that start together with it.
    """
    observed = observe(probe)
    if published is None:
        return observed
    if (published.get("status") == "True") == (observed.status == "True"):
        return observed
    window = success_seconds if observed.status == "True" else failure_seconds
    if probe.at < memory.window_start + window:
        return Observed(
            str(published.get("status", "Unknown")), str(published.get("reason", "")), str(published.get("message", ""))
        )
    return observed


def condition(kind: str, wanted: Observed, previous: Manifest | None, now: str) -> Manifest:
    """The condition object; its transition time moves only with its status."""
    since = now
    if previous is not None and previous.get("status") == wanted.status:
        since = previous.get("lastTransitionTime", now)
    return {
        "type": kind,
        "status": wanted.status,
        "reason": wanted.reason,
        "message": wanted.message,
        "lastTransitionTime": since,
    }


def apis_condition(probe: Probe, count: int) -> Observed:
    """Whether the list of APIs proves that an API is missing."""
    if count == 0:
        return Observed("False", "Empty", "collected empty APIEnablements from the cluster")
    if not probe.apis_complete:
        return Observed("False", "Partial", f"might collect partial APIEnablements({count}) from the cluster")
    return Observed("True", "Complete", "collected complete APIEnablements from the cluster")


def taints_for(ready: str | None, taints: list[Manifest], now: str) -> list[Manifest]:
    """The taints of a cluster after its Ready status (None when absent) was taken into account."""
    add, remove = _TAINT_RULES[ready if ready in _TAINT_RULES else "Unknown"] if ready is not None else _ABSENT
    kept = [taint for taint in taints if not (taint.get("key") in remove and taint.get("effect") == "NoSchedule")]
    if add and not any(taint.get("key") == add and taint.get("effect") == "NoSchedule" for taint in kept):
        kept.append({"key": add, "effect": "NoSchedule", "timeAdded": now})
    return kept


def timed(taints: Sequence[Manifest], known: Sequence[Manifest], now: float) -> list[Manifest]:
    """The taints, each that evicts with the time it was added: where its writer left that open, when it was first seen.

    `known` are the taints of the last fact about the cluster. Karmada's own API server fills in the time; other
    servers of Clusters need not.
    """
    seen = {_identity(taint): taint["timeAdded"] for taint in known if taint.get("timeAdded")}
    return [
        {**taint, "timeAdded": seen.get(_identity(taint)) or rfc3339(now)}
        if taint.get("effect") == "NoExecute" and not taint.get("timeAdded")
        else taint
        for taint in taints
    ]


def _identity(taint: Manifest) -> tuple[str, str, str]:
    return taint.get("key") or "", taint.get("value") or "", taint.get("effect") or ""


_ABSENT: Final[tuple[str, frozenset[str]]] = (NOT_READY_TAINT, frozenset())
_TAINT_RULES: Final[dict[str, tuple[str, frozenset[str]]]] = {
    "True": ("", frozenset({NOT_READY_TAINT, UNREACHABLE_TAINT})),
    "False": (NOT_READY_TAINT, frozenset({UNREACHABLE_TAINT})),
    "Unknown": (UNREACHABLE_TAINT, frozenset({NOT_READY_TAINT})),
}


def warns_at(expiry: Expiry) -> float:
    """From when on the end of credentials is reported; seconds since 1970."""
    life = expiry.at - expiry.since if 0 < expiry.since < expiry.at else WARNING_SECONDS / WARNING_SHARE
    return expiry.at - min(WARNING_SECONDS, life * WARNING_SHARE)


def with_expiry(conditions: list[Manifest], expiry: Expiry | None, at: float) -> list[Manifest]:
    """The conditions of a cluster, with one about its credentials once these expire soon."""
    previous = find_condition(conditions, EXPIRING)
    if expiry is not None and at >= warns_at(expiry):
        end = rfc3339(expiry.at)
        if at < expiry.at:
            wanted = Observed("True", "ExpiresSoon", f"{expiry.what} expires at {end}; renew it before")
        else:
            wanted = Observed("True", "Expired", f"{expiry.what} expired at {end}; renew it")
    elif previous is not None:
        wanted = _VALID
    else:
        return conditions
    return with_condition(conditions, condition(EXPIRING, wanted, previous, rfc3339(at)))


def with_answers(conditions: list[Manifest], answers: str | None, at: float) -> list[Manifest]:
    """The conditions of a pull cluster, with one that says which requests of people its agent answers."""
    if answers is None:
        return conditions
    if answers:
        wanted = Observed("True", "Permitted", f"the agent answers requests of people: {answers}")
    else:
        why = "FLEETLOG_AGENT_REQUESTS is not set in the member"
        wanted = Observed("False", "NotPermitted", f"the agent answers no requests of people: {why}")
    return with_condition(conditions, condition(ANSWERS, wanted, find_condition(conditions, ANSWERS), rfc3339(at)))


def with_condition(conditions: list[Manifest], fresh: Manifest) -> list[Manifest]:
    """Conditions with one of them in its present state, in its place or at the end."""
    if find_condition(conditions, fresh["type"]) is None:
        return [*conditions, fresh]
    return [fresh if entry.get("type") == fresh["type"] else entry for entry in conditions]


def rfc3339(seconds: float) -> str:
    """A time in seconds since 1970 as Kubernetes writes it."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
