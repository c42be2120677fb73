"""What the API server's process logs: lines of JSON, and of an error no values of variables."""

import io
import sys

import msgspec
import pytest
import structlog

from services.apiserver import __main__ as program


async def test_an_error_is_logged_without_the_values_around_it(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.BytesIO()
    monkeypatch.setattr(sys, "stderr", io.TextIOWrapper(stream, write_through=True))
    monkeypatch.setenv("FLEETLOG_APISERVER_TLS", "perhaps")
    try:
        with pytest.raises(ValueError, match="FLEETLOG_APISERVER_TLS"):
            await program._main()
        _fail("hunter2")
    finally:
        structlog.reset_defaults()
    line = msgspec.json.decode(stream.getvalue())
    assert line["event"] == "request failed"
    assert "KeyError" in line["exception"]
    assert "hunter2" not in stream.getvalue().decode()


def _fail(password: str) -> None:
    known: dict[str, str] = {"password": password}
    try:
        known["user"]
    except KeyError:
        structlog.get_logger("test").exception("request failed")
