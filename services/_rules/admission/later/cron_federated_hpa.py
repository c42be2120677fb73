"""Rules of CronFederatedHPA and its schedules (docs/sources.md#admission)."""

import re
import zoneinfo
from collections.abc import Mapping
from typing import Any, Final

from schemas.manifest import Manifest
from services._rules.constants import AUTOSCALING_API
from services._rules.kubernetes.patch.json_patch import without_nulls
from services._rules.kubernetes.validation import name_formats as names
from services._rules.kubernetes.validation import object_metadata as metadata
from services._rules.kubernetes.validation.field_errors import FieldError, duplicate, invalid
from services._rules.kubernetes.validation.field_rules import apply
from services._rules.kubernetes.validation.metric_targets import REFERENCE

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


def is_valid_schedule(schedule: str) -> bool:
    """Whether a schedule is let through: five fields, optionally seconds and a year, or a macro.

    It may still be one that the autoscaler cannot run (`L`, `@always`): the two readers differ, and users rely on an
    event about that instead of a refusal.
    """
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


_ZONE_NAME: Final = re.compile(r"[A-Za-z0-9_+-]+(?:/[A-Za-z0-9_+-]+)*")


def validate(obj: Manifest) -> list[FieldError]:
    """What is wrong with a schedule of scaling."""
    spec = obj.get("spec") or {}
    found = metadata.check_create(obj.get("metadata") or {}, names.subdomain, namespaced=True)
    target = spec.get("scaleTargetRef") or {}
    kind = target.get("kind") or ""
    if target.get("apiVersion") == AUTOSCALING_API and kind != "FederatedHPA":
        found.append(invalid("spec.scaleTargetRef.kind", kind, f"of {AUTOSCALING_API} only FederatedHPA can be scaled"))
        return found
    found += apply(REFERENCE, without_nulls(target), "spec.scaleTargetRef")
    seen: set[str] = set()
    for position, rule in enumerate(spec.get("rules") or ()):
        place = f"spec.rules[{position}]"
        name = rule.get("name") or ""
        if name in seen:
            found.append(duplicate(f"{place}.name", name))
        seen.add(name)
        found += _when(rule, place)
        found += _limits(rule, place) if kind == "FederatedHPA" else _replicas(rule, place, kind)
    return found


def is_known_time_zone(name: str) -> bool:
    """Whether a name is in the time zone database; an empty one stands for UTC, `Local` for the server's own."""
    if name in ("", "UTC", "Local"):
        return True
    if _ZONE_NAME.fullmatch(name) is None:
        return False
    try:
        zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True


def _when(rule: Mapping[str, Any], field: str) -> list[FieldError]:
    found: list[FieldError] = []
    schedule, zone = rule.get("schedule") or "", rule.get("timeZone")
    if not is_valid_schedule(schedule):
        found.append(invalid(f"{field}.schedule", schedule, "is no schedule: write five fields or a macro like @daily"))
    if zone is not None and not is_known_time_zone(zone):
        found.append(invalid(f"{field}.timeZone", zone, "is not in the time zone database"))
    return found


def _limits(rule: Mapping[str, Any], field: str) -> list[FieldError]:
    least, most = rule.get("targetMinReplicas"), rule.get("targetMaxReplicas")
    found: list[FieldError] = []
    if least is None and most is None:
        found.append(invalid(f"{field}.targetMaxReplicas", None, "set it or targetMinReplicas to scale a FederatedHPA"))
    for name, value in (("targetMinReplicas", least), ("targetMaxReplicas", most)):
        if value is not None and value <= 0:
            found.append(invalid(f"{field}.{name}", value, "must be greater than 0"))
    if least is not None and most is not None and least > most:
        found.append(invalid(f"{field}.targetMinReplicas", least, "must not be greater than targetMaxReplicas"))
    return found


def _replicas(rule: Mapping[str, Any], field: str, kind: str) -> list[FieldError]:
    replicas = rule.get("targetReplicas")
    if replicas is None:
        return [invalid(f"{field}.targetReplicas", None, f"must be set to scale a {kind}")]
    if replicas < 0:
        return [invalid(f"{field}.targetReplicas", replicas, "must be greater than or equal to 0")]
    return []
