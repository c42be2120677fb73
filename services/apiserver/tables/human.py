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


def duration(span: dt.timedelta) -> str:
    """Return a duration in at most two units, coarser the longer it is."""
    seconds = int(span.total_seconds())
    if seconds < -1:
        return "<invalid>"
    if seconds < 120:
        return f"{max(seconds, 0)}s"
    minutes = seconds // 60
    if minutes < 10:
        return _two(minutes, "m", seconds % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    hours = minutes // 60
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    days = hours // 24
    if days < 8:
        return _two(days, "d", hours % 24, "h")
    if days < 2 * 365:
        return f"{days}d"
    if days < 8 * 365:
        return _two(days // 365, "y", days % 365, "d")
    return f"{days // 365}y"


def _two(large: int, unit: str, small: int, small_unit: str) -> str:
    return f"{large}{unit}{small}{small_unit}" if small else f"{large}{unit}"


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
