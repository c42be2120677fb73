"""Explains a decision: for every cluster the filter that refused it, or its rank and its replicas."""

from collections.abc import Mapping, Sequence
from operator import attrgetter

from msgspec import Struct

from schemas.explained import ExplainedCluster, ExplainedRegion, ExplainedStep
from services._rules.capacity.general_estimate import Assumed
from services._rules.scheduling.assignment import Plan, plans
from services._rules.scheduling.candidates import Estimator, rank
from services._rules.scheduling.compiled_placement import SpreadConstraint
from services._rules.scheduling.filters import diagnosis
from services._rules.scheduling.index import ClusterIndex
from services._rules.scheduling.plugins.execution import outside_scores
from services._rules.scheduling.regions.scoring import by_region, weighed
from services._rules.scheduling.regions.selection import select
from services._rules.scheduling.reschedule_triggers import reschedule_due
from services._rules.scheduling.schedule import schedule
from services._rules.scheduling.scheduling_views import (
    BindingView,
    Candidate,
    Decision,
    Estimate,
    Failure,
    Peers,
    SchedulingOptions,
    Status,
)

_DEFAULTS = SchedulingOptions()
_NOTHING_YET = Status()
_NAME = attrgetter("name")


class Explanation(Struct, frozen=True, omit_defaults=True):
    """A decision with its reasons."""

    decision: Decision
    strategy: str
    # Those that passed the filters, by rank; `available` and `room` are not bounded, nothing is said of estimators.
    clusters: tuple[ExplainedCluster, ...]
    # Filter and reason by the name of each cluster that was refused.
    refused: Mapping[str, tuple[str, str]] = {}
    steps: tuple[ExplainedStep, ...] = ()
    observed_affinity: str = ""
    # Clusters that are being deleted and were not evaluated.
    ignored: tuple[str, ...] = ()
    # Empty where no constraint speaks of regions, or static weights override it.
    regions: tuple[ExplainedRegion, ...] = ()


def explain(
    index: ClusterIndex,
    binding: BindingView,
    status: Status = _NOTHING_YET,
    estimates: Sequence[Estimate] = (),
    options: SchedulingOptions = _DEFAULTS,
    peers: Peers | None = None,
    assumed: Mapping[str, Sequence[Assumed]] | None = None,
    decision: Decision | None = None,
) -> Explanation:
    """Explain what `schedule` decides for the same arguments; `decision` is that, where it is known already."""
    if decision is None:
        decision = schedule(index, binding, status, estimates, options, peers, assumed)
    observed = status.observed_affinity
    estimator = Estimator(binding, options, estimates, assumed)
    refused: Mapping[str, tuple[str, tuple[str, ...]]] = {}
    ranked: Sequence[Candidate] = ()
    scores: Mapping[str, Mapping[str, int]] = {}
    selected: Sequence[Candidate] = ()
    steps: Sequence[Plan] = ()
    try:
        refused = diagnosis(index, binding, status, peers, options.plugins)
        table, ranked = rank(index, estimator, status, peers)
        if options.plugins.outside:
            # In the order in which the decision asked: an answer may depend on it.
            scores = outside_scores(options.plugins, binding, sorted((i.cluster for i in ranked), key=_NAME))
        selected = select(ranked, binding, estimator.counts_sets) if ranked else ()
        fresh = reschedule_due(binding, status)
        steps = plans(index, selected, binding, fresh, table.tiers.overflow) if selected else ()
    except Failure:
        # The decision carries it; what was worked out before it is still worth showing.
        pass
    return Explanation(
        decision=decision,
        strategy=binding.placement.strategy,
        clusters=_ranked(ranked, selected, steps, binding, decision, scores),
        refused={name: (which, ", ".join(reasons)) for name, (which, reasons) in sorted(refused.items())},
        steps=tuple(_step(plan) for plan in steps),
        observed_affinity=observed,
        ignored=tuple(item.name for item in index.clusters if item.deleting),
        regions=_regions(ranked, selected, binding),
    )


def _regions(
    ranked: Sequence[Candidate], selected: Sequence[Candidate], binding: BindingView
) -> tuple[ExplainedRegion, ...]:
    placement = binding.placement
    region = placement.constraints.get("region")
    if region is None or placement.static_weighting:
        return ()
    chosen = {item.cluster.region for item in selected}
    groups = weighed(by_region(ranked), binding, region, placement.constraints.get("cluster") or SpreadConstraint())
    groups.sort(key=lambda group: (group.name not in chosen, -group.weight, group.name))
    return tuple(ExplainedRegion(group.name, group.value, group.weight, group.name in chosen) for group in groups)


def _ranked(
    items: Sequence[Candidate],
    selected: Sequence[Candidate],
    steps: Sequence[Plan],
    binding: BindingView,
    decision: Decision,
    scores: Mapping[str, Mapping[str, int]],
) -> tuple[ExplainedCluster, ...]:
    chosen = {item.name for item in selected}
    running = {item.name: item.replicas for item in binding.clusters}
    granted = {item.name: item.replicas for item in decision.clusters}
    weights: dict[str, int] = {}
    shares: dict[str, float] = {}
    kept = {item.name: item.replicas for plan in steps for item in plan.base}
    for plan in steps:
        total = sum(weight for _, weight in plan.weights)
        for name, weight in plan.weights:
            weights[name] = weight
            shares[name] = plan.demand * weight / total if total else 0.0
    return tuple(
        ExplainedCluster(
            name=item.name,
            rank=position,
            region=item.cluster.region,
            tier=item.tier,
            score=item.score,
            available=item.alloc,
            room=item.avail,
            selected=item.name in chosen,
            running=running.get(item.name, 0),
            kept=kept.get(item.name, 0),
            weight=weights.get(item.name, 0),
            share=round(shares.get(item.name, 0.0), 3),
            replicas=granted.get(item.name, 0),
            plugins={name: found[item.name] for name, found in scores.items()},
        )
        for position, item in enumerate(items, 1)
    )


def _step(plan: Plan) -> ExplainedStep:
    return ExplainedStep(
        mode=plan.mode,
        demand=plan.demand,
        kept=sum(item.replicas for item in plan.base),
        weights=sum(weight for _, weight in plan.weights),
    )
