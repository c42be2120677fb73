"""The catalogue of the janitor's metrics; the runtime's own are in services/_kit/base/metrics.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec import Struct, field

from services._kit.base.metrics import ReadCollector
from services._rules.log.stream_limits import Fill
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


_STREAMS: Final[tuple[tuple[str, str, Callable[[Fill], int]], ...]] = (
    ("bytes", "Bytes that a stream of the log holds", lambda fill: fill.bytes),
    ("limit_bytes", "Bytes that a stream may hold, -1: unbounded", lambda fill: fill.most),
    ("messages", "Messages that a stream of the log holds", lambda fill: fill.messages),
    ("consumers", "Consumers of a stream", lambda fill: fill.consumers),
    ("replicas", "Replicas that a stream is to have", lambda fill: fill.replicas),
    ("replicas_current", "Replicas of a stream that have everything, its leader among them", lambda fill: fill.current),
    ("replica_lag", "Messages that the slowest replica of a stream lacks", lambda fill: fill.behind),
)


def register_fill(reads: ReadCollector, watch: StreamWatch) -> None:
    """Offer how full the streams of the log are."""
    stream = ("stream",)
    for name, text, of in _STREAMS:
        reads.table(f"fleetlog_stream_{name}", text, stream, watch.counts(of))
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
