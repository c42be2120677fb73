"""A wait that fails says what was looked at, and is over at once when the process that it waits for has ended."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from services._kit.base.log_errors import Ambiguous
from tests.e2e.fleet import Failed, until, until_equal
from tests.support.ports import Reserved
from tests.support.waiting import NotYet, comes_to, end_of, eventually


def phase() -> str:
    """What these tests look at."""
    return "Pending"


@pytest.fixture
def ended(tmp_path: Path) -> Iterator[Callable[[], str]]:
    """The end of a process that said something and exited with 3."""
    words = tmp_path / "words"
    with words.open("wb") as out, subprocess.Popen(["sh", "-c", "echo out of rope; exit 3"], stdout=out) as process:
        process.wait()
        yield end_of(process, words)


def test_a_comparison_that_stays_false_tells_what_was_compared() -> None:
    wanted = "Running"
    with pytest.raises(Failed, match=r"a pod: not within 0 s; last seen: False, where ") as failed:
        until("a pod", lambda: phase() == wanted, seconds=0)
    assert "phase() was 'Pending'" in str(failed.value)
    assert "wanted was 'Running'" in str(failed.value)


def test_unequal_answers_are_both_told() -> None:
    with pytest.raises(Failed, match=r"a pod: wanted 'Running': not within 0 s; .*seen was 'Pending'"):
        until_equal("a pod", phase, "Running", seconds=0)


def test_what_a_look_raised_is_what_it_saw() -> None:
    def look() -> bool:
        raise NotYet("503 not ready")

    with pytest.raises(Failed, match="last seen: 503 not ready"):
        until("readiness", look, seconds=0)


async def test_a_log_without_an_answer_is_asked_again() -> None:
    answers = iter([Ambiguous("no answer"), False, True])

    async def look() -> bool:
        answer = next(answers)
        if isinstance(answer, Ambiguous):
            raise answer
        return answer

    await comes_to("the answer", look)


async def test_waits_in_a_loop_tell_the_same() -> None:
    async def look() -> bool:
        raise NotYet("503 not ready")

    with pytest.raises(AssertionError, match=r"test_waiting.py:\d+: not within 0 s; .*phase\(\) was 'Pending'"):
        await eventually(lambda: phase() == "Running", seconds=0)
    with pytest.raises(AssertionError, match="last seen: 503 not ready"):
        await eventually(look, seconds=0)


async def test_the_end_of_a_process_ends_the_wait(ended: Callable[[], str]) -> None:
    said = r"after \d+\.\d s its process has ended with exit code 3; its last words:\nout of rope"
    with pytest.raises(Failed, match=said):
        until("readiness", lambda: False, end=ended)
    with pytest.raises(AssertionError, match=said):
        await eventually(lambda: False, end=ended)

    async def answer() -> str:
        return "refused"

    with pytest.raises(AssertionError, match=r"wanted 'ok', last seen 'refused' \(after"):
        await comes_to("readiness", answer, "ok", end=ended)


async def test_what_an_ended_process_brought_about_is_seen(ended: Callable[[], str]) -> None:
    assert until("its file", lambda: "there", end=ended) == "there"
    assert await eventually(lambda: "there", end=ended) == "there"


def test_a_reserved_port_is_nobodys_until_its_program_listens() -> None:
    reserved = [Reserved() for _ in range(20)]
    assert len({each.number for each in reserved}) == len(reserved)
    place = ("127.0.0.1", reserved[0].number)
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind(place)
    for _ in range(2):
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(place)
        with socket.create_server(place), socket.create_connection(place):
            pass
