"""Reads cron schedules as controllers of Kubernetes do, and says when one is due next.

Not those of every cron: Sunday is 0 only, `L` and `#` are unknown, `@every 5m` and `TZ=` are known; an hour that a
change of the clocks skips has no run, one that comes twice has two. Source: docs/sources.md#schedules; why no library
walks them: docs/adr/0035-schedules-of-replicas.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from msgspec import Struct

_MONTHS: Final = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_DAYS: Final = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
_FIELDS: Final[tuple[tuple[int, int, dict[str, int]], ...]] = (
    (0, 59, {}),
    (0, 23, {}),
    (1, 31, {}),
    (1, 12, {name: number for number, name in enumerate(_MONTHS, 1)}),
    (0, 6, {name: number for number, name in enumerate(_DAYS)}),
)
_DESCRIPTORS: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_DURATION: Final = re.compile(r"(?:[0-9]{1,12}(?:\.[0-9]{0,9})?(?:ns|us|µs|ms|s|m|h))+")
_PART: Final = re.compile(r"([0-9.]+)(ns|us|µs|ms|s|m|h)")
_SECONDS: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_LONGEST_TEXT: Final = 1024
_YEARS: Final = 5
"""A schedule with no run within so many years has none."""
_ZONE_NAME: Final = re.compile(r"[A-Za-z0-9_+-]+(?:/[A-Za-z0-9_+-]+)*")


class CronError(ValueError):
    """A schedule or time zone that cannot be read; the message names the part of it."""


class CronSchedule(Struct, frozen=True):
    """When something is due: at the minutes that all fields name, or every so many seconds (`every`)."""

    zone: tzinfo = UTC
    minutes: tuple[int, ...] = ()
    hours: tuple[int, ...] = ()
    days: frozenset[int] = frozenset()
    months: frozenset[int] = frozenset()
    weekdays: frozenset[int] = frozenset()
    both_days: bool = False
    """Whether day of the month and day of the week have to match both, as they do when one of them is a star."""
    every: int = 0

    def after(self, now: float) -> float | None:
        """The first run after a moment, both in seconds since 1970; None where there is none within five years."""
        if self.every:
            return float(int(now) + self.every)
        start = datetime.fromtimestamp(now, self.zone)
        day, last = start.date(), start.year + _YEARS
        while day.year <= last:
            if day.month not in self.months:
                day = (day.replace(day=1) + timedelta(days=32)).replace(day=1)
                continue
            if self._runs_on(day):
                found = next((at for at in self._runs(day, now) if at > now), None)
                if found is not None:
                    return found
            day += timedelta(days=1)
        return None

    def _runs_on(self, day: date) -> bool:
        of_month, of_week = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return of_month and of_week if self.both_days else of_month or of_week

    def _runs(self, day: date, now: float) -> Iterator[float]:
        """Runs of one day in their order, without those of hours that are over."""
        if not self.minutes:
            return
        for hour in self.hours:
            for fold in (0, 1):
                latest = self._at(day, hour, self.minutes[-1], fold)
                if latest is not None and latest <= now:
                    continue
                for minute in self.minutes:
                    found = self._at(day, hour, minute, fold)
                    if found is not None:
                        yield found

    def _at(self, day: date, hour: int, minute: int, fold: int) -> float | None:
        """A moment of the local clock, the second of that name with fold 1; None where there is none."""
        local = datetime(day.year, day.month, day.day, hour, minute, tzinfo=self.zone, fold=fold)
        if fold and local.utcoffset() == local.replace(fold=0).utcoffset():
            return None
        moment = local.timestamp()
        back = datetime.fromtimestamp(moment, self.zone)
        return moment if (back.hour, back.minute) == (hour, minute) else None


def parse_schedule(text: str, zone: str = "") -> CronSchedule:
    """Read a schedule of five fields, or a descriptor such as `@daily`, in a time zone; one named in it comes first.

    Raises CronError for whatever is none.
    """
    if len(text) > _LONGEST_TEXT:
        raise CronError(f"{text[:40]}… is no schedule: it has more than {_LONGEST_TEXT} characters")
    first, _, rest = text.partition(" ")
    if first.startswith(("TZ=", "CRON_TZ=")):
        zone, text = first.partition("=")[2], rest.strip()
    where = time_zone(zone)
    if text.startswith("@every "):
        return CronSchedule(where, every=_every(text))
    if text.startswith("@"):
        if text not in _DESCRIPTORS:
            raise CronError(f"Unrecognized descriptor: {text}")
        text = _DESCRIPTORS[text]
    parts = text.split()
    if len(parts) != len(_FIELDS):
        raise CronError(f"Expected exactly 5 fields, found {len(parts)}: {text}")
    sets, stars = [], []
    for part, bounds in zip(parts, _FIELDS, strict=True):
        items = [_range(item, *bounds) for item in part.split(",") if item]
        sets.append(frozenset(number for item in items for number in item[0]))
        stars.append(any(item[1] for item in items))
    minutes, hours, days, months, weekdays = sets
    return CronSchedule(
        where, tuple(sorted(minutes)), tuple(sorted(hours)), days, months, weekdays, both_days=stars[2] or stars[4]
    )


def time_zone(name: str) -> tzinfo:
    """The time zone of a name, UTC without one; raises CronError for an unknown one."""
    if name in ("", "UTC", "Local"):
        return UTC
    try:
        if _ZONE_NAME.fullmatch(name):
            return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        pass
    raise CronError(f"provided bad location {name[:64]}: it is not in the time zone database")


def _every(text: str) -> int:
    duration = text.removeprefix("@every ")
    if not _DURATION.fullmatch(duration):
        raise CronError(f'Failed to parse duration {text}: time: invalid duration "{duration}"')
    try:
        total = sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(duration))
    except ValueError:
        raise CronError(f'Failed to parse duration {text}: time: invalid duration "{duration}"') from None
    return max(int(total), 1)


def _range(item: str, low: int, high: int, known: dict[str, int]) -> tuple[range, bool]:
    """The numbers that one item of a field names, and whether it is a star without a step."""
    bounds, slash, step_text = item.partition("/")
    first, dash, last = bounds.partition("-")
    if "/" in step_text:
        raise CronError(f"Too many slashes: {item}")
    star = bounds in ("*", "?")
    if star:
        start, end = low, high
    elif "-" in last:
        raise CronError(f"Too many hyphens: {item}")
    else:
        start = _number(first, known)
        end = _number(last, known) if dash else high if slash else start
    step = _number(step_text, {}) if slash else 1
    if step == 0:
        raise CronError(f"Step of range should be a positive number: {item}")
    if start < low:
        raise CronError(f"Beginning of range ({start}) below minimum ({low}): {item}")
    if end > high:
        raise CronError(f"End of range ({end}) above maximum ({high}): {item}")
    if start > end:
        raise CronError(f"Beginning of range ({start}) beyond end of range ({end}): {item}")
    return range(start, end + 1, step), star and step == 1


def _number(text: str, known: dict[str, int]) -> int:
    if text.lower() in known:
        return known[text.lower()]
    if not (text.isascii() and text.isdigit()):
        raise CronError(f'Failed to parse int from {text}: strconv.Atoi: parsing "{text}": invalid syntax')
    return int(text)
