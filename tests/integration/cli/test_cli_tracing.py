"""Traces of a running installation: shown, sent by OpenTelemetry's exporter to a collector, and followed."""

from __future__ import annotations

import base64
import json
import os
import signal
import ssl
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.integration.cli.conftest import PATIENCE, Commands, eventually
from tests.support.collector import collector

pytestmark = pytest.mark.xdist_group("commands")

STEPS = {
    "detect template",
    "request binding",
    "schedule placement",
    "render work",
    "apply work",
    "aggregate rollup",
}
CLIENT = "4bf92f3577b34da6a3ce929d0e0e4736"
SPAN = "00f067aa0ba902b7"


def listed(document: dict[str, Any]) -> list[dict[str, Any]]:
    """Spans of an OTLP document."""
    scopes = [scope for group in document["resourceSpans"] for scope in group["scopeSpans"]]
    return [span for scope in scopes for span in scope["spans"]]


def write(commands: Commands, method: str, path: str, body: Any, **headers: str) -> None:
    """One request to the control plane as a client with traces makes it."""
    config = yaml.safe_load(commands.kubeconfig.read_text())
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    context = ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
    if "token" in user:
        headers["Authorization"] = f"Bearer {user['token']}"
    else:
        with tempfile.TemporaryDirectory() as place:
            pair = Path(place) / "pair.pem"
            parts = (user["client-certificate-data"], user["client-key-data"])
            pair.write_bytes(b"".join(base64.b64decode(part) for part in parts))
            context.load_cert_chain(pair)
    request = urllib.request.Request(
        f"{cluster['server']}{path}", data=json.dumps(body).encode(), headers=headers, method=method
    )
    with urllib.request.urlopen(request, context=context, timeout=PATIENCE) as answer:
        assert answer.status == 200


def scale(commands: Commands, replicas: int, **headers: str) -> None:
    path = "/apis/apps/v1/namespaces/default/deployments/nginx"
    patch = {"spec": {"replicas": replicas}}
    write(commands, "PATCH", path, patch, **{"Content-Type": "application/merge-patch+json", **headers})


def test_a_change_is_shown_and_sent_with_the_same_ids(commands: Commands) -> None:
    def whole() -> bool:
        shown = commands.fleetlog("trace", "export", "deploy/nginx")
        assert shown.returncode == 0, shown.stderr
        return all(step in shown.stdout for step in STEPS)

    eventually(whole)
    made = commands.fleetlog("trace", "export", "deploy/nginx", "--since", "1h", "-o", "json")
    assert made.returncode == 0, made.stderr
    spans = {span["spanId"]: span for span in listed(json.loads(made.stdout))}
    changed = next(span for span in spans.values() if span["name"] == "detect template")
    first = {span["name"] for span in spans.values() if span["traceId"] == changed["traceId"]}
    assert first >= STEPS
    with collector() as received:
        sent = commands.fleetlog("trace", "export", "deploy/nginx", "--since", "1h", "--otlp", received.url)
        assert sent.returncode == 0, sent.stderr
        assert changed["traceId"] in sent.stdout
        assert set(received.paths) == {"/v1/traces"}
        assert received.spans.keys() >= spans.keys()
        for name, span in spans.items():
            got = received.spans[name]
            assert (got["trace"], got["parent"]) == (span["traceId"], span.get("parentSpanId", ""))
            assert (got["start"], got["end"]) == (int(span["startTimeUnixNano"]), int(span["endTimeUnixNano"]))
        applied = [span for span in received.spans.values() if span["name"] == "apply work"]
        assert {span["service"] for span in applied} == {"executor"}
        assert {span["attributes"]["k8s.cluster.name"] for span in applied} <= {"member1", "member2", "member3"}
        assert all(span["attributes"]["k8s.deployment.name"] == "nginx" for span in applied)


def test_a_collector_that_refuses_is_reported(commands: Commands) -> None:
    with collector() as received:
        received.answer = 400
        refused = commands.fleetlog("trace", "export", "deploy/nginx", "--otlp", received.url)
    assert refused.returncode == 1
    assert f"{received.url}/v1/traces has not taken the traces" in refused.stderr
    assert "400" in refused.stderr


def test_changes_are_followed_and_traces_of_clients_continued(commands: Commands) -> None:
    program = "from services.cli.fleetlog import main; main()"
    with collector() as received:
        arguments = ["trace", "export", "--follow", "--idle", "500ms", "--otlp", received.url]
        with subprocess.Popen(
            [sys.executable, "-c", program, *arguments],
            stderr=subprocess.PIPE,
            text=True,
            env={
                **os.environ,
                "FLEETLOG_DIR": str(commands.directory),
                "OTEL_EXPORTER_OTLP_HEADERS": "x-tenant=fleet",
                "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip",
            },
        ) as following:
            assert following.stderr is not None
            assert "following" in following.stderr.readline()
            scale(commands, 3, traceparent=f"00-{CLIENT}-{SPAN}-01")
            eventually(lambda: any(span["name"] == "aggregate rollup" for span in continued(received.spans)))
            # The same connection settings, and no trace of a client: one of its own.
            scale(commands, 2)
            names = ("detect template", "apply work")
            others = lambda: {span["name"] for span in received.spans.values() if span["trace"] != CLIENT}  # noqa: E731
            eventually(lambda: others().issuperset(names))
            following.send_signal(signal.SIGTERM)
            said = following.stderr.read()
            assert following.wait(PATIENCE) == 143
        assert "traces exported, 0 dropped" in said
        assert all(headers["x-tenant"] == "fleet" for headers in received.headers)
        spans = continued(received.spans)
        assert {span["name"] for span in spans} >= {"update deployments", *STEPS}
        (request,) = (span for span in spans if span["name"] == "update deployments")
        assert (request["parent"], request["service"]) == (SPAN, "apiserver")
        parents = {span["parent"] for span in spans} - {SPAN}
        assert parents <= received.spans.keys()


def continued(spans: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    return [span for span in spans.values() if span["trace"] == CLIENT]
