"""Validates schedules of a CronFederatedHPA: five fields, optionally seconds and a year, or a macro.

What is let through here may still be one that the autoscaler cannot run (`L`, `@always`): the two readers differ, and
users rely on an event about that instead of a refusal.
"""

import re
from typing import Final

_MACROS: Final = frozenset(
    {
        "@always",
        "@everysecond",
        "@5minutes",
        "@10minutes",
        "@15minutes",
        "@30minutes",
        "@hourly",
        "@daily",
        "@weekly",
        "@monthly",
        "@yearly",
        "@annually",
    }
)
# Second, minute, hour, day of the month, month, day of the week, year.
_BOUNDS: Final = ((0, 59), (0, 59), (0, 23), (1, 31), (1, 12), (0, 7), (1, 9999))
_DAY_OF_MONTH: Final = 3
_DAY_OF_WEEK: Final = 5
_NAMES: Final = {
    name: str(number)
    for names, first in (("SUN MON TUE WED THU FRI SAT", 0), ("JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC", 1))
    for number, name in enumerate(names.split(), first)
}
_NAME: Final = re.compile("|".join(_NAMES))
_YEAR: Final = re.compile(r".*[0-9]{4}")
_NUMBER: Final = re.compile(r"[-+]?[0-9]+")
_MONTH_DAY: Final = re.compile(r"L|(?P<day>[0-9]+)W")
_WEEK_DAY: Final = re.compile(r"[0-7]L|[0-7]#[1-5]")


def is_valid(schedule: str) -> bool:
    """Whether a schedule is let through."""
    if schedule.strip().lower() in _MACROS:
        return True
    fields = _NAME.sub(lambda found: _NAMES[found[0]], schedule.upper()).split()
    if len(fields) == 5 or (len(fields) == 6 and _YEAR.match(fields[5])):
        fields.insert(0, "0")
    if not 6 <= len(fields) <= 7:
        return False
    return all(_is_valid_item(item, position) for position, field in enumerate(fields) for item in field.split(","))


def _is_valid_item(item: str, position: int) -> bool:
    if item in ("*", "?"):
        return True
    low, high = _BOUNDS[position]
    if position == _DAY_OF_MONTH and (found := _MONTH_DAY.fullmatch(item)):
        return found["day"] is None or low <= int(found["day"]) <= high
    if position == _DAY_OF_WEEK and _WEEK_DAY.fullmatch(item):
        return True
    base, slash, step = item.partition("/")
    if slash:
        if _number(step) in (None, 0):
            return False
        if base == "*":
            return True
    elif position == _DAY_OF_WEEK:
        base = base.replace("7-", "0-", 1)
    return _is_valid_range(base, low, high)


def _is_valid_range(text: str, low: int, high: int) -> bool:
    parts = text.split("-")
    numbers = [_number(part) for part in parts[:2]]
    start, end = numbers[0], numbers[-1]
    return start is not None and end is not None and low <= start <= end <= high


def _number(text: str) -> int | None:
    return int(text) if _NUMBER.fullmatch(text) else None
