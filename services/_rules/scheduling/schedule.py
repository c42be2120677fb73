"""One scheduling run: filter, rank, select, assign (docs/sources.md#scheduling), and the walk through groups."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct

from services._rules.capacity.general_estimate import Assumed
from services._rules.scheduling.assignment import assign
from services._rules.scheduling.candidates import Estimator, rank
from services._rules.scheduling.division.weights import TargetCluster
from services._rules.scheduling.filters import filter_table, fit_error
from services._rules.scheduling.index import ClusterIndex
from services._rules.scheduling.regions.selection import select
from services._rules.scheduling.reschedule_triggers import reschedule_due
from services._rules.scheduling.scheduling_views import (
    BindingView,
    Decision,
    Estimate,
    Failure,
    Peers,
    SchedulingOptions,
    Status,
)

Stepped: TypeAlias = Callable[[str], None]

_DEFAULTS = SchedulingOptions()
_NOTHING_YET = Status()


def _untimed(step: str) -> None:
    """The default for `stepped`: step durations are not measured."""
    del step


def schedule(
    index: ClusterIndex,
    binding: BindingView,
    status: Status = _NOTHING_YET,
    estimates: Sequence[Estimate] = (),
    options: SchedulingOptions = _DEFAULTS,
    peers: Peers | None = None,
    assumed: Mapping[str, Sequence[Assumed]] | None = None,
    stepped: Stepped | None = None,
) -> Decision:
    """Decide where a binding runs, with the affinity term that `status` names in force.

    `estimates` are the complete answers of the accurate estimators (an estimator that failed is left out), `assumed`
    the workloads in flight by cluster. `stepped` is called with the name of each completed step, first of all "".
    The outcome is always a Decision; what stood in the way is in its error.
    """
    if stepped is None:
        stepped = _untimed
    stepped("")
    estimator = Estimator(binding, options, estimates, assumed)
    try:
        filter_table(index, binding, status.observed_affinity, options.plugins)
        stepped("Filter")
        table, ranked = rank(index, estimator, status, peers)
        stepped("Score")
        if not ranked:
            raise fit_error(index, binding, status, peers, options.plugins)
    except Failure as failure:
        return Decision((), failure.kind, failure.message)
    try:
        selected = select(ranked, binding, estimator.counts_sets)
    except Failure as failure:
        return Decision((), failure.kind, f"failed to select clusters: {failure.message}")
    finally:
        stepped("Select")
    fresh = binding.reschedule_triggered_at is not None and reschedule_due(binding, status)
    try:
        targets = assign(index, selected, binding, fresh, table.tiers.overflow)
    except Failure as failure:
        return Decision((), failure.kind, f"failed to assign replicas: {failure.message}")
    finally:
        stepped("AssignReplicas")
    if options.empty_workload_propagation and binding.workload:
        placed = {item.name for item in targets}
        targets += [TargetCluster(item.name) for item in selected if item.name not in placed]
    return Decision(tuple(targets))


class GroupAttempt(Struct, frozen=True):
    """Outcome of a walk through affinity groups."""

    decision: Decision
    # Term in force afterwards; unchanged when every group failed.
    observed_affinity: str
    # (index, term, failed decision) of every group that was tried in vain, in order.
    failures: tuple[tuple[int, str, Decision], ...] = ()


def schedule_groups(
    index: ClusterIndex,
    binding: BindingView,
    status: Status = _NOTHING_YET,
    estimates: Sequence[Estimate] = (),
    options: SchedulingOptions = _DEFAULTS,
    peers: Peers | None = None,
    assumed: Mapping[str, Sequence[Assumed]] | None = None,
    stepped: Stepped | None = None,
) -> GroupAttempt:
    """Try the affinity groups from the observed one on until one works; without groups it is a single run.

    When all fail, the decision is that of the first group tried: a FitError clears the targets, anything else keeps
    them.
    """
    names = binding.placement.affinity_names
    if not names:
        decision = schedule(index, binding, status, estimates, options, peers, assumed, stepped)
        return GroupAttempt(decision, status.observed_affinity)
    start = names.index(status.observed_affinity) if status.observed_affinity in names else 0
    failures: list[tuple[int, str, Decision]] = []
    for position in range(start, len(names)):
        term = Status(names[position], status.last_scheduled_time, status.unanswered)
        decision = schedule(index, binding, term, estimates, options, peers, assumed, stepped)
        if decision.error is None:
            return GroupAttempt(decision, names[position], tuple(failures))
        failures.append((position, names[position], decision))
    return GroupAttempt(failures[0][2], status.observed_affinity, tuple(failures))
