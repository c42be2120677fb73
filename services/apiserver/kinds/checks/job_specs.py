"""Checks of the specs of Jobs beside their pods: numbered pods, failure policies, what may change while a Job waits."""

from __future__ import annotations

import zoneinfo
from functools import lru_cache
from typing import Final

from schemas.manifest import Manifest
from services._rules.kubernetes.validation.field_errors import (
    Errors,
    ErrorType,
    FieldError,
    invalid,
    not_supported,
    required,
)
from services._rules.kubernetes.validation.field_rules import apply, choice, immutable, not_negative

INDEXES_SINCE: Final = 22  # the first minor release with jobs whose pods have numbers, and with jobs that wait
REPLACED_SINCE: Final = 29  # the first one that says when pods that end are replaced
_WAITING_SINCE: Final = 23  # the first one in which the pods of a job that waits may be directed elsewhere
_MOST_NUMBERED: Final = 100_000
_MOST_RULES: Final = 20
_ACTIONS: Final = ("Count", "FailIndex", "FailJob", "Ignore")
_DIRECTIONS: Final = ("nodeSelector", "tolerations", "schedulingGates")

_MODE = choice("completionMode", ("NonIndexed", "Indexed"))
_COUNTS = not_negative("backoffLimitPerIndex", "maxFailedIndexes")


def newer_rules(spec: Manifest, path: str) -> list[FieldError]:
    """Return what is wrong with the fields of a Job's spec that newer releases added."""
    return apply((_MODE, _COUNTS, _numbered, _replaced, _failed), spec, path)


def _numbered(spec: Manifest, path: str) -> Errors:
    if spec.get("maxFailedIndexes") is not None and spec.get("backoffLimitPerIndex") is None:
        yield required(f"{path}.backoffLimitPerIndex", "when maxFailedIndexes is specified")
    if spec.get("completionMode") != "Indexed":
        for name in ("backoffLimitPerIndex", "maxFailedIndexes"):
            if spec.get(name) is not None:
                yield invalid(f"{path}.{name}", spec[name], "requires indexed completion mode")
    elif spec.get("completions") is None:
        yield required(f"{path}.completions", "when completion mode is Indexed")
    elif (pods := spec.get("parallelism", 0)) > _MOST_NUMBERED:
        text = f"must be less than or equal to {_MOST_NUMBERED} when completion mode is Indexed"
        yield invalid(f"{path}.parallelism", pods, text)


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
        yield FieldError(ErrorType.TOO_MANY, field, f"must have at most {_MOST_RULES} items", len(rules))
    for index, rule in enumerate(rules):
        yield from _failure_rule(rule, f"{field}[{index}]")


_OPERATOR = choice("operator", ("In", "NotIn"), need='valid values: "In", "NotIn"')


def _failure_rule(rule: Manifest, field: str) -> Errors:
    action, codes, conditions = rule.get("action", ""), rule.get("onExitCodes"), rule.get("onPodConditions")
    if action not in _ACTIONS:
        place, text = f"{field}.action", f"valid values: {_quoted(_ACTIONS)}"
        yield not_supported(place, action, _ACTIONS) if action else required(place, text)
    if codes is not None and conditions:
        yield invalid(field, None, "specifying both OnExitCodes and OnPodConditions is not supported")
    elif codes is None and not conditions:
        yield invalid(field, None, "specifying one of OnExitCodes and OnPodConditions is required")
    if codes is not None:
        yield from _OPERATOR(codes, f"{field}.onExitCodes")
        if not codes.get("values"):
            yield invalid(f"{field}.onExitCodes.values", codes.get("values") or [], "at least one value is required")


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


def template(new: Manifest, old: Manifest, path: str, release: int) -> list[FieldError]:
    """Return an error when the template changed, but for where its pods go while the Job has never run."""
    wanted, before = new["spec"].get("template") or {}, old["spec"].get("template") or {}
    waits = old["spec"].get("suspend") and not (old.get("status") or {}).get("startTime")
    if wanted == before or not waits or release < _WAITING_SINCE:
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
