"""When rules of a CronFederatedHPA run, what is kept of it, and that no moment is served twice."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from schemas.events.autoscaling import RuleRun, ScheduleAdvanced, ScheduleReleased
from schemas.keys import PolicyKey
from services._rules.autoscaling.cron_schedule import parse_schedule
from services._rules.autoscaling.timestamps import moment, seconds
from services._rules.decision import Decision
from services.autoscaler.schedule_decision import (
    INTERRUPTED,
    LATE,
    OVERLAPPING,
    Missed,
    Run,
    Schedule,
    TellOfSchedule,
    decide_schedule,
)

KEY = PolicyKey("CronFederatedHPA", "default", "office")
RULE: dict[str, Any] = {"name": "up", "schedule": "0 9 * * *", "targetReplicas": 5}
TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}


def at(text: str) -> float:
    found = seconds(text)
    assert found is not None
    return found


MORNING = at("2026-11-23T08:59:00Z")
NINE = at("2026-11-23T09:00:00Z")


def schedule(*rules: dict[str, Any], target: dict[str, str] = TARGET) -> Schedule:
    return Schedule("u1", 1, {"scaleTargetRef": target, "rules": list(rules or (RULE,))})


def decided(
    last: ScheduleAdvanced | None, now: float, given: Schedule | None = None, **more: Any
) -> tuple[ScheduleAdvanced, Decision]:
    """The fact that stands on the log after a decision, and the decision."""
    ended, under_way = more.get("ended", {}), more.get("under_way", frozenset())
    found = decide_schedule(last, given or schedule(), KEY, now, ended, under_way)
    event = found.events[0] if found.events else last
    assert isinstance(event, ScheduleAdvanced)
    return msgspec.json.decode(msgspec.json.encode(event), type=ScheduleAdvanced), found


def runs(found: Decision) -> list[float]:
    return [effect.scheduled for effect in found.effects if isinstance(effect, Run)]


def missed(found: Decision) -> list[tuple[float, str]]:
    return [(effect.scheduled, effect.why) for effect in found.effects if isinstance(effect, Missed)]


def test_rule_waits_for_its_time_and_runs_once() -> None:
    waiting, found = decided(None, MORNING)
    assert (found.wake_at, runs(found)) == (NINE, [])
    started, found = decided(waiting, NINE)
    assert runs(found) == [NINE]
    assert started.rules[0].running
    _, found = decided(started, NINE + 1, under_way=frozenset({"up"}))
    assert (runs(found), found.events) == ([], ())


def test_end_of_a_run_is_history() -> None:
    started, _ = decided(decided(None, MORNING)[0], NINE)
    ended, found = decided(started, NINE + 1, ended={"up": RuleRun(NINE, NINE + 1, replicas=5)})
    (run,) = ended.rules[0].successes
    assert (run.scheduled, run.replicas, ended.rules[0].running) == (NINE, 5, False)
    (shown,) = [effect.status["executionHistories"] for effect in found.effects if hasattr(effect, "status")]
    assert shown[0]["successfulExecutions"] == [
        {"scheduleTime": moment(NINE), "executionTime": moment(NINE + 1), "appliedReplicas": 5}
    ]
    assert shown[0]["nextExecutionTime"] == "2026-11-24T09:00:00Z"


def test_run_that_a_restart_interrupted_is_not_repeated() -> None:
    started, _ = decided(decided(None, MORNING)[0], NINE)
    after, found = decided(started, NINE + 5)
    assert runs(found) == []
    assert [run.problem for run in after.rules[0].failures] == [INTERRUPTED]


def test_runs_missed_in_a_downtime_are_left_out() -> None:
    waiting, _ = decided(None, MORNING)
    late, found = decided(waiting, NINE + 3600)
    assert (runs(found), late.rules[0].due) == ([], at("2026-11-24T09:00:00Z"))
    assert missed(found) == [(NINE, LATE)]
    soon, found = decided(waiting, NINE + 10)
    assert (runs(found), missed(found)) == ([NINE], [])
    minutely = schedule({**RULE, "schedule": "* * * * *"})
    running, _ = decided(decided(None, NINE - 1, minutely)[0], NINE, minutely)
    over, found = decided(running, NINE + 61, minutely, under_way=frozenset({"up"}))
    assert (runs(found), missed(found), over.rules[0].due) == ([], [(NINE + 60, OVERLAPPING)], NINE + 120)
    # One that was served already is not missed when the clock comes by again.
    assert missed(decided(soon, NINE + 20, under_way=frozenset({"up"}))[1]) == []


def test_clock_set_back_does_not_run_a_rule_again() -> None:
    ended = {"up": RuleRun(NINE, NINE, replicas=5)}
    done, _ = decided(decided(decided(None, MORNING)[0], NINE)[0], NINE, ended=ended)
    _, found = decided(done, NINE - 1800)
    assert found.wake_at == at("2026-11-24T09:00:00Z")
    changed = schedule({**RULE, "schedule": "0 9 * * *", "targetReplicas": 6})
    assert decided(done, NINE - 1800, changed)[1].wake_at == at("2026-11-24T09:00:00Z")


def test_clock_that_was_far_ahead_does_not_stop_a_rule() -> None:
    far = at("2030-01-01T09:00:00Z")
    done = replace(decided(None, MORNING)[0])
    rule = replace(done.rules[0], last=far, due=at("2030-01-02T09:00:00Z"))
    _, found = decided(replace(done, rules=(rule,)), MORNING)
    assert found.wake_at == NINE


def test_suspended_and_unreadable_rules_do_not_run() -> None:
    bad = {**RULE, "name": "bad", "schedule": "0 0 L * *"}
    event, found = decided(None, MORNING, schedule({**RULE, "suspend": True}, bad))
    assert [rule.due for rule in event.rules] == [None, None]
    (told,) = [effect.note for effect in found.effects if isinstance(effect, TellOfSchedule)]
    assert told.reason == "StartRuleFailed"
    assert "0 0 L * *" in told.message
    _, again = decided(event, MORNING + 1, schedule({**RULE, "suspend": True}, bad))
    assert not any(isinstance(effect, TellOfSchedule) for effect in again.effects)


def test_history_keeps_as_many_runs_as_its_limits() -> None:
    rule = {**RULE, "schedule": "* * * * *", "successfulHistoryLimit": 2, "failedHistoryLimit": 0}
    event, _ = decided(None, MORNING - 1, schedule(rule))
    for number in range(4):
        now = MORNING + 60 * number
        event, _ = decided(event, now, schedule(rule))
        problem = "refused" if number == 1 else ""
        run = RuleRun(now, now, replicas=None if problem else number, problem=problem)
        event, found = decided(event, now, schedule(rule), ended={"up": run})
        assert any(isinstance(effect, TellOfSchedule) for effect in found.effects) == bool(problem)
    assert [run.replicas for run in event.rules[0].successes] == [3, 2]
    assert event.rules[0].failures == ()


def test_other_target_stops_what_was_planned_and_keeps_history() -> None:
    ended = {"up": RuleRun(NINE, NINE, replicas=5)}
    done, _ = decided(decided(decided(None, MORNING)[0], NINE)[0], NINE, ended=ended)
    other = schedule(target={**TARGET, "name": "other"})
    event, _ = decided(done, NINE + 10, other)
    assert msgspec.json.decode(event.target)["name"] == "other"
    assert len(event.rules[0].successes) == 1
    assert decided(event, NINE + 11, schedule({**RULE, "name": "new"}))[0].rules[0].successes == ()


def test_removed_schedule_ends() -> None:
    waiting, _ = decided(None, MORNING)
    (event,) = decide_schedule(waiting, None, KEY, NINE, {}, frozenset()).events
    assert isinstance(event, ScheduleReleased)


def test_hour_that_the_clocks_skip_has_no_run() -> None:
    rule = {**RULE, "schedule": "30 2 * * *", "timeZone": "Europe/Berlin"}
    _, found = decided(None, at("2026-03-28T12:00:00Z"), schedule(rule))
    assert found.wake_at == at("2026-03-30T00:30:00Z")


@pytest.mark.parametrize(
    ("text", "zone", "after", "run"),
    [
        ("47 3 * * *", "Pacific/Chatham", "2026-04-04T03:47:00+13:45", "2026-04-05T03:47:00+12:45"),
        ("12 3 * * *", "Australia/Lord_Howe", "2022-10-01T03:12:00+10:30", "2022-10-02T03:12:00+11:00"),
        ("* 3 * * 0,5", "Australia/Lord_Howe", "2029-03-30T22:02:59+11:00", "2029-04-01T03:00:00+10:30"),
        ("45 1 * * *", "Australia/Lord_Howe", "2022-04-03T01:45:00+11:00", "2022-04-03T01:45:00+10:30"),
        ("0 0 * * *", "America/Santiago", "2026-09-05T00:00:00-04:00", "2026-09-07T00:00:00-03:00"),
    ],
)
def test_clocks_that_change_within_an_hour_or_at_midnight(text: str, zone: str, after: str, run: str) -> None:
    assert parse_schedule(text, zone).after(at(after)) == at(run)


@pytest.mark.parametrize("text", ["0 0 30 2 *", "0 0 31 4,6 *"])
def test_schedule_of_no_day_ends(text: str) -> None:
    assert parse_schedule(text, "Pacific/Chatham").after(MORNING) is None


def test_hour_that_comes_twice_has_two_runs() -> None:
    rule = {**RULE, "schedule": "30 2 * * *", "timeZone": "Europe/Berlin"}
    event, found = decided(None, at("2026-10-24T23:00:00Z"), schedule(rule))
    assert found.wake_at == at("2026-10-25T00:30:00Z")
    _, found = decided(event, at("2026-10-25T00:30:00Z"), schedule(rule))
    assert found.wake_at == at("2026-10-25T01:30:00Z")
