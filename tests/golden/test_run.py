"""The runner of vectors: which file goes to which runner, what it prints, and its exit code."""

import gzip
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.golden import run as runner

CASE_RUNNER = """
FILES = {"sums": lambda case: None if "op" in case else case["a"] + case["b"] == case["sum"]}
"""
OTHER_CASE_RUNNER = """
FILES = {"sums": lambda case: case["a"] - case["b"] == case["sum"] if case.get("op") == "-" else None}
"""
FILE_RUNNER = """
def run(path):
    lines = path.read_text().splitlines()
    return len(lines), lines.count("good"), [line for line in lines if line != "good"]

FILE_RUNNERS = {"words-long": run}
"""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    runners = tmp_path / "runners"
    runners.mkdir()
    (runners / "a.py").write_text(CASE_RUNNER)
    (runners / "b.py").write_text(OTHER_CASE_RUNNER)
    (runners / "c.py").write_text(FILE_RUNNER)
    (tmp_path / "vectors").mkdir()
    monkeypatch.setattr(runner, "RUNNERS", runners)
    return runner


def vectors(tmp_path: Path, name: str, *cases: dict[str, Any]) -> None:
    text = "".join(json.dumps(case) + "\n" for case in cases)
    path = tmp_path / "vectors" / name
    if name.endswith(".gz"):
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text)


def printed(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


GOOD = {"id": "good", "a": 1, "b": 2, "sum": 3}
MINUS = {"id": "minus", "op": "-", "a": 3, "b": 2, "sum": 1}


@pytest.mark.parametrize("name", ["sums-dev.jsonl.gz", "sums-final.jsonl", "sums.jsonl", "sums-last-check.jsonl.gz"])
def test_suffix_of_a_file_does_not_hide_its_runner(
    run: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    vectors(tmp_path, name, GOOD, MINUS)
    assert run.main([str(tmp_path / "vectors")]) == 0
    assert printed(capsys) == [{"file": name, "cases": 2, "passed": 2, "failed_ids": []}]


def test_wrong_unclaimed_and_raising_cases_fail(
    run: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong, unclaimed, raising = GOOD | {"id": "w", "sum": 4}, MINUS | {"id": "u", "op": "*"}, {"id": "r"}
    vectors(tmp_path, "sums-dev.jsonl", wrong, unclaimed, GOOD, raising)
    assert run.main([str(tmp_path / "vectors")]) == 1
    assert printed(capsys) == [{"file": "sums-dev.jsonl", "cases": 4, "passed": 1, "failed_ids": ["w", "u", "r"]}]


def test_file_runner_gets_the_whole_file(run: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "vectors" / "words-long-dev.jsonl").write_text("good\nbad\n")
    assert run.main([str(tmp_path / "vectors")]) == 1
    assert printed(capsys) == [{"file": "words-long-dev.jsonl", "cases": 2, "passed": 1, "failed_ids": ["bad"]}]


def test_unknown_file_is_named_and_does_not_fail_the_run(
    run: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    vectors(tmp_path, "other.jsonl", GOOD)
    assert run.main([str(tmp_path / "vectors")]) == 1
    vectors(tmp_path, "sums.jsonl", GOOD)
    assert run.main([str(tmp_path / "vectors")]) == 0
    assert printed(capsys)[-2:] == [
        {"file": "other.jsonl", "unknown": True},
        {"file": "sums.jsonl", "cases": 1, "passed": 1, "failed_ids": []},
    ]


def test_missing_directory_exits_with_two(run: ModuleType, tmp_path: Path) -> None:
    assert run.main([str(tmp_path / "none")]) == 2
    assert run.main(["a", "b"]) == 2
