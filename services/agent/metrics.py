"""The catalogue of the agent's metrics."""

from __future__ import annotations

from services._kit.base.metrics import ReadCollector
from services.agent.agent_session import AgentSession


def register(reads: ReadCollector, term: AgentSession) -> None:
    """Offer what the agent reads, delivers and reports."""
    cluster, lane, works = term.state.cluster, term.lane, "Works read from the hub"
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
    reads.gauge("lane_backlog", "Objects not yet in line", lambda: lane.backlog, cluster=cluster)
    reads.gauge("lane_up", "1 while the cluster answers", lambda: not lane.trouble, cluster=cluster)
    stats, writes = lane.stats, "Writes to the member by what they did"
    reads.counter("lane_writes", writes, lambda: stats.created, cluster=cluster, operation="create")
    reads.counter("lane_writes", "", lambda: stats.updated, cluster=cluster, operation="update")
    reads.counter("lane_writes", "", lambda: stats.deleted, cluster=cluster, operation="delete")
    repairs = "Objects put back that had been changed or deleted in the member"
    reads.counter("lane_repairs", repairs, lambda: stats.repaired, cluster=cluster)
    window = lane.pace.window
    reads.gauge("lane_requests_limit", "Requests sent at once at most", lambda: int(window.limit), cluster=cluster)
    reads.counter("lane_failures", "Deliveries that were refused", lambda: stats.failed, cluster=cluster)
