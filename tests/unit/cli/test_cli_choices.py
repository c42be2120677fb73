"""Which control plane, log, stream and scope a command line means, and how errors are told."""

from __future__ import annotations

from pathlib import Path

import pytest

from services._kit.base.settings import Settings
from services._kit.kube.client import ApiError, Unreachable
from services._kit.log.fact_history import origin
from services._kit.log.stream_port import Message
from services.cli.common.control_plane import kubeconfig_path, namespace_of, read_kubeconfig
from services.cli.common.layout import Layout, new_installation
from services.cli.common.logbook import LogAccess, log_access
from services.cli.common.moments import seconds_of
from services.cli.common.running import Failed, explain
from services.cli.listing.get import check, scope_of
from services.cli.listing.listing_options import Query
from services.cli.members.membership import check_name
from services.cli.queries.event_list import filters_of, stream_of
from services.cli.queries.query_options import EventQuery


def test_the_option_wins_over_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path / 'gone'}:{second}")
    second.write_text("clusters: []")
    assert kubeconfig_path("") == second
    first.write_text("clusters: []")
    assert kubeconfig_path(str(first)) == first
    with pytest.raises(Failed, match="gone"):
        kubeconfig_path(str(tmp_path / "gone"))
    with pytest.raises(Failed, match="is no file"):
        kubeconfig_path(str(tmp_path))


def test_files_of_a_kubeconfig_are_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "k"
    path.write_text("clusters: [{name: c, cluster: {certificate-authority: ca.pem}}]\nusers: [{name: u, user: null}]")
    assert read_kubeconfig(path)["clusters"][0]["cluster"]["certificate-authority"] == str(tmp_path / "ca.pem")


@pytest.mark.parametrize("text", ["", "[]", "a: b", "a: [", "\x00"])
def test_malformed_kubeconfig_is_refused_by_name(tmp_path: Path, text: str) -> None:
    path = tmp_path / "k"
    path.write_text(text)
    with pytest.raises(Failed, match=str(path)):
        read_kubeconfig(path)


def test_the_context_chooses_the_namespace() -> None:
    kubeconfig = {
        "current-context": "a",
        "contexts": [{"name": "a", "context": {"namespace": "web"}}, {"name": "b", "context": {}}],
    }
    assert namespace_of(kubeconfig) == "web"
    assert namespace_of(kubeconfig, "b") == "default"
    with pytest.raises(Failed, match="a, b"):
        namespace_of(kubeconfig, "c")


def test_the_log_is_the_installations_or_the_one_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FLEETLOG_NATS_TOKEN_FILE", raising=False)
    with pytest.raises(Failed, match="fleetlog up"):
        log_access(tmp_path / "none")
    installation = new_installation([])
    installation.ports["nats"] = 4333
    Layout(tmp_path).save(installation)
    assert log_access(tmp_path) == LogAccess(f"nats://hub:{installation.nats_token}@127.0.0.1:4333")
    assert log_access(tmp_path, "hub:4222") == LogAccess("nats://hub:4222")
    secret = tmp_path / "token"
    secret.write_text("x\n")
    monkeypatch.setenv("FLEETLOG_NATS_TOKEN_FILE", str(secret))
    assert log_access(tmp_path, "tls://hub:4222") == LogAccess("tls://hub:4222", Settings(nats_token_file=str(secret)))


def test_history_keeps_positions_of_the_facts() -> None:
    def message(headers: dict[str, str]) -> Message:
        return Message("work.m.x.y.z", 7, 0.0, headers, b"")

    assert origin(message({"Nats-Stream-Source": "FACTS 42 > >"})) == 42
    assert origin(message({"Nats-Stream-Source": "FACTS:abc 43 > >"})) == 43
    assert origin(message({"Nats-Stream-Source": "OTHER 43"})) == 7
    assert origin(message({})) == 7


