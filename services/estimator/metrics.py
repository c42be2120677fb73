"""The catalogue of the estimator's metrics; the runtime's own are in services/_kit/base/metrics.py."""

from __future__ import annotations

from services._kit.base.metrics import ReadCollector
from services.estimator.remote import MemberAnswers
from services.estimator.state import EstimatorState


def register(reads: ReadCollector, state: EstimatorState, known: MemberAnswers) -> None:
    """Offer what is watched and what waits for an answer."""

    def size(part: int) -> int:
        return sum(answers.picture.rooms.size[part] for answers in known.nodes.values())

    reads.gauge("estimator_members", "Members whose nodes are watched", lambda: len(known.nodes))
    reads.gauge(
        "estimator_members_known",
        "Members whose nodes and pods are all known",
        lambda: sum(answers.picture.complete for answers in known.nodes.values()),
    )
    reads.gauge("estimator_nodes", "Nodes in the views of members", lambda: size(0))
    reads.gauge("estimator_pods", "Pods in the views of members", lambda: size(1))
    reads.gauge("estimator_agents", "Pull members whose agents are asked", lambda: len(known.agents))
    reads.gauge("estimator_agents_silent", "Of these, who did not answer", lambda: _silent(known))
    reads.gauge("estimator_unanswered", "Objects whose estimate is due", lambda: len(list(state.due())))
    reads.gauge("estimator_unplaced", "Objects that are estimated again when room changes", lambda: len(state.unplaced))


def _silent(known: MemberAnswers) -> int:
    return sum(remote.silent for remote in known.agents.values())
