"""A collector that takes OTLP over HTTP, as the exporter sends it, and keeps what it got."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)


class Received:
    """Spans by id, with the service that each is of; `answer` is the code of every answer."""

    def __init__(self) -> None:
        self.url = ""
        self.answer = 200
        self.paths: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.spans: dict[str, dict[str, Any]] = {}

    def take(self, body: bytes) -> None:
        """Keep the spans of one request."""
        request = ExportTraceServiceRequest.FromString(body)
        for group in request.resource_spans:
            of = {item.key: item.value.string_value for item in group.resource.attributes}
            for scope in group.scope_spans:
                for span in scope.spans:
                    values = {item.key: item.value for item in span.attributes}
                    self.spans[span.span_id.hex()] = {
                        "trace": span.trace_id.hex(),
                        "parent": span.parent_span_id.hex(),
                        "name": span.name,
                        "service": of["service.name"],
                        "start": span.start_time_unix_nano,
                        "end": span.end_time_unix_nano,
                        "attributes": {key: getattr(one, one.WhichOneof("value")) for key, one in values.items()},
                        "links": [(link.trace_id.hex(), link.span_id.hex()) for link in span.links],
                    }


@contextmanager
def collector() -> Iterator[Received]:
    """A running collector."""
    received = Received()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            received.paths.append(self.path)
            received.headers.append(dict(self.headers))
            if received.answer == 200:
                received.take(gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body)
            said = ExportTraceServiceResponse().SerializeToString()
            self.send_response(received.answer)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        received.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield received
        finally:
            server.shutdown()
            thread.join()
