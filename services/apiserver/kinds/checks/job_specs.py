"""Checks of the specs of Jobs beside their pods: numbered pods, failure policies, what may change while a Job waits."""

from __future__ import annotations

import zoneinfo
from functools import lru_cache
from typing import Final

from schemas.manifest import Manifest
from services._rules.autoscaling.cron_schedule import CronError, parse_schedule
from services._rules.kubernetes.validation import name_formats as names
from services._rules.kubernetes.validation.field_errors import (
    Errors,
    FieldError,
    duplicate,
    invalid,
    not_supported,
    required,
    too_long,
    too_many,
)
from services._rules.kubernetes.validation.field_rules import (
    NOT_NEGATIVE,
    apply,
    choice,
    domain_prefixed,
    immutable,
    not_negative,
    repeated,
)

_MOST_NUMBERED: Final = 100_000
_MOST_RULES: Final = 20
_MOST_CODES: Final = 255
_ACTIONS: Final = ("Count", "FailIndex", "FailJob", "Ignore")
_DIRECTIONS: Final = ("nodeSelector", "tolerations", "schedulingGates")

_MODE = choice("completionMode", ("NonIndexed", "Indexed"))
_COUNTS = not_negative("backoffLimitPerIndex", "maxFailedIndexes")


def newer_rules(spec: Manifest, path: str) -> list[FieldError]:
    """Return what is wrong with the fields of a Job's spec that newer releases added."""
    return apply((_COUNTS, _managed, _MODE, _numbered, _failed, _succeeded, _replaced), spec, path)


_LONGEST_MANAGER: Final = 63


def _managed(spec: Manifest, path: str) -> Errors:
    manager, field = spec.get("managedBy"), f"{path}.managedBy"
    if manager is None:
        return
    if manager:
        yield from domain_prefixed(manager, field)
    else:
        yield required(field)
    if len(manager) > _LONGEST_MANAGER:
        yield too_long(field, manager, _LONGEST_MANAGER)


def _numbered(spec: Manifest, path: str) -> Errors:
    if spec.get("maxFailedIndexes") is not None and spec.get("backoffLimitPerIndex") is None:
        yield required(f"{path}.backoffLimitPerIndex", "when maxFailedIndexes is specified")
    mode = spec.get("completionMode", "NonIndexed")
    if mode == "NonIndexed":
        for name in ("backoffLimitPerIndex", "maxFailedIndexes"):
            if spec.get(name) is not None:
                yield invalid(f"{path}.{name}", spec[name], "requires indexed completion mode")
    if mode != "Indexed":
        return
    most, failed = spec.get("completions"), spec.get("maxFailedIndexes") or 0
    if most is None:
        yield required(f"{path}.completions", "when completion mode is Indexed")
    if (pods := spec.get("parallelism", 0)) > _MOST_NUMBERED:
        text = f"must be less than or equal to {_MOST_NUMBERED} when completion mode is Indexed"
        yield invalid(f"{path}.parallelism", pods, text)
    if failed > (_MOST_NUMBERED if most is None else min(most, _MOST_NUMBERED)):
        yield invalid(f"{path}.maxFailedIndexes", failed, "must be less than or equal to completions")


def _replaced(spec: Manifest, path: str) -> Errors:
    policy, known = spec.get("podReplacementPolicy"), ["Failed", "TerminatingOrFailed"]
    if spec.get("podFailurePolicy") is not None:
        known = known[:1]
    if policy is not None and policy not in known:
        yield not_supported(f"{path}.podReplacementPolicy", policy, known)


def _failed(spec: Manifest, path: str) -> Errors:
    policy = spec.get("podFailurePolicy")
    if policy is None:
        return
    pod = (spec.get("template") or {}).get("spec") or {}
    if (restart := pod.get("restartPolicy")) != "Never":
        text = 'only "Never" is supported when podFailurePolicy is specified'
        yield invalid(f"{path}.template.spec.restartPolicy", restart, text)
    field, rules = f"{path}.podFailurePolicy.rules", policy.get("rules") or []
    if len(rules) > _MOST_RULES:
        yield too_many(field, len(rules), _MOST_RULES)
    containers = [*(pod.get("containers") or ()), *(pod.get("initContainers") or ())]
    known = {item.get("name", "") for item in containers}
    for index, rule in enumerate(rules):
        yield from _failure_rule(rule, f"{field}[{index}]", known)


