"""When a cron schedule fires next: five fields, names, ranges, steps, macros and @every, in a time zone."""

import re
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

_MONTHS = {
    name: number
    for number, name in enumerate(
        ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"], 1
    )
}
_DAYS = {name: number for number, name in enumerate(["sun", "mon", "tue", "wed", "thu", "fri", "sat"])}
_FIELDS: tuple[tuple[int, int, dict[str, int]], ...] = (
    (0, 59, {}),
    (0, 23, {}),
    (1, 31, {}),
    (1, 12, _MONTHS),
    (0, 7, _DAYS),
)
_MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?")
_YEARS_AHEAD = 5


class CronError(ValueError):
    """A schedule or time zone that cannot be read; the message names the part."""


class Schedule(NamedTuple):
    """The allowed values of each field; ``every`` seconds instead when it is set."""

    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    any_day: bool
    """Whether the day of the month or that of the week is open, so that both must match instead of either."""
    every: int = 0


@lru_cache(maxsize=256)
def parse(text: str) -> Schedule:
    """Read a schedule; raises CronError."""
    text = text.strip()
    if text.startswith("@every "):
        return Schedule((), (), frozenset(), frozenset(), frozenset(), any_day=True, every=_duration(text[7:].strip()))
    parts = _MACROS.get(text, text).split()
    if len(parts) != 5:
        raise CronError(f"schedule {text!r}: five fields or a macro such as @daily are needed")
    minutes, hours, days, months, weekdays = (_field(part, i) for i, part in enumerate(parts))
    return Schedule(
        tuple(sorted(minutes)),
        tuple(sorted(hours)),
        frozenset(days),
        frozenset(months),
        frozenset(day % 7 for day in weekdays),
        any_day=parts[2][0] in "*?" or parts[4][0] in "*?",
    )


def next_after(text: str, zone: str, after: float) -> float | None:
    """Return the first time (Unix seconds) after ``after``, none when there is none for years; raises CronError."""
    schedule = parse(text)
    if schedule.every:
        return (after // 1) + schedule.every
    local = datetime.fromtimestamp(after, UTC).astimezone(_zone(zone))
    start = local.replace(second=0, microsecond=0) + timedelta(minutes=1)
    day = start.date()
    for number in range(366 * _YEARS_AHEAD):
        if _on(schedule, day.day, day.month, day.isoweekday() % 7):
            first = start if number == 0 else datetime(day.year, day.month, day.day, tzinfo=local.tzinfo)
            for hour in schedule.hours:
                if hour < first.hour:
                    continue
                for minute in schedule.minutes:
                    if hour == first.hour and minute < first.minute:
                        continue
                    found = first.replace(hour=hour, minute=minute).timestamp()
                    if found > after:
                        return found
        day += timedelta(days=1)
    return None


def _on(schedule: Schedule, day: int, month: int, weekday: int) -> bool:
    if month not in schedule.months:
        return False
    matches = (day in schedule.days, weekday in schedule.weekdays)
    return all(matches) if schedule.any_day else any(matches)


def _field(text: str, index: int) -> set[int]:
    low, high, names = _FIELDS[index]
    found: set[int] = set()
    for item in text.lower().split(","):
        values, _, step_text = item.partition("/")
        if step_text and (not step_text.isdigit() or not int(step_text)):
            raise CronError(f"schedule field {text!r}: the step {step_text!r} is no positive number")
        if values in ("*", "?"):
            first, last = low, high if index != 4 else 6
        else:
            begin, dash, end = values.partition("-")
            first = _number(begin, names, text)
            last = _number(end, names, text) if dash else high if step_text else first
        if not low <= first <= last <= high:
            raise CronError(f"schedule field {text!r}: {item!r} is not within {low}-{high}")
        found.update(range(first, last + 1, int(step_text or 1)))
    return found


def _number(text: str, names: dict[str, int], field: str) -> int:
    if text in names:
        return names[text]
    if not text.isdigit():
        raise CronError(f"schedule field {field!r}: {text!r} is no number")
    return int(text)


def _duration(text: str) -> int:
    found = _DURATION.fullmatch(text)
    total = sum(int(part or 0) * unit for part, unit in zip(found.groups(), (3600, 60, 1), strict=True)) if found else 0
    if not total:
        raise CronError(f"@every {text!r}: write hours, minutes and seconds, such as 1h30m")
    return total


@lru_cache(maxsize=64)
def _zone(name: str) -> tzinfo:
    if not name:
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError) as e:
        raise CronError(f"time zone {name!r} is not known") from e
