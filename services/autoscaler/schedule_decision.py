"""Decides which rules of one CronFederatedHPA run now, when the others do, and what is kept of their runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from schemas.events.autoscaling import RuleProgress, RuleRun, ScheduleAdvanced, ScheduleReleased
from schemas.keys import ObjectKey, PolicyKey
from schemas.manifest import Manifest
from services._rules.autoscaling.autoscaler_status import cron_status
from services._rules.autoscaling.cron_rules import rule_settings
from services._rules.autoscaling.cron_schedule import CronError, parse_schedule
from services._rules.constants import AUTOSCALING_API
from services._rules.decision import NOTHING, Decision
from services._rules.kubernetes.event_objects import Involved, Note, note_about

COMPONENT: Final = "cronfederatedhpa-controller"
LATEST: Final = 30.0
"""Seconds by which a run may be late, as after a change of leaders; later ones are left out."""
_FAR: Final = 86_400.0
"""A last run that is further ahead of the clock was made by a clock that was wrong."""
LATE: Final = "late"
OVERLAPPING: Final = "overlapping"
MISSED: Final = (LATE, OVERLAPPING)
"""Why a run is left out: it is too late for it, or the one before is under way."""
INTERRUPTED: Final = "the service ended while the rule was carried out: whether its target was scaled is not known"


class Schedule(Struct, frozen=True):
    """A CronFederatedHPA as it stands."""

    uid: str
    generation: int
    spec: Manifest


class Run(Struct, frozen=True):
    """Carry out one rule."""

    key: PolicyKey
    rule: Manifest
    target: Manifest
    scheduled: float


class Missed(Struct, frozen=True):
    """A run of a rule was due and is left out."""

    key: PolicyKey
    rule: str
    scheduled: float
    why: str


class WriteHistory(Struct, frozen=True):
    """Write the status of a CronFederatedHPA of this uid."""

    key: PolicyKey
    uid: str
    status: Manifest


class TellOfSchedule(Struct, frozen=True):
    """Record an Event about a CronFederatedHPA."""

    note: Note


def decide_schedule(
    last: ScheduleAdvanced | None,
    given: Schedule | None,
    key: PolicyKey,
    now: float,
    ended: Mapping[str, RuleRun],
    under_way: frozenset[str],
) -> Decision:
    """What becomes of a CronFederatedHPA.

    `ended` are the runs that ended since, by rule, `under_way` the rules that this instance is carrying out. A run is
    on the log before it begins: no moment is served twice, whatever happens to the service or to the clock.
    """
    if given is None:
        return Decision((ScheduleReleased(key=key, uid=last.uid),)) if last is not None else NOTHING
    before = last if last is not None and last.uid == given.uid else None
    target = given.spec.get("scaleTargetRef") or {}
    known = {rule.name: rule for rule in before.rules} if before is not None else {}
    same_target = before is not None and msgspec.json.decode(before.target) == target
    rules: list[RuleProgress] = []
    effects: list[object] = []
    for rule in given.spec.get("rules") or ():
        old = known.get(str(rule.get("name") or ""))
        progress = _current(old if old is not None and same_target else None, old, rule, now)
        progress = _closed(progress, rule, ended, under_way, now)
        if why := _left_out(progress, now):
            effects.append(Missed(key, progress.name, progress.due or 0.0, why))
        progress, runs = _advanced(progress, rule, now)
        if runs:
            effects.append(Run(key, rule, target, progress.last))
        if progress.problem and (old is None or old.problem != progress.problem):
            effects.append(TellOfSchedule(_note(key, given.uid, "StartRuleFailed", progress.problem)))
        rules.append(progress)
        if (run := ended.get(progress.name)) is not None and run.problem:
            words = f"rule {progress.name}: {run.problem}"
            effects.append(TellOfSchedule(_note(key, given.uid, "ScaleFailed", words)))
    event = ScheduleAdvanced(
        key=key, uid=given.uid, target=_raw(target), generation=given.generation, rules=tuple(rules)
    )
    changed = before is None or _told(before) != _told(event)
    effects.append(WriteHistory(key, given.uid, cron_status(event)))
    wake = min((rule.due for rule in rules if rule.due is not None), default=None)
    return Decision((event,) if changed else (), wake_at=wake, effects=effects)


def _current(same: RuleProgress | None, old: RuleProgress | None, rule: Manifest, now: float) -> RuleProgress:
    """The progress of a rule: the one before as long as the rule is the same, else a fresh next run."""
    if same is not None and msgspec.json.decode(same.rule) == rule:
        # A clock that was set back brings runs nearer, never one that was made already.
        return same if same.due is None or not _too_far(same, rule, now) else replace(same, due=_next(same, rule, now))
    name = str(rule.get("name") or "")
    fresh = replace(old, rule=_raw(rule), problem="") if old is not None else RuleProgress(name, _raw(rule))
    if rule_settings(rule).suspended:
        return replace(fresh, due=None)
    try:
        return replace(fresh, due=_next(fresh, rule, now))
    except CronError as error:
        return replace(
            fresh, due=None, problem=f"rule {name}: schedule {rule.get('schedule')!r} cannot be run: {error}"
        )


def _too_far(progress: RuleProgress, rule: Manifest, now: float) -> bool:
    due = _next(progress, rule, now)
    return due is not None and progress.due is not None and due < progress.due


def _next(progress: RuleProgress, rule: Manifest, now: float) -> float | None:
    schedule = parse_schedule(str(rule.get("schedule") or ""), str(rule.get("timeZone") or ""))
    last = progress.last if progress.last <= now + _FAR else 0.0
    return schedule.after(max(now, last))


def _closed(
    progress: RuleProgress, rule: Manifest, ended: Mapping[str, RuleRun], under_way: frozenset[str], now: float
) -> RuleProgress:
    """Take in how a run ended."""
    run = ended.get(progress.name)
    if run is None:
        if not progress.running or progress.name in under_way:
            return _trimmed(progress, rule)
        run = RuleRun(progress.last, now, problem=INTERRUPTED)
    if not progress.running or run.scheduled != progress.last:
        return _trimmed(progress, rule)
    if run.problem:
        return _trimmed(replace(progress, running=False, failures=(run, *progress.failures)), rule)
    return _trimmed(replace(progress, running=False, successes=(run, *progress.successes)), rule)


def _trimmed(progress: RuleProgress, rule: Manifest) -> RuleProgress:
    settings = rule_settings(rule)
    successes, failures = progress.successes[: settings.successes], progress.failures[: settings.failures]
    return replace(progress, successes=successes, failures=failures)


def _left_out(progress: RuleProgress, now: float) -> str:
    """Why a run that is due is not made; empty where it is, and where none is due."""
    due = progress.due
    if due is None or due > now or progress.last == due:
        return ""
    if now - due > LATEST:
        return LATE
    return OVERLAPPING if progress.running else ""


def _advanced(progress: RuleProgress, rule: Manifest, now: float) -> tuple[RuleProgress, bool]:
    """Start a run that is due; one that is long over, or meets one under way, is left out."""
    due = progress.due
    if due is None or due > now:
        return progress, False
    starts = not _left_out(progress, now) and progress.last != due
    moved = replace(progress, last=due) if starts else progress
    return replace(moved, due=_next(moved, rule, now), running=progress.running or starts), starts


def _told(event: ScheduleAdvanced) -> tuple[Any, ...]:
    return (event.generation, msgspec.json.decode(event.target), msgspec.json.encode(event.rules))


def _raw(value: Any) -> Raw:
    return Raw(msgspec.json.encode(value, order="sorted"))


def _note(key: PolicyKey, uid: str, reason: str, message: str) -> Note:
    place = ObjectKey("autoscaling.karmada.io", "cronfederatedhpas", key.namespace, key.name)
    return note_about(Involved(place, uid, AUTOSCALING_API, key.kind), reason, message, COMPONENT, warning=True)
