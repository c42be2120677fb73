"""`fleetlog settings check`: which services know what is given, and what is wrong with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from services._kit.base.settings import Given
from services.cli.common.running import Failed
from services.cli.settings.settings_check import Checked, checked, lines_of
from tests.support.commands import run_command

SERVICES: dict[str, dict[str, Any]] = {
    "one": {"pace": float, "log_level": str},
    "two": {"log_level": str, "plugins": tuple[str, ...]},
}
OTHERS = frozenset({"dir"})


def of_environment(**values: str) -> list[Given]:
    return [Given(name, value, f"FLEETLOG_{name.upper()}") for name, value in values.items()]


def test_each_setting_has_the_services_that_know_it() -> None:
    assert checked(of_environment(log_level="info", dir="/srv", pace="1m30s"), SERVICES, OTHERS) == [
        Checked("FLEETLOG_DIR", ("other processes",)),
        Checked("FLEETLOG_LOG_LEVEL", ("one", "two")),
        Checked("FLEETLOG_PACE", ("one",)),
    ]


def test_unknown_settings_have_a_hint_as_they_were_written() -> None:
    (variable,) = checked(of_environment(log_levle="info"), SERVICES, OTHERS)
    assert variable.problem == "no service has this setting; did you mean FLEETLOG_LOG_LEVEL?"
    (of_file,) = checked([Given("PLUGIN", ["*"], "PLUGIN")], SERVICES, OTHERS)
    assert of_file == Checked("PLUGIN", (), "no service has this setting; did you mean plugins?")
    (strange,) = checked(of_environment(xyzzy="1"), SERVICES, OTHERS)
    assert strange.problem == "no service has this setting"


def test_a_value_that_cannot_be_used_is_named() -> None:
    (found,) = checked(of_environment(pace="fast"), SERVICES, OTHERS)
    assert (found.known_by, found.problem) == (("one",), "Expected `float`, got `str`")


def test_one_service_has_to_know_what_it_is_given() -> None:
    own, other = checked(of_environment(log_level="info", pace="fast"), SERVICES, OTHERS, ["two"])
    assert own.problem == ""
    assert other == Checked("FLEETLOG_PACE", ("one",), "no setting of two")


def test_lines_are_read_as_compositions_write_them() -> None:
    text = "# of the scheduler\n\nFLEETLOG_A=1\nexport FLEETLOG_B='two words'\nFLEETLOG_C=\"x=y\"\nFLEETLOG_D=\n"
    assert lines_of(text, "x.env") == {
        "FLEETLOG_A": "1",
        "FLEETLOG_B": "two words",
        "FLEETLOG_C": "x=y",
        "FLEETLOG_D": "",
    }
    with pytest.raises(Failed, match=r"x\.env, line 2 is no KEY=VALUE"):
        lines_of("FLEETLOG_A=1\nsecret", "x.env")


def test_the_environment_is_checked() -> None:
    ended = run_command("fleetlog", "settings", "check", FLEETLOG_LOG_LEVEL="info", FLEETLOG_LOG_LEVLE="info")
    assert (ended.returncode, ended.stderr) == (1, "")
    lines = [line.split("   ") for line in ended.stdout.splitlines()]
    assert [part.strip() for part in lines[0] if part] == ["SETTING", "PROBLEM", "KNOWN BY"]
    assert "did you mean FLEETLOG_LOG_LEVEL?" in ended.stdout
    assert "all services" in ended.stdout


def test_files_are_checked(tmp_path: Path) -> None:
    settings, variables = tmp_path / "settings.toml", tmp_path / "scheduler.env"
    settings.write_text('scheduler_name = "default"\nhttp_port = "many"\n')
    ended = run_command("fleetlog", "settings", "check", str(settings), "-o", "json")
    port, name = json.loads(ended.stdout)
    assert (ended.returncode, port["setting"], name["known_by"]) == (1, "http_port", ["scheduler"])
    assert port["problem"] == "Expected `int`, got `str`"
    variables.write_text("FLEETLOG_SCHEDULER_NAME=default\nPATH=/bin\nFLEETLOG_SETTINGS_FILE=/elsewhere.json\n")
    words = ("fleetlog", "settings", "check", "--env-file", str(variables))
    assert run_command(*words).returncode == run_command(*words, "--service", "scheduler").returncode == 0
    ended = run_command(*words, "--service", "status-aggregator")
    assert (ended.returncode, "no setting of status_aggregator" in ended.stdout) == (1, True)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("a.json", "--env-file", "b.env"), "not both"),
        (("--service", "schedular"), "there is no service schedular; use one of agent"),
        (("/nowhere.json",), "error: /nowhere.json cannot be read: No such file"),
        (("--env-file", "/nowhere.env"), "error: /nowhere.env cannot be read"),
    ],
)
def test_what_cannot_be_checked_is_an_error(words: tuple[str, ...], said: str) -> None:
    ended = run_command("fleetlog", "settings", "check", *words)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert said in ended.stderr