@pytest.mark.parametrize(
    ("query", "stream"),
    [
        (EventQuery(), "FACTS"),
        (EventQuery(subject="observed.m1.>"), "OBSERVED"),
        (EventQuery(subject="work.m1.>"), "FACTS"),
        (EventQuery(subject="parked.*"), "PARKED"),
        (EventQuery(stream="history", subject="work.>"), "HISTORY"),
    ],
)
def test_a_pattern_knows_its_stream(query: EventQuery, stream: str) -> None:
    assert stream_of(query).name == stream


def test_patterns_are_checked_and_everything_is_the_default() -> None:
    facts = stream_of(EventQuery())
    assert filters_of(EventQuery(), facts) == facts.subjects
    assert filters_of(EventQuery(stream="HISTORY"), stream_of(EventQuery(stream="HISTORY"))) == facts.subjects
    assert filters_of(EventQuery(subject="work.*.>"), facts) == ("work.*.>",)
    for pattern in ("work..x", ".", "work.>.x", "work. x"):
        with pytest.raises(Failed, match="--subject"):
            filters_of(EventQuery(subject=pattern), facts)
    with pytest.raises(Failed, match="OBSERVED"):
        stream_of(EventQuery(stream="nope"))


def test_the_control_plane_is_asked_unless_members_are_named() -> None:
    assert scope_of(Query(words=("pods",))) == "karmada"
    assert scope_of(Query(words=("pods",), scope="members")) == "members"
    assert scope_of(Query(words=("deploy",), clusters=("m1",))) == "members"
    assert scope_of(Query(words=("deploy",), scope="all", clusters=("m1",))) == "all"


@pytest.mark.parametrize(
    "query",
    [
        Query(words=("pods",), scope="moon"),
        Query(words=("pods",), output="xml"),
        Query(words=("pods", "a"), selector="a=b"),
        Query(words=("pods",), output="json", show_labels=True),
        Query(words=("pods", "a"), field_selector="metadata.name=a"),
        Query(words=("pods",), watch_events=True),
        Query(words=("pods,svc",), watch=True),
        Query(words=("pods", "a", "b"), watch_only=True),
        Query(words=("pods",), output="jsonpath"),
        Query(words=("pods",), output="jsonpath={.a"),
        Query(words=("pods",), output="custom-columns=A"),
        Query(words=("pods",), output="go-template-file=/none"),
        Query(words=("pods",), sort_by="{.a[}"),
    ],
)
def test_questions_that_make_no_sense_are_refused(query: Query) -> None:
    with pytest.raises(Failed):
        check(query)


def test_durations() -> None:
    assert seconds_of("90s", "--wait") == 90
    assert seconds_of("1h2m3.5s", "--wait") == 3723.5
    assert seconds_of("250ms", "--wait") == 0.25
    for text in ("", "5", "5x", "m5", "-5s", "5 s"):
        with pytest.raises(Failed, match="--wait"):
            seconds_of(text, "--wait")


def test_names_of_clusters_are_labels() -> None:
    check_name("member-1")
    for name in ("", "Member", "a.b", "-a", "a-", "x" * 49):
        with pytest.raises(Failed):
            check_name(name)


def test_errors_are_worded_like_kubectl() -> None:
    assert (
        explain(ApiError(404, "NotFound", 'pods "x" not found')) == 'Error from server (NotFound): pods "x" not found'
    )
    assert explain(Failed("no")) == "error: no"
    told = explain(Unreachable("GET https://x: refused"))
    assert told is not None
    assert told.startswith("Unable to connect to the server")
    assert explain(AssertionError("a bug")) is None


def test_ports_of_an_installation_are_below_ephemeral_ports() -> None:
    installation = new_installation([])
    names = [f"service-{number}" for number in range(20)]
    ports = [installation.port(name) for name in names]
    assert len(set(ports)) == len(names)
    assert all(20_000 <= port < 32_000 for port in ports)
    assert [installation.port(name) for name in names] == ports
