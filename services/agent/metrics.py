"""The catalogue of the agent's metrics."""

from __future__ import annotations

from services._kit.base.metrics import ReadCollector
from services._kit.delivery.lane_metrics import register_lane
from services.agent.agent_session import AgentSession


def register(reads: ReadCollector, term: AgentSession) -> None:
    """Offer what the agent reads, delivers and reports."""
    works = "Works read from the hub"
    follow, manifests, publisher = term.follower.stats, term.manifests, term.publisher
    reads.gauge("agent_position", "Position up to which works were read", lambda: term.state.position)
    reads.gauge("agent_objects", "Works known", lambda: len(term.state.works.works))
    reads.gauge("agent_reading", "1 while works come from the hub", lambda: term.follower.reading)
    reads.counter("agent_works", works, lambda: follow.works)
    reads.counter("agent_consumers", "Consumers asked for", lambda: follow.consumers)
    reads.counter("agent_gaps", "Gaps in what the hub sent", lambda: follow.gaps)
    reads.counter("agent_hellos", "Greetings", lambda: term.greeter.hellos)
    reads.counter("agent_manifests", "Manifests fetched", lambda: manifests.fetched)
    reads.counter("agent_reports", "Observations the hub took", lambda: publisher.sent)
    reads.counter("agent_reports_refused", "Observations the hub refused", lambda: publisher.refused)
    reads.gauge("agent_reports_waiting", "Observations not yet sent", lambda: term.reports.backlog)
    register_lane(reads, term.lane)
