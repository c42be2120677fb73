"""Fault points: a process dies where it was told to, once, and nowhere else."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

PROGRAM = """
import sys
from typing import get_args
from services._kit.base import fault_points
fault_points.arm(sys.argv[1], "toy")
for step in range(5):
    for point in get_args(fault_points.Point):
        fault_points.reach(point, f"/objects/{step}")
        print(step, point, flush=True)
"""


def play(directory):
    done = subprocess.run([sys.executable, "-c", PROGRAM, str(directory)], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout.splitlines()


@pytest.mark.parametrize("point", ["before_append", "after_append", "before_act", "after_act"])
def test_a_process_dies_the_nth_time_it_comes_to_its_point(tmp_path, point):
    (tmp_path / "toy").write_text(f"{point} 3")
    code, lines = play(tmp_path)
    assert code == -signal.SIGKILL
    assert sum(line.endswith(point) for line in lines) == 2
    assert lines[-1].startswith("2 " if point != "before_append" else "1 ")


def test_only_requests_with_a_text_count_where_one_is_named(tmp_path):
    (tmp_path / "toy").write_text("before_act 1 objects/3")
    code, lines = play(tmp_path)
    assert (code, lines[-1]) == (-signal.SIGKILL, "3 after_append")
    (tmp_path / "toy").write_text("before_act 2 objects/3")
    assert play(tmp_path)[0] == 0


def test_its_successor_lives(tmp_path):
    (tmp_path / "toy").write_text("after_act 1")
    assert play(tmp_path)[0] == -signal.SIGKILL
    code, lines = play(tmp_path)
    assert code == 0
    assert len(lines) == 20


def test_an_order_for_another_service_concerns_nobody_else(tmp_path):
    (tmp_path / "other").write_text("before_append 1")
    assert play(tmp_path)[0] == 0
    assert (tmp_path / "other").exists()
