"""The catalogue of the gateway's metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Histogram

from services._kit.base.metrics import NAMESPACE, SECONDS, ReadCollector
from services._kit.proxying.pull_members import PullMembers
from services._kit.proxying.request_journal import RequestJournal
from services.gateway.views.catalog import Catalog

if TYPE_CHECKING:
    from services._kit.proxying.caller_exchange import Traffic
    from services._kit.proxying.caller_limits import CallerLimits
    from services._rules.metrics.answer_coverage import Coverage
    from services.gateway.http.collection_reads import Reader


class GatewayMetrics:
    """Requests by verb and code; sizes of the served collections are read at each scrape."""

    def __init__(self, registry: CollectorRegistry, reads: ReadCollector, catalog: Catalog, reader: Reader) -> None:
        self.requests = Counter(
            "gateway_requests",
            "Requests answered",
            ["verb", "resource", "code"],
            namespace=NAMESPACE,
            registry=registry,
        )
        self.seconds = Histogram(
            "gateway_request_seconds",
            "Time until a request was answered, watches not counted",
            ["verb"],
            namespace=NAMESPACE,
            buckets=SECONDS,
            registry=registry,
        )
        shown = {"ResourceBinding": catalog.bindings, "ClusterResourceBinding": catalog.cluster_bindings}
        for kind, collection in {**shown, "Work": catalog.works}.items():
            reads.gauge("gateway_objects", "Objects shown", collection.__len__, kind=kind)
        encoder = reader.encoder
        reads.gauge("gateway_watches", "Watches that run", lambda: reader.watches)
        reads.gauge("gateway_json_bytes", "Bytes of JSON kept for the next one who asks", lambda: encoder.kept_bytes)
        reads.counter("gateway_json_encoded", "Objects encoded", lambda: encoder.encoded)
        reads.counter("gateway_json_shared", "Objects answered with JSON encoded before", lambda: encoder.shared)


def register_pull(reads: ReadCollector, members: PullMembers, journal: RequestJournal) -> None:
    """Offer requests to pull members, and the records of requests to all members."""
    transport = members.transport
    reads.gauge("gateway_pull_requests_open", "Requests for pull members under way", lambda: transport.under_way)
    reads.gauge("gateway_answering_agents", "Agents that answer requests", lambda: transport.answering)
    reads.counter("gateway_requests_recorded", "Requests for members put on record", lambda: journal.written)
    reads.counter("gateway_requests_unrecorded", "Requests without a record of theirs", lambda: journal.lost)


class MemberMetrics:
    """Requests that were handed on to members."""

    def __init__(self, registry: CollectorRegistry, reads: ReadCollector, limits: CallerLimits) -> None:
        self.heads = Histogram(
            "gateway_member_answer_seconds",
            "Time until the answer of a member began",
            namespace=NAMESPACE,
            buckets=SECONDS,
            registry=registry,
        )
        self._requests = Counter(
            "gateway_member_requests",
            "Requests handed on to members",
            ["code", "kind"],
            namespace=NAMESPACE,
            registry=registry,
        )
        self._bytes = Counter(
            "gateway_member_bytes",
            "Bytes between callers and members",
            ["direction"],
            namespace=NAMESPACE,
            registry=registry,
        )
        reads.gauge("gateway_member_requests_open", "Requests for members under way", lambda: limits.under_way)
        reads.gauge("gateway_member_streams_open", "Those of them that may run for long", lambda: limits.lasting)

    def carried(self, code: int, traffic: Traffic, *, lasting: bool) -> None:
        """Count one that has ended."""
        self._requests.labels(str(code), "stream" if lasting else "request").inc()
        self._bytes.labels("to member").inc(traffic.up)
        self._bytes.labels("to caller").inc(traffic.down)


class QuestionMetrics:
    """Questions about metrics of all members."""

    def __init__(self, registry: CollectorRegistry, reads: ReadCollector) -> None:
        self._answers = Counter(
            "gateway_metric_answers",
            "Answers about metrics of members; partial ones lack members or values",
            ["group", "coverage"],
            namespace=NAMESPACE,
            registry=registry,
        )
        self._seconds = Histogram(
            "gateway_metric_answer_seconds",
            "Time until the members were asked and their answers were one",
            ["group"],
            namespace=NAMESPACE,
            buckets=SECONDS,
            registry=registry,
        )
        self._silent = reads.tally(
            f"{NAMESPACE}_gateway_metric_members_silent",
            "Questions about metrics that a member did not answer",
            "member_cluster",
        )
        self._left_out = reads.tally(
            f"{NAMESPACE}_gateway_metric_values_left_out",
            "Metrics of a member that could not be used",
            "member_cluster",
        )

    def silent(self, member: str) -> None:
        """Count a question that a member did not answer."""
        self._silent.add(member)

    def answered(self, group: str, coverage: Coverage, seconds: float) -> None:
        """Count an answer."""
        self._answers.labels(group, "whole" if coverage.whole and not coverage.unready else "partial").inc()
        self._seconds.labels(group).observe(seconds)
        for member, left_out in coverage.left_out.items():
            self._left_out.add(member, count=left_out.count)
