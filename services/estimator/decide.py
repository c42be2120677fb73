"""Decides the estimate of one object: whether one is due, and what each candidate's nodes have room for."""

from __future__ import annotations

from typing import Final

import msgspec

from schemas.events.estimate import CapacityEstimated, ClusterEstimate
from schemas.keys import ObjectKey
from schemas.manifest import Manifest
from services._rules.capacity.replica_estimate import NO_OPINION, Requirements, requirements_of
from services._rules.decision import Decision
from services._rules.effective import spec_with_targets
from services._rules.kubernetes.quantity import QuantityError
from services._rules.scheduling.decoding import binding_view
from services._rules.scheduling.estimate_requests import candidates
from services.estimator.remote import FRESH_SECONDS, MemberAnswers
from services.estimator.state import Asked, EstimatorState

NODES: Final = "nodes"
AGENT: Final = "agent"


class EstimateDecision(Decision, frozen=True):
    """The estimate to append, or until when it waits for a member that is still being listed or queried.

    The agents of the members in `asking` are to be asked about what is `wanted` (`ask`).
    """

    asking: tuple[str, ...] = ()
    wanted: Requirements | None = None


_NOTHING: Final = EstimateDecision()


def ask(members: MemberAnswers, key: ObjectKey, decision: EstimateDecision, now: float) -> None:
    """Take in that the agents of members are asked for an object, as was decided."""
    for name in decision.asking:
        if decision.wanted is not None:
            members.agents[name].want(decision.wanted, key, now)


def decide(
    state: EstimatorState, members: MemberAnswers, key: ObjectKey, now: float, patience: float = 2.0
) -> EstimateDecision:
    """The estimate that should become the latest of an object, and whom to ask for it.

    The estimate waits `patience` seconds for an agent. An unschedulable object is estimated again while it asks.
    """
    asked = state.objects.get(key)
    if asked is None or asked.spec is None:
        return _NOTHING
    due = state.is_due(asked)
    if not due and not asked.unplaced:
        return _NOTHING
    asking: tuple[str, ...] = ()
    wanted: Requirements | None = None
    failed = False
    try:
        names = _candidates(state, asked, asked.spec)
        wanted = requirements_of(asked.spec)
        if due and (waiting := [members.opening[name] for name in names if members.opening.get(name, 0.0) > now]):
            return EstimateDecision(wake_at=max(waiting))
        asking = _to_ask(state, members, asked, wanted, names, due, now)
        if any(not members.agents[name].silent for name in asking):
            return EstimateDecision(wake_at=now + patience, asking=asking, wanted=wanted)
        found = tuple(_answer(state, members, name, wanted, now) for name in names)
    except (msgspec.ValidationError, QuantityError, ValueError):
        # The scheduler reports what is wrong with the binding; it need not wait for an estimate.
        failed, found = True, ()
    if not due and not _is_news(asked, found):
        again = now + FRESH_SECONDS if any(item.cluster in members.agents for item in found) else None
        return EstimateDecision(wake_at=again, asking=asking, wanted=wanted)
    event = CapacityEstimated(
        key=key,
        uid=asked.uid,
        requirements_digest=wanted.digest if wanted is not None and not failed else "",
        estimates=found,
        provenance=asked.seen("binding", "eviction"),
    )
    return EstimateDecision((event,), asking=asking, wanted=wanted)


def _candidates(state: EstimatorState, asked: Asked, spec: Manifest) -> list[str]:
    spec = spec_with_targets(spec, asked.targets, asked.tasks)
    return candidates(state.clusters, binding_view(spec))


def _to_ask(
    state: EstimatorState,
    members: MemberAnswers,
    asked: Asked,
    wanted: Requirements,
    names: list[str],
    due: bool,
    now: float,
) -> tuple[str, ...]:
    """Members whose agents have not answered this and may be asked now.

    An answer has to be from after the question, or after the placement that failed; then it is used for some seconds.
    """
    position, since = asked.position(state.leaving), 0.0
    if not due:
        position, since = max(position, asked.placement_seq), now - FRESH_SECONDS
    return tuple(
        name
        for name in names
        if (remote := members.agents.get(name)) is not None
        and remote.answer(wanted, position, since) is None
        and remote.may_ask(now)
    )


def _answer(
    state: EstimatorState, members: MemberAnswers, name: str, wanted: Requirements, now: float
) -> ClusterEstimate:
    answers = members.nodes.get(name)
    if answers is not None:
        count = answers.replicas(wanted, state.ledger.taken(name), state.ledger.version(name))
        return ClusterEstimate(name, count, NODES, at=now) if count != NO_OPINION else ClusterEstimate(name)
    remote = members.agents.get(name)
    known = remote.known.get(wanted.digest) if remote is not None and not remote.silent else None
    if known is None or known.replicas == NO_OPINION:
        return ClusterEstimate(name)
    return ClusterEstimate(name, known.replicas, AGENT, known.position, known.at)


def _is_news(asked: Asked, found: tuple[ClusterEstimate, ...]) -> bool:
    """Whether what was not placed may be placed now, or fits even less: some cluster's answer differs for it.

    Room beyond what the object asks for, and members that fell silent, make no difference. A placement from after the
    latest estimate counted less than that: what differs from what it counted is news, too.
    """
    most = int((asked.spec or {}).get("replicas") or 1)
    if asked.estimate is None:
        return _differs(found, {}, most)
    before = {item.cluster: item.replicas for item in asked.estimate.estimates}
    if _differs(found, before, most):
        return True
    if asked.placed is None or asked.estimate.provenance.as_of >= asked.placement_seq:
        return False
    return _differs(found, {**before, **{item.cluster: item.replicas for item in asked.placed.estimates}}, most)


def _differs(found: tuple[ClusterEstimate, ...], before: dict[str, int], most: int) -> bool:
    return any(
        item.replicas != NO_OPINION and min(item.replicas, most) != min(before.get(item.cluster, NO_OPINION), most)
        for item in found
    )
