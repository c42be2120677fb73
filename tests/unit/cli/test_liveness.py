"""When a process that is alive is given up, how often it is started again, and what is said of it."""

from __future__ import annotations

from services.cli.supervision.liveness import Life, Limits, begun, given_up, heard, judged, passed
from services.cli.supervision.supervised_process import LONGEST_PAUSE, STABLE_SECONDS, Deaths, ended

LIMITS = Limits(start=10.0, silence=5.0)


def after(life: Life, seconds: int, *, counts: bool = True) -> Life:
    """The life after so many looks, one each second."""
    for _ in range(seconds):
        life = passed(life, life.seen_at + 1.0, counts=counts)
    return life


def test_process_that_never_answers_is_given_up() -> None:
    life = begun(Life(), 100.0)
    assert judged(after(life, 10), LIMITS) == ""
    assert judged(after(life, 11), LIMITS) == "never answered"


def test_start_limit_doubles_after_each_failed_start() -> None:
    life = begun(given_up(after(begun(Life(), 0.0), 11)), 11.0)
    assert judged(after(life, 20), LIMITS) == ""
    assert judged(after(life, 21), LIMITS) == "never answered"
    assert judged(after(begun(heard(life, 12.0), 30.0), 11), LIMITS) == "never answered"


def test_silent_process_is_given_up_unless_it_answers_again() -> None:
    life = heard(begun(Life(), 0.0), 1.0)
    assert judged(after(life, 5), LIMITS) == ""
    assert judged(after(life, 6), LIMITS) == "fell silent"
    assert judged(after(heard(after(life, 5), 6.0), 5), LIMITS) == ""


def test_pause_of_the_supervisor_does_not_count() -> None:
    life = heard(begun(Life(), 0.0), 1.0)
    assert judged(passed(life, 3601.0, counts=True), LIMITS) == ""


def test_time_without_a_dependency_does_not_count() -> None:
    assert judged(after(begun(Life(), 0.0), 100, counts=False), LIMITS) == ""


def test_without_a_limit_nothing_is_given_up() -> None:
    limits = Limits(start=0.0, silence=0.0)
    assert judged(after(begun(Life(), 0.0), 1000), limits) == ""
    assert judged(after(heard(begun(Life(), 0.0), 1.0), 1000), limits) == ""


def test_crash_loop_is_reported_once_with_growing_backoff() -> None:
    deaths, said, pauses = Deaths(), [], []
    for second in range(8):
        deaths.begin(float(second))
        said.append(deaths.died(second + 0.5, "exit code 1"))
        pauses.append(deaths.pause)
    assert [bool(text) for text in said] == [True, True, True, False, False, False, False, False]
    assert "3 times in a row" in said[2]
    assert "exit code 1" in said[2]
    assert pauses == sorted(pauses)
    assert pauses[-1] == LONGEST_PAUSE
    deaths.begin(100.0)
    assert deaths.settled(100.0 + STABLE_SECONDS) == ""
    assert deaths.settled(101.0 + STABLE_SECONDS) == "runs again"
    assert deaths.settled(102.0 + STABLE_SECONDS) == ""
    assert "is started again" in deaths.died(103.0 + STABLE_SECONDS, "ended by SIGKILL")
    assert deaths.pause == 0.0


def test_ends_are_named_as_people_know_them() -> None:
    assert [ended(code) for code in (0, 3, -9, -250)] == [
        "exit code 0",
        "exit code 3",
        "ended by SIGKILL",
        "ended by signal 250",
    ]
