"""The catalogue of the janitor's metrics; the runtime's own are in services/_kit/base/metrics.py."""

from __future__ import annotations

from msgspec import Struct, field

from services._kit.base.metrics import ReadCollector
from services.janitor.blob_gc import BlobStats
from services.janitor.fill import StreamWatch
from services.janitor.state import JanitorState


class JanitorStats(Struct):
    """Counters since the start."""

    ended: int = 0
    purged: int = 0
    trimmed: int = 0
    failures: int = 0
    blobs: BlobStats = field(default_factory=BlobStats)


def register_fill(reads: ReadCollector, watch: StreamWatch) -> None:
    """Offer how full the streams of the log are."""
    stream = ("stream",)
    reads.table("fleetlog_stream_bytes", "Bytes that a stream of the log holds", stream, watch.sizes)
    reads.table("fleetlog_stream_limit_bytes", "Bytes that a stream may hold, -1: unbounded", stream, watch.limits)
    reads.table("fleetlog_stream_fill_ratio", "Share of its bytes that a stream holds", stream, watch.ratios)
    reads.table("fleetlog_stream_alarm", "1 while a stream is so full that it needs room", stream, watch.raised)


def register(reads: ReadCollector, state: JanitorState, stats: JanitorStats) -> None:
    """Offer what is on the log and what left it."""
    reads.gauge("janitor_objects", "Objects that the log holds something of", lambda: len(state.objects))
    reads.gauge("janitor_history_position", "Last position seen in stream HISTORY", lambda: state.held)
    reads.counter("janitor_ended", "Objects, policies and clusters removed from the log", lambda: stats.ended)
    reads.counter("janitor_purged", "Messages of what ended", lambda: stats.purged)
    reads.counter("janitor_trimmed", "Old messages of busy subjects", lambda: stats.trimmed)
    reads.counter("janitor_blobs_collected", "Manifests that nothing named", lambda: stats.blobs.collected)
    reads.counter("janitor_blob_bytes_collected", "Their bytes", lambda: stats.blobs.collected_bytes)
    reads.counter("janitor_failures", "Purges that did not get through", lambda: stats.failures)
