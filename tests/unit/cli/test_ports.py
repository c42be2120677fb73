"""Ports of installations that start at the same time."""

from __future__ import annotations

import os
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from services.cli.common import layout


@pytest.fixture
def marks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where chosen ports are noted, with six ports to choose from."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(layout, "_PORTS", range(19_000, 19_006))
    return tmp_path / f"fleetlog-ports-{os.getuid()}"


@pytest.mark.usefixtures("marks")
def test_installations_that_start_at_once_share_no_port() -> None:
    with ThreadPoolExecutor(3) as pool:
        chosen = list(pool.map(lambda _: [layout.free_port(set()), layout.free_port(set())], range(3)))
    ports = [port for pair in chosen for port in pair]
    assert len(set(ports)) == len(ports) == 6
    with pytest.raises(OSError, match="no port between 19000 and 19005 is free"):
        layout.free_port(set())


def test_a_port_that_was_never_bound_is_free_again(marks: Path) -> None:
    first = {layout.free_port(set()) for _ in range(6)}
    for mark in marks.iterdir():
        os.utime(mark, (0, 0))
    assert {layout.free_port(set()) for _ in range(6)} == first


def test_without_a_place_for_marks_ports_are_chosen(marks: Path) -> None:
    marks.write_text("no directory")
    assert layout.free_port(set()) in range(19_000, 19_006)
