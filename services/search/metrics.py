"""The catalogue of search's metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Histogram

from services._kit.base.metrics import NAMESPACE, SECONDS, ReadCollector
from services.search.backends.backend_writer import BackendWriter
from services.search.followers.member_follower import MemberFollower
from services.search.index.member_index import MemberIndex


class SearchMetrics:
    """Requests by kind and code; sizes of the index are read at each scrape."""

    def __init__(
        self,
        registry: CollectorRegistry,
        reads: ReadCollector,
        index: MemberIndex,
        followers: Callable[[], Iterable[MemberFollower]],
        writers: Callable[[], Iterable[BackendWriter]],
    ) -> None:
        self.requests = Counter(
            "search_requests", "Requests answered", ["what", "code"], namespace=NAMESPACE, registry=registry
        )
        self.seconds = Histogram(
            "search_request_seconds",
            "Time until a request was answered",
            ["what"],
            namespace=NAMESPACE,
            buckets=SECONDS,
            registry=registry,
        )
        reads.gauge("search_objects", "Objects of members in the index", lambda: index.objects)
        reads.gauge("search_index_bytes", "Memory that they take, about", lambda: index.bytes)
        reads.gauge("search_members", "Members that are followed", lambda: sum(1 for _ in followers()))
        reads.gauge("search_kinds", "Kinds of members that are in step", lambda: sum(one.kinds for one in followers()))
        reads.counter(
            "search_refused_objects",
            "Objects that were left out because their kind took too much of the index",
            lambda: sum(one.refused for one in followers()),
        )
        reads.gauge(
            "search_backends_down",
            "Search backends that take no documents at the moment",
            lambda: sum(1 for one in writers() if one.trouble),
        )
        reads.gauge(
            "search_documents_due",
            "Documents that wait to be written to a backend or deleted there",
            lambda: sum(one.due for one in writers()),
        )
        for name, help_text in (
            ("written", "Documents that backends acknowledged"),
            ("deleted", "Documents that were deleted in backends"),
            ("refused", "Documents that a backend refused for good"),
        ):
            reads.counter(f"search_documents_{name}", help_text, partial(_sum, writers, name))


def _sum(writers: Callable[[], Iterable[BackendWriter]], name: str) -> float:
    return float(sum(getattr(writer, name) for writer in writers()))
