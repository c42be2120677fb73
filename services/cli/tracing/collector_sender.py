"""Sends traces to a collector with OpenTelemetry's own exporter, which is an optional part of the installation."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit, urlunsplit

from services._rules.tracing.otlp_document import nanoseconds, resource
from services._rules.tracing.span_model import SCOPE, Span, Trace
from services.cli.common.logbook import without_secret
from services.cli.common.running import Failed

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.trace import SpanContext

_PATH: Final = "/v1/traces"
_AT_ONCE: Final = 512
"""Spans of one request."""


class _LastWords(logging.Handler):
    """Keeps the last thing that the exporter logged: why something was not taken."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.text = ""

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the text of a record."""
        self.text = record.getMessage()


class CollectorSender:
    """Sends traces to one collector; its calls block and belong into a thread."""

    def __init__(self, url: str, seconds: float | None = None) -> None:
        """The collector behind a URL, each request bounded in `seconds` (None: as the environment says).

        Raises Failed for a URL that is none, and where the exporter is not installed.
        """
        address = endpoint(url)
        self.place = without_secret(address)
        try:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
            from opentelemetry.sdk.resources import Resource
        except ImportError as error:
            raise Failed(
                f"--otlp needs OpenTelemetry's exporter ({error}): pip install 'fleetlog[otel]'; without it, "
                "-o json prints what a collector takes"
            ) from None
        self._resource = Resource
        self._said = _LastWords()
        logger = logging.getLogger("opentelemetry")
        logger.addHandler(self._said)
        logger.propagate = False
        self._exporter = OTLPSpanExporter(endpoint=address, timeout=seconds)

    def send(self, traces: Sequence[Trace]) -> str:
        """Send spans, some hundred at a time; why not all of them were taken, empty if they were."""
        from opentelemetry.sdk.trace.export import SpanExportResult

        spans = [self._readable(span) for trace in traces for span in trace.spans]
        for begin in range(0, len(spans), _AT_ONCE):
            self._said.text = ""
            if self._exporter.export(spans[begin : begin + _AT_ONCE]) is not SpanExportResult.SUCCESS:
                return self._said.text or "the exporter gives no reason"
        return ""

    def close(self) -> None:
        """Give up what is being tried, and close the connections."""
        self._exporter.shutdown()  # type: ignore[no-untyped-call]

    def _readable(self, span: Span) -> ReadableSpan:
        from opentelemetry.sdk.trace import Event, ReadableSpan
        from opentelemetry.sdk.util.instrumentation import InstrumentationScope
        from opentelemetry.trace import Link, SpanKind, Status, StatusCode

        kind = {"server": SpanKind.SERVER, "producer": SpanKind.PRODUCER, "consumer": SpanKind.CONSUMER}[span.kind]
        made = dict(resource(span.service, span.instance))
        attributes: dict[str, Any] = dict(span.attributes)
        return ReadableSpan(
            name=span.name,
            context=_context(span.trace_id, span.span_id),
            parent=_context(span.trace_id, span.parent_id) if span.parent_id else None,
            resource=self._resource(made),
            attributes=attributes,
            events=[Event(one.name, timestamp=nanoseconds(one.time)) for one in span.events],
            links=[Link(_context(link.trace_id, link.span_id)) for link in span.links],
            kind=kind,
            status=Status(StatusCode.ERROR, span.error) if span.error else Status(),
            start_time=nanoseconds(span.start),
            end_time=nanoseconds(span.end),
            instrumentation_scope=InstrumentationScope(SCOPE),
        )


def endpoint(url: str) -> str:
    """Where a collector takes traces: the URL, with the usual path where it has none; raises Failed for no URL."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        usable = False
    if not usable:
        raise Failed(f"--otlp {url!r} is no URL of a collector; write for example http://localhost:4318")
    return urlunsplit(parts._replace(path=parts.path if parts.path.strip("/") else _PATH))


def _context(trace: str, span: str) -> SpanContext:
    from opentelemetry.trace import SpanContext, TraceFlags

    return SpanContext(int(trace, 16), int(span, 16), is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))
