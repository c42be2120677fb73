"""Texts for people in table cells: ages, selectors, joined lists."""

import datetime as dt
from collections.abc import Iterable

from schemas.manifest import Manifest

NONE = "<none>"
UNKNOWN = "<unknown>"
UNSET = "<unset>"


def age(timestamp: str | None, now: dt.datetime) -> str:
    """Return how long ago an RFC 3339 time was; `<unknown>` without one."""
    moment = parse_time(timestamp)
    return UNKNOWN if moment is None else duration(now - moment)


def created(obj: Manifest, now: dt.datetime) -> str:
    """Return the age of an object."""
    return age(obj["metadata"].get("creationTimestamp"), now)


def parse_time(timestamp: str | None) -> dt.datetime | None:
    """Return the moment of an RFC 3339 time in UTC; None without one or for a text that is none."""
    if not timestamp:
        return None
    try:
        moment = dt.datetime.fromisoformat(timestamp)
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)


_MINUTE, _HOUR, _DAY, _YEAR = 60, 3600, 86400, 365 * 86400
_SCALES = (
    (2 * _MINUTE, 1, "s", 0, ""),
    (10 * _MINUTE, _MINUTE, "m", 1, "s"),
    (180 * _MINUTE, _MINUTE, "m", 0, ""),
    (8 * _HOUR, _HOUR, "h", _MINUTE, "m"),
    (48 * _HOUR, _HOUR, "h", 0, ""),
    (8 * _DAY, _DAY, "d", _HOUR, "h"),
    (2 * _YEAR, _DAY, "d", 0, ""),
    (8 * _YEAR, _YEAR, "y", _DAY, "d"),
)
"""Below how many seconds a duration is shown in which unit, and in which smaller one besides."""


def duration(span: dt.timedelta) -> str:
    """Return a duration in at most two units, coarser the longer it is."""
    seconds = int(span.total_seconds())
    if seconds < -1:
        return "<invalid>"
    for below, unit, name, small, small_name in _SCALES:
        if seconds < below:
            rest = seconds % unit // small if small else 0
            return f"{max(seconds, 0) // unit}{name}{f'{rest}{small_name}' if rest else ''}"
    return f"{seconds // _YEAR}y"


def labels(values: dict[str, str] | None) -> str:
    """Return a map of labels as `a=1,b=2`; `<none>` for an empty one."""
    return ",".join(f"{key}={value}" for key, value in sorted((values or {}).items())) or NONE


def selector(value: Manifest | None) -> str:
    """Return a label selector in the short form; `<none>` for an empty one."""
    texts = [(key, f"{key}={item}") for key, item in ((value or {}).get("matchLabels") or {}).items()]
    for rule in (value or {}).get("matchExpressions") or ():
        key, values = rule.get("key", ""), ",".join(sorted(rule.get("values") or ()))
        text = {
            "In": f"{key} in ({values})",
            "NotIn": f"{key} notin ({values})",
            "Exists": key,
            "DoesNotExist": f"!{key}",
        }.get(rule.get("operator", ""), key)
        texts.append((key, text))
    return ",".join(text for _, text in sorted(texts, key=lambda item: item[0])) or NONE


def first_of(items: Iterable[str], total: int, most: int) -> str:
    """Return up to `most` items joined by commas, and how many more there are."""
    shown = list(items)[:most]
    more = f" + {total - most} more..." if total > most else ""
    return ",".join(shown) + more


def or_none(text: str | None, empty: str = NONE) -> str:
    """Return a text, or what stands for an empty one."""
    return text or empty