def _succeeded(spec: Manifest, path: str) -> Errors:
    policy, field = spec.get("successPolicy"), f"{path}.successPolicy"
    if policy is None:
        return
    if spec.get("completionMode") != "Indexed":
        yield invalid(field, policy, "requires indexed completion mode")
        return
    rules = policy.get("rules") or []
    if not rules:
        yield required(f"{field}.rules", "at least one rule must be specified when the successPolicy is specified")
    if len(rules) > _MOST_RULES:
        yield too_many(f"{field}.rules", len(rules), _MOST_RULES)
    for index, rule in enumerate(rules):
        yield from _success_rule(rule, f"{field}.rules[{index}]", spec.get("completions") or 0)


def _success_rule(rule: Manifest, path: str, completions: int) -> Errors:
    indexes, count, field = rule.get("succeededIndexes"), rule.get("succeededCount"), f"{path}.succeededCount"
    if indexes is None and count is None:
        yield required(path, "at least one of succeededCount or succeededIndexes must be specified")
    total, problem = parsed_indexes(indexes or "", completions)
    if problem:
        yield invalid(f"{path}.succeededIndexes", indexes, f"error parsing succeededIndexes: {problem}")
    if count is None:
        return
    if count < 0:
        yield invalid(field, count, NOT_NEGATIVE)
    text = "must be less than or equal to"
    if count > completions:
        yield invalid(field, count, f"{text} {completions} (the number of specified completions)")
    if indexes is not None and count > total:
        where = "the number of indexes in the specified succeededIndexes field"
        yield invalid(field, count, f"{text} {total} ({where})")


def parsed_indexes(text: str, completions: int) -> tuple[int, str]:
    """Return how many indexes a text such as `0,2-4` names, 0 with a problem where it is no such text."""
    total, last = 0, -1
    for part in text.split(",") if text else ():
        limits = part.split("-")
        if len(limits) > 2 or not all(one.isascii() and one.isdigit() for one in limits):
            return 0, f'the fragment "{part}" is neither an index nor a range of indexes'
        first, end = int(limits[0]), int(limits[-1])
        if end >= completions:
            return 0, f"too large index: {end}"
        if first <= last or end < first:
            return 0, f"non-increasing order, previous: {last}, current: {first}"
        total, last = total + end - first + 1, end
    return total, ""


_OPERATOR = choice("operator", ("In", "NotIn"), need='valid values: "In", "NotIn"')


def _failure_rule(rule: Manifest, field: str, containers: set[str]) -> Errors:
    action, codes, conditions = rule.get("action", ""), rule.get("onExitCodes"), rule.get("onPodConditions")
    if action not in _ACTIONS:
        place, text = f"{field}.action", f"valid values: {_quoted(_ACTIONS)}"
        yield not_supported(place, action, _ACTIONS) if action else required(place, text)
    if codes is not None:
        yield from _exit_codes(codes, f"{field}.onExitCodes", containers)
    for index, pattern in enumerate(conditions or ()):
        yield from _condition(pattern, f"{field}.onPodConditions[{index}]")
    if codes is not None and conditions:
        yield invalid(field, None, "specifying both OnExitCodes and OnPodConditions is not supported")
    elif codes is None and not conditions:
        yield invalid(field, None, "specifying one of OnExitCodes and OnPodConditions is required")


