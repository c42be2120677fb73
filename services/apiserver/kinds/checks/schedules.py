"""Checks of cron schedules, with the texts that a CronJob's bad schedule is refused with."""

from __future__ import annotations

import re

_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_DAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
_FIELDS: tuple[tuple[int, int, dict[str, int]], ...] = (
    (0, 59, {}),
    (0, 23, {}),
    (1, 31, {}),
    (1, 12, {name: number for number, name in enumerate(_MONTHS, 1)}),
    (0, 6, {name: number for number, name in enumerate(_DAYS)}),
)
_DESCRIPTORS = ("@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly")
_DURATION = re.compile(r"^([0-9]+(\.[0-9]*)?(ns|us|µs|ms|s|m|h))+$")


def problem(schedule: str) -> str:
    """Return what is wrong with a schedule; empty when it is good."""
    zone, _, rest = schedule.partition(" ")
    if zone.startswith(("TZ=", "CRON_TZ=")):
        schedule = rest.strip()
    if schedule.startswith("@"):
        if schedule in _DESCRIPTORS:
            return ""
        if schedule.startswith("@every "):
            duration = schedule.removeprefix("@every ")
            return (
                ""
                if _DURATION.match(duration)
                else f'Failed to parse duration {schedule}: time: invalid duration "{duration}"'
            )
        return f"Unrecognized descriptor: {schedule}"
    parts = schedule.split()
    if len(parts) != 5:
        return f"Expected exactly 5 fields, found {len(parts)}: {schedule}"
    for part, (low, high, known) in zip(parts, _FIELDS, strict=True):
        for item in part.split(","):
            if text := _range(item, low, high, known):
                return text
    return ""


def _range(item: str, low: int, high: int, known: dict[str, int]) -> str:
    bounds, slash, step = item.partition("/")
    first, dash, last = bounds.partition("-")
    if "/" in step:
        return f"Too many slashes: {item}"
    if bounds in ("*", "?"):
        start, end = low, high
    elif "-" in last:
        return f"Too many hyphens: {item}"
    else:
        numbers = []
        for text in (first, last) if dash else (first,):
            number = known.get(text.lower()) if text.lower() in known else _int(text)
            if number is None:
                return f'Failed to parse int from {text}: strconv.Atoi: parsing "{text}": invalid syntax'
            numbers.append(number)
        start, end = numbers[0], numbers[-1] if dash or not slash else high
    if slash:
        number = _int(step)
        if number is None:
            return f'Failed to parse int from {step}: strconv.Atoi: parsing "{step}": invalid syntax'
        if number == 0:
            return f"Step of range should be a positive number: {item}"
    if start < low:
        return f"Beginning of range ({start}) below minimum ({low}): {item}"
    if end > high:
        return f"End of range ({end}) above maximum ({high}): {item}"
    if start > end:
        return f"Beginning of range ({start}) beyond end of range ({end}): {item}"
    return ""


def _int(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() else None
