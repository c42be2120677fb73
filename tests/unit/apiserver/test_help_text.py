"""The help names every variable that the server reads; what is no argument is refused."""

from __future__ import annotations

import pytest

from services.apiserver.help_text import refusal, usage
from services.apiserver.settings import PREFIX, VARIABLES, from_environment


def test_the_help_names_every_variable() -> None:
    lines = usage().splitlines()
    for name in VARIABLES:
        assert any(line.split()[:1] == [name] for line in lines), name


def test_arguments_are_refused() -> None:
    assert "--port" in refusal(["--port", "1"])
    assert refusal([]) == ""


def test_limits_come_from_the_environment() -> None:
    values = {"REQUEST_SECONDS": "5", "SEATS": "7", "QUEUE": "8", "QUEUE_SECONDS": "9", "WATCHES": "11"}
    limits = from_environment({f"{PREFIX}{name}": value for name, value in values.items()}).limits
    found = (limits.request_seconds, limits.seats, limits.queue, limits.queue_seconds, limits.watches)
    assert found == (5, 7, 8, 9, 11)
    with pytest.raises(ValueError, match="FLEETLOG_APISERVER_SEATS"):
        from_environment({"FLEETLOG_APISERVER_SEATS": "0"})