def _exit_codes(codes: Manifest, path: str, containers: set[str]) -> Errors:
    name, values, field = codes.get("containerName"), codes.get("values") or [], f"{path}.values"
    yield from _OPERATOR(codes, path)
    if name is not None and name not in containers:
        text = "must be one of the container or initContainer names in the pod template"
        yield invalid(f"{path}.containerName", name, text)
    if not values:
        yield invalid(field, values, "at least one value is required")
    elif len(values) > _MOST_CODES:
        yield too_many(field, len(values), _MOST_CODES)
    again = set(repeated(values))
    for index, code in enumerate(values):
        if codes.get("operator") == "In" and code == 0:
            yield invalid(f"{field}[{index}]", code, "must not be 0 for the In operator")
        if index in again:
            yield duplicate(f"{field}[{index}]", code)
    if values != sorted(values):
        yield invalid(field, values, "must be ordered")


_STATES: Final = ("False", "True", "Unknown")
_STATE: Final = choice("status", _STATES, need='valid values: "False", "True", "Unknown"')


def _condition(pattern: Manifest, path: str) -> Errors:
    name = pattern.get("type", "")
    yield from (invalid(f"{path}.type", name, problem) for problem in names.qualified(name))
    yield from _STATE(pattern, path)


def _quoted(values: tuple[str, ...]) -> str:
    return ", ".join(f'"{value}"' for value in values)


def completions(new: Manifest, old: Manifest, path: str) -> list[FieldError]:
    """Return an error when the number of completions changed, but together with the number of numbered pods."""
    wanted, before, field = new.get("completions"), old.get("completions"), f"{path}.completions"
    if wanted == before or new.get("completionMode") != "Indexed":
        return immutable(field, wanted, before)
    if wanted is not None and wanted == new.get("parallelism"):
        return []
    return [invalid(field, wanted, f"can only be modified in tandem with {path}.parallelism")]


def template(new: Manifest, old: Manifest, path: str) -> list[FieldError]:
    """Return an error when the template changed, but for where its pods go while the Job has never run."""
    wanted, before = new["spec"].get("template") or {}, old["spec"].get("template") or {}
    waits = old["spec"].get("suspend") and not (old.get("status") or {}).get("startTime")
    if wanted == before or not waits:
        return immutable(f"{path}.template", wanted, before)
    return immutable(f"{path}.template", _undirected(wanted), _undirected(before), wanted)


def _undirected(value: Manifest) -> Manifest:
    """A template without what says where its pods go."""
    metadata = {name: part for name, part in (value.get("metadata") or {}).items() if name not in _MARKS}
    spec = {name: part for name, part in (value.get("spec") or {}).items() if name not in _DIRECTIONS}
    affinity = {name: part for name, part in (spec.pop("affinity", None) or {}).items() if name != "nodeAffinity"}
    return {"metadata": metadata, "spec": {**spec, "affinity": affinity}}


_MARKS: Final = ("labels", "annotations")


@lru_cache(maxsize=1024)
def _is_zone(name: str) -> bool:
    """Whether this machine knows a time zone by that name."""
    try:
        zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True


def schedule_problem(schedule: str) -> str:
    """Return what is wrong with the schedule of a CronJob; empty when it is good."""
    try:
        parse_schedule(schedule)
    except CronError as error:
        return str(error)
    return ""


def no_zone_in_schedule(spec: Manifest, path: str) -> Errors:
    """Yield an error for a schedule that names its time zone itself."""
    schedule = spec.get("schedule", "")
    if "TZ" in schedule:
        text = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
        if spec.get("timeZone") is not None:
            text = "cannot use both timeZone field and TZ or CRON_TZ in schedule"
        yield invalid(f"{path}.schedule", schedule, text)


def zone(spec: Manifest, path: str) -> Errors:
    """Yield what is wrong with the time zone of a CronJob."""
    name, field = spec.get("timeZone"), f"{path}.timeZone"
    if name is None:
        return
    if not name:
        yield invalid(field, name, "timeZone must be nil or non-empty string")
    elif name.lower() == "local":
        text = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
        yield invalid(field, name, text)
    elif not _is_zone(name) and _is_zone("UTC"):
        yield invalid(field, name, f"unknown time zone {name}")
