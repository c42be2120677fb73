"""What `fleetlog trace` shows and refuses: trees, collectors, the exporter that is missing, words of the commands."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from schemas.keys import ObjectKey
from services._rules.tracing.logged_event import step_of
from services._rules.tracing.span_model import Trace
from services.cli.common.logbook import LogAccess
from services.cli.common.running import Failed
from services.cli.tracing.change_follower import Outbox, follow
from services.cli.tracing.collector_sender import CollectorSender, endpoint
from services.cli.tracing.span_tree import tree
from services.cli.tracing.trace_export import chosen
from services.cli.tracing.tracing_options import FollowOptions, TraceChoice, TraceTarget
from tests.support.commands import run_command
from tests.support.facts import KEY, binding, deployment, evicted, placement, seen, template, work
from tests.support.traced import BEGAN, logged, spans

FACTS = [
    logged(1, 0.010, template(), by="detector", decided=0.005),
    logged(2, 0.011, binding(), by="detector", decided=0.005),
    logged(3, 0.020, placement(m1=1), 2),
    logged(4, 0.030, work("m1"), 3, by="override_renderer"),
    logged(1, 0.080, seen("m1", work_seq=4, operation="created"), by="executor"),
    logged(5, 60.0, template(deployment(generation=2)), by="detector", decided=59.9),
    logged(6, 60.1, work("m1", digest="e"), 5, by="override_renderer"),
    logged(7, 70.0, evicted("m1", name="other"), by="failover"),
    logged(5, 900.0, seen("m1", work_seq=6), by="executor"),
]


def picked(revision: int = 0, earliest: float | None = None) -> list[list[int]]:
    """Positions of the spans of the traces that are chosen."""
    found = chosen(KEY, [step_of(one) for one in FACTS], revision, earliest)
    return [[int(str(span.attributes["fleetlog.log.position"])) for span in trace.spans] for trace in found]


def test_a_tree_shows_who_took_how_long() -> None:
    found = spans(FACTS[:5])
    lines = tree(Trace(found[0].trace_id, tuple(found), left_out=3)).splitlines()
    assert lines[0] == f"trace {found[0].trace_id}, 2026-10-29T00:00:00.005Z, 75 ms"
    cells = [[cell.strip() for cell in line.split("   ") if cell.strip()] for line in lines[1:6]]
    assert [row[:4] for row in cells] == [
        ["+0.0 ms", "5.0 ms", "detect template", "detector"],
        ["+0.0 ms", "6.0 ms", "request binding", "detector"],
        ["+6.0 ms", "9.0 ms", "schedule placement", "scheduler"],
        ["+15 ms", "10 ms", "render work", "override_renderer"],
        ["+25 ms", "50 ms", "apply work", "executor"],
    ]
    assert cells[3][4:] == ["m1", "WorkRendered #4", "m1: manifest d"]
    assert [line.index(row[2]) - lines[1].index("detect") for line, row in zip(lines[1:], cells, strict=False)] == [
        *(0, 2, 4, 6, 8),
    ]
    assert lines[-1] == "3 spans more are left out"


def test_a_tree_says_what_went_wrong() -> None:
    broken = [logged(3, 0.020, placement(m1=1), 2), logged(4, 0.03, work("m1", problem="no\npath"), 3, decided=9.0)]
    shown = tree(Trace("t", tuple(spans(broken))))
    assert "its cause is not on the log any more" in shown
    assert "failed: no path; clocks differ by" in shown


def test_the_latest_change_is_chosen_unless_others_are_named() -> None:
    assert picked() == [[5, 6]]
    assert picked(revision=1) == [[1, 2, 3, 4, 1]]
    assert picked(revision=7) == []
    assert picked(earliest=BEGAN + 30) == [[5, 6], [5]]
    assert chosen(ObjectKey("", "configmaps", "default", "x"), [step_of(one) for one in FACTS], 0, None) == []


@pytest.mark.parametrize(
    ("url", "wanted"),
    [
        ("http://localhost:4318", "http://localhost:4318/v1/traces"),
        ("https://collector.example/", "https://collector.example/v1/traces"),
        ("http://localhost:9411/api/otlp", "http://localhost:9411/api/otlp"),
    ],
)
def test_a_collector_without_a_path_has_the_usual_one(url: str, wanted: str) -> None:
    assert endpoint(url) == wanted


@pytest.mark.parametrize("url", ["localhost:4318", "grpc://localhost:4317", "http://", "http://x:99999", "http://[::1"])
def test_what_is_no_url_of_a_collector_is_refused(url: str) -> None:
    with pytest.raises(Failed, match="write for example http://localhost:4318"):
        endpoint(url)


def test_a_missing_exporter_is_named_with_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    with pytest.raises(Failed, match=r"pip install 'fleetlog\[otel\]'.*-o json"):
        CollectorSender("http://localhost:4318")


def test_the_outbox_drops_the_oldest() -> None:
    found = tuple(spans(FACTS[:4]))
    outbox = Outbox(most=10)
    assert [outbox.add(Trace(name, found)) for name in "abcd"] == [0, 0, 1, 1]
    assert [trace.trace_id for trace in outbox.take(5)] == ["c", "d"]
    assert outbox.take(5) == []
    assert outbox.add(Trace("large", found * 10)) == 0


@pytest.mark.parametrize(
    ("words", "choice", "idle", "said"),
    [
        (("deploy/web",), TraceChoice(), "5s", "leave out the object"),
        ((), TraceChoice(revision=2), "5s", "leave out the object"),
        ((), TraceChoice(since="1h"), "5s", "leave out the object"),
        ((), TraceChoice(), "soon", "--idle 'soon' is no duration"),
        ((), TraceChoice(), "1h", "100ms to 10m"),
    ],
)
async def test_following_refuses_what_makes_no_sense(words: Any, choice: TraceChoice, idle: str, said: str) -> None:
    access = LogAccess("nats://127.0.0.1:1")
    with pytest.raises(Failed, match=said):
        await follow(access, words, choice, TraceTarget(), FollowOptions(follow=True, idle=idle))


def test_words_without_a_command_ask_for_endpoints(tmp_path: Any) -> None:
    place = str(tmp_path / "none")
    for words in (("service/web", "--from", "m2"), ("--from", "m2", "service", "web"), ("endpoints", "service/web")):
        ended = run_command("fleetlog", "trace", *words, "--kubeconfig", place)
        assert ended.returncode == 1, words
        wanted = "Missing option '--from'" if "--from" not in words else place
        assert wanted.lower() in ended.stderr.lower(), ended.stderr
    helped = run_command("fleetlog", "trace", "--help").stdout
    assert "  export " in helped
    assert "  endpoints " in helped
    both = run_command("fleetlog", "trace", "export", "deploy/web", "--revision", "2", "--since", "1h", "--dir", place)
    assert "give one of them" in both.stderr
