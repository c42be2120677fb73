"""Settings come from the environment and a file, and what is wrong is named."""

from __future__ import annotations

import io

import msgspec
import pytest
import structlog
from structlog.testing import capture_logs

from services._kit.base import logs
from services._kit.base.flags import with_flags
from services._kit.base.settings import Settings, SettingsError, credentials, load, mistyped, tell_unknown, tls_context
from services.cli.installation.environment import settings_of
from services.cli.installation.up import ALL_SERVICES
from services.failover.settings import FailoverSettings


class Mine(Settings, frozen=True, kw_only=True):
    workers: int = 4
    clusters: tuple[str, ...] = ()
    needed: str


def test_variables_become_typed_fields():
    settings = load(
        Mine,
        {
            "FLEETLOG_NEEDED": "x",
            "FLEETLOG_WORKERS": "7",
            "FLEETLOG_CLUSTERS": "m1, m2",
            "FLEETLOG_APPLY_TOPOLOGY": "true",
            "FLEETLOG_TAKEOVER_AFTER": "1.5",
            "PATH": "/bin",
        },
    )
    assert (settings.workers, settings.clusters, settings.apply_topology) == (7, ("m1", "m2"), True)
    assert settings.takeover_after == 1.5
    assert settings.nats_url == "nats://127.0.0.1:4222"


def test_variables_of_commands_may_be_exported():
    settings = load(Mine, {"FLEETLOG_NEEDED": "x", "FLEETLOG_DIR": "/srv/f", "FLEETLOG_NATS_AUTH": "/srv/auth"})
    assert settings.needed == "x"


def test_a_setting_of_another_service_is_named_and_left_out(tmp_path):
    path = tmp_path / "settings.json"
    path.write_text('{"needed": "x", "plugins": ["*"], "descheduling_interval": 3}')
    variables = {"FLEETLOG_SETTINGS_FILE": str(path), "FLEETLOG_XYZZY": "1", "FLEETLOG_PLUGINS": "*", "PATH": "/bin"}
    assert load(Mine, variables).needed == "x"
    with capture_logs() as told:
        tell_unknown(Mine, variables, structlog.get_logger())
    assert [(line["event"], line["setting"]) for line in told] == [
        ("setting_unknown", "FLEETLOG_PLUGINS"),
        ("setting_unknown", f"descheduling_interval in {path}"),
        ("setting_unknown", "FLEETLOG_XYZZY"),
    ]


@pytest.mark.parametrize("service", ALL_SERVICES)
def test_no_setting_looks_like_a_mistyped_one_of_another(service):
    own, all_of_them = (
        {name.removeprefix("FLEETLOG_").lower() for name in names}
        for names in (settings_of(service), set().union(*map(settings_of, ALL_SERVICES)))
    )
    assert {name: meant for name in all_of_them - own if (meant := mistyped(name, own))} == {}


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"FLEETLOG_NEEDED": "x", "FLEETLOG_WORKERS": "many"}, ["FLEETLOG_WORKERS", "int"]),
        ({"FLEETLOG_NEEDED": "x", "FLEETLOG_WORKER": "3"}, ["FLEETLOG_WORKER", "did you mean FLEETLOG_WORKERS"]),
        ({"FLEETLOG_NEEDED": "x", "FLEETLOG_APPLY_TOPOLOGY": "maybe"}, ["FLEETLOG_APPLY_TOPOLOGY", "true or false"]),
        ({"FLEETLOG_NEDED": "x"}, ["FLEETLOG_NEDED: no such setting", "did you mean FLEETLOG_NEEDED"]),
        ({}, ["FLEETLOG_NEEDED", "not set"]),
        ({"FLEETLOG_SETTINGS_FILE": "/nowhere/at/all.json"}, ["/nowhere/at/all.json", "cannot be read"]),
    ],
)
def test_what_is_wrong_is_named(variables, words):
    with pytest.raises(SettingsError) as caught:
        load(Mine, variables)
    assert all(word in str(caught.value) for word in words)


def test_the_environment_wins_over_the_file(tmp_path):
    path = tmp_path / "settings.toml"
    path.write_text('needed = "file"\nworkers = 2\n')
    settings = load(Mine, {"FLEETLOG_SETTINGS_FILE": str(path), "FLEETLOG_WORKERS": "9"})
    assert (settings.needed, settings.workers) == ("file", 9)
    path.write_text("workers = [")
    with pytest.raises(SettingsError, match=r"settings\.toml"):
        load(Mine, {"FLEETLOG_SETTINGS_FILE": str(path)})


def test_unreadable_key_files_are_named(tmp_path):
    with pytest.raises(SettingsError, match="FLEETLOG_TLS_CA"):
        tls_context(Settings(tls_ca=str(tmp_path / "none.pem")))
    with pytest.raises(SettingsError, match="FLEETLOG_NATS_TOKEN_FILE"):
        credentials(Settings(nats_token_file=str(tmp_path / "none")))
    token = tmp_path / "token"
    token.write_text("secret\n")
    assert credentials(Settings(nats_token_file=str(token)))["token"]() == "secret"


def test_log_lines_are_json_and_respect_the_level():
    out = io.BytesIO()
    logger = logs.configure("toy", "toy-0", "warning", out)
    logger.info("hidden")
    logger.warning("shown", key="a/b", position=7)
    lines = [msgspec.json.decode(line) for line in out.getvalue().splitlines()]
    assert [line["event"] for line in lines] == ["shown"]
    assert {"service": "toy", "instance": "toy-0", "key": "a/b", "position": 7, "level": "warning"}.items() <= lines[
        0
    ].items()
    with pytest.raises(ValueError, match="loud"):
        logs.configure("toy", "toy-0", "loud", out)


def test_flags_win_over_variables_and_times_may_have_units():
    values = with_flags(
        Mine,
        ["--workers=3", "--takeover-after", "1m30s", "--apply-topology", "--clusters", "m1,m2"],
        "services.failover",
        {"FLEETLOG_NEEDED": "x", "FLEETLOG_WORKERS": "7"},
    )
    settings = load(Mine, values)
    assert (settings.needed, settings.workers, settings.takeover_after) == ("x", 3, 90.0)
    assert (settings.apply_topology, settings.clusters) == (True, ("m1", "m2"))


@pytest.mark.parametrize("flag", ["--worker=3", "--nats-password=x", "--workers"])
def test_unknown_or_incomplete_flag_ends_the_process(flag, capsys):
    with pytest.raises(SystemExit) as caught:
        with_flags(Mine, [flag], "services.failover", {})
    assert caught.value.code == 2
    assert flag.partition("=")[0] in capsys.readouterr().err


def test_help_says_what_each_setting_does(capsys):
    with pytest.raises(SystemExit) as caught:
        with_flags(FailoverSettings, ["--help"], "services.failover", {})
    assert caught.value.code == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "--no-execute-taint-eviction-purge-mode" in printed
    assert (
        "Seconds after which a cluster's copy goes although its replacement is not healthy. (default 600.0)" in printed
    )
    assert "Seconds of silence after which a standby takes over. (default 2.0)" in printed


def test_log_lines_go_to_the_standard_error_of_now(monkeypatch):
    first, second = (io.TextIOWrapper(io.BytesIO()) for _ in range(2))
    monkeypatch.setattr("sys.stderr", first)
    logger = logs.configure("toy", "toy-0")
    logger.info("one")
    first.close()
    monkeypatch.setattr("sys.stderr", second)
    logger.info("two")
    assert b'"event":"two"' in second.buffer.getvalue()
