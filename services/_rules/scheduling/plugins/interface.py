"""The interface of scheduler plugins: filters, scores, and their results (docs/sources.md#scheduler-plugins).

A plugin is an object with at least one of `filter` and `score`; `filter_with_context` and `normalize` go beyond them.
It has to be quick and to answer the same for the same arguments: its answers are asked for again to explain a decision.
"""

from __future__ import annotations

from typing import Literal, Protocol, TypeAlias, runtime_checkable

from msgspec import Struct

from services._rules.scheduling.scheduling_views import BindingView, ClusterView, Peers, Status

Code: TypeAlias = Literal["Success", "Unschedulable", "Error"]


class Result(Struct, frozen=True):
    """The result of a plugin; None stands for success.

    A filter's code other than Success leaves the cluster out for these reasons. A score's ends the attempt.
    """

    code: Code = "Success"
    reasons: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The reasons in one line."""
        return ", ".join(self.reasons) or f"{self.code} without a reason"


class FilterContext(Struct, frozen=True, eq=False):
    """All that a filter can know: the binding, what earlier attempts left behind, the cluster, and the peers.

    `peers` are the clusters of workloads of the same affinity groups, with decisions that are still being written;
    None where the binding has no groups or the gate WorkloadAffinity is off.
    """

    binding: BindingView
    status: Status
    cluster: ClusterView
    peers: Peers | None = None


@runtime_checkable
class FilterPlugin(Protocol):
    """Decides whether a cluster may run a binding."""

    def filter(self, binding: BindingView, status: Status, cluster: ClusterView) -> Result | None:
        """Any answer but success leaves the cluster out."""
        ...


@runtime_checkable
class ContextFilterPlugin(FilterPlugin, Protocol):
    """A filter that reads the peers, too; it is called by this method alone."""

    def filter_with_context(self, context: FilterContext) -> Result | None:
        """As `filter`, with the full context."""
        ...


@runtime_checkable
class ScorePlugin(Protocol):
    """Scores how well a cluster suits; scores of all plugins are added up."""

    def score(self, binding: BindingView, cluster: ClusterView) -> int | tuple[int, Result | None]:
        """A whole number, 0 to 100 by custom (a cluster that runs the binding has 100 besides)."""
        ...


@runtime_checkable
class NormalizingPlugin(ScorePlugin, Protocol):
    """A score that depends on the scores of the other clusters."""

    def normalize(self, scores: dict[str, int]) -> Result | None:
        """Change the scores by cluster in place."""
        ...


Plugin: TypeAlias = FilterPlugin | ScorePlugin
