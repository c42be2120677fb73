"""Ports of installations that start at the same time."""

from __future__ import annotations

import os
import socket
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from services.cli.common import layout

SIX = range(20_000, 20_006)


@pytest.fixture
def marks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where chosen ports are noted, with six ports to choose from, whoever listens there on this machine."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(layout, "_PORTS", SIX)
    monkeypatch.setattr(layout, "_unbound", lambda port: True)
    return tmp_path / f"fleetlog-ports-{os.getuid()}"


@pytest.mark.usefixtures("marks")
def test_installations_that_start_at_once_share_no_port() -> None:
    with ThreadPoolExecutor(3) as pool:
        chosen = list(pool.map(lambda _: [layout.free_port(set()), layout.free_port(set())], range(3)))
    assert sorted(port for pair in chosen for port in pair) == list(SIX)
    with pytest.raises(OSError, match="no port between 20000 and 20005 is free"):
        layout.free_port(set())


def test_a_port_that_was_never_bound_is_free_again(marks: Path) -> None:
    first = {layout.free_port(set()) for _ in SIX}
    for mark in marks.iterdir():
        os.utime(mark, (0, 0))
    assert {layout.free_port(set()) for _ in SIX} == first


def test_without_a_place_for_marks_ports_are_chosen(marks: Path) -> None:
    marks.write_text("no directory")
    assert layout.free_port(set()) in SIX


def test_a_port_with_a_listener_is_not_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        monkeypatch.setattr(layout, "_PORTS", range(port, port + 1))
        with pytest.raises(OSError, match=f"no port between {port} and {port} is free"):
            layout.free_port(set())
