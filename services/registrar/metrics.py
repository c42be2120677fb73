"""The catalogue of the registrar's metrics; the runtime's own are in services/_kit/base/metrics.py."""

from __future__ import annotations

from msgspec import Struct

from services._kit.base.metrics import ReadCollector
from services.registrar.state import RegistrarState


class DeskStats(Struct):
    """Counters over all agents."""

    hellos: int = 0
    consumers: int = 0
    blobs: int = 0
    blob_bytes: int = 0
    reports: int = 0
    rooms: int = 0
    refused: int = 0
    superseded: int = 0
    sessions_taken: int = 0
    dropped: int = 0
    records: int = 0
    failed: int = 0


def kept(state: RegistrarState) -> list[tuple[tuple[str, ...], float]]:
    """Bytes of the statuses that are kept, by cluster."""
    return [((cluster,), float(size)) for cluster, size in state.kept.items()]


def register(reads: ReadCollector, state: RegistrarState, stats: DeskStats) -> None:
    """Offer what agents asked for and what they got."""
    reads.gauge("agent_clusters", "Pull members", lambda: sum(m.mode == "Pull" for m in state.members.values()))
    reads.counter("agent_hellos", "Greetings of agents", lambda: stats.hellos)
    reads.counter("agent_consumers", "Consumers made for agents", lambda: stats.consumers)
    reads.counter("agent_blobs", "Manifests handed to agents", lambda: stats.blobs)
    reads.counter("agent_blob_bytes", "Bytes of those manifests", lambda: stats.blob_bytes)
    reads.counter("agent_reports", "Observations stored for agents", lambda: stats.reports)
    reads.counter("agent_rooms", "Questions about room that agents answered", lambda: stats.rooms)
    reads.counter("agent_refused", "What agents asked for and must not have", lambda: stats.refused)
    reads.counter("agent_superseded", "Reports that were not stored: a newer one waited", lambda: stats.superseded)
    reads.counter(
        "agent_sessions_taken",
        "Sessions that a greeting took from another agent: two act for one cluster, or one was restarted",
        lambda: stats.sessions_taken,
    )
    reads.table(
        "fleetlog_agent_status_bytes",
        "Bytes of the last statuses of a cluster",
        ("member_cluster",),
        lambda: kept(state),
    )
    reads.counter("agent_records", "Records of requests that agents sent", lambda: stats.records)
    reads.counter("agent_dropped", "Requests dropped because too many waited", lambda: stats.dropped)
    reads.counter("agent_failures", "Requests that could not be answered", lambda: stats.failed)
