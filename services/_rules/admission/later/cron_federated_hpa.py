"""Rules of CronFederatedHPA (reference 01 §4.3)."""

import re
import zoneinfo
from collections.abc import Mapping
from typing import Any, Final

from schemas.manifest import Manifest
from services._rules.admission.later import cron_expression as cron
from services._rules.admission.later.federated_hpa import target_reference
from services._rules.constants import AUTOSCALING_API
from services._rules.kubernetes.validation import name_formats as names
from services._rules.kubernetes.validation import object_metadata as metadata
from services._rules.kubernetes.validation.field_errors import FieldError, duplicate, invalid

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
    found += target_reference(target, "spec.scaleTargetRef")
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
    if not cron.is_valid(schedule):
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
