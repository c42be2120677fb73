"""Reads values of custom and external metrics from the answer of a member, in whichever version it answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import msgspec
from msgspec import Raw, Struct

from services._rules.kubernetes.quantity import Quantity
from services._rules.metrics.measured_values import (
    LONGEST_WINDOW,
    Unusable,
    amount,
    check_labels,
    check_name,
    check_time,
    shown,
)
from services._rules.metrics.metric_questions import EVERY, OF_NAMESPACE, ExternalQuestion, ValueQuestion


class Described(Struct, omit_defaults=True, rename="camel", frozen=True):
    """The object that a value is of."""

    kind: str = ""
    namespace: str = ""
    name: str = ""
    api_version: str = ""


class _Requirement(Struct, omit_defaults=True, frozen=True):
    key: str
    operator: str
    values: list[str] | None = None


class Selector(Struct, omit_defaults=True, rename="camel", frozen=True):
    """A label selector, as a client can read it."""

    match_labels: dict[str, str] | None = None
    match_expressions: list[_Requirement] | None = None


class Measured(Struct, frozen=True):
    """One value: of an object, or (external metrics) of a set of labels.

    `at` is an RFC 3339 time, `window` the seconds before it over which was measured. `selector` is the metric selector
    as the member repeats it.
    """

    value: Quantity
    at: str
    window: int | None = None
    described: Described = Described()
    labels: tuple[tuple[str, str], ...] = ()
    selector: Selector | None = None

    @property
    def key(self) -> tuple[str, tuple[tuple[str, str], ...]]:
        """What values of several members are summed by."""
        return self.described.name, self.labels


class _Identifier(Struct):
    name: str
    selector: Selector | None = None


class _Older(Struct, rename="camel"):
    described_object: Described
    metric_name: str
    timestamp: str
    value: str | float
    window: int | None = None
    selector: Selector | None = None


class _Newer(Struct, rename="camel"):
    described_object: Described
    metric: _Identifier
    timestamp: str
    value: str | float
    window_seconds: int | None = None


class _External(Struct, rename="camel"):
    metric_name: str
    timestamp: str
    value: str | float
    metric_labels: dict[str, str] | None = None
    window: int | None = None


_older: Final = msgspec.json.Decoder(_Older)
_newer: Final = msgspec.json.Decoder(_Newer)
_external: Final = msgspec.json.Decoder(_External)

Reading = Callable[[bytes | Raw], Measured]


def value_reading(question: ValueQuestion | ExternalQuestion, version: str) -> Reading:
    """The function that reads one item of an answer in a version; it raises Unusable."""

    def read(raw: bytes | Raw) -> Measured:
        try:
            found = _read(raw, question, version)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise Unusable(f"it is no value of a metric: {str(error)[:200]}") from error
        if found.window is not None and not 0 <= found.window <= LONGEST_WINDOW:
            raise Unusable(f"{found.described.name[:200]}: a window of {shown(found.window)} seconds")
        return found

    return read


def _read(raw: bytes | Raw, question: ValueQuestion | ExternalQuestion, version: str) -> Measured:
    match question:
        case ExternalQuestion():
            external = _external.decode(raw)
            labels = external.metric_labels or {}
            _check(question.metric, external.metric_name, external.timestamp)
            check_labels(labels)
            pairs = tuple(sorted(labels.items()))
            return Measured(amount(external.value), external.timestamp, external.window, labels=pairs)
        case ValueQuestion() if version == "v1beta1":
            older = _older.decode(raw)
            selector, window = older.selector, older.window
            of, metric, at, value = older.described_object, older.metric_name, older.timestamp, older.value
        case ValueQuestion():
            newer = _newer.decode(raw)
            selector, window = newer.metric.selector, newer.window_seconds
            of, metric, at, value = newer.described_object, newer.metric.name, newer.timestamp, newer.value
    check_name(of.name)
    try:
        _check(question.metric, metric, at)
        _check_object(question, of)
        return Measured(amount(value), at, window, of, selector=selector)
    except Unusable as error:
        raise Unusable(f"{of.name[:200]}: {error}") from error


def _check(asked: str, metric: str, at: str) -> None:
    if metric != asked:
        raise Unusable(f"it is of metric {shown(metric)}, not {shown(asked)}")
    check_time(at)


def _check_object(question: ValueQuestion, of: Described) -> None:
    for text in filter(None, (of.kind, *of.api_version.split("/"))):
        check_name(text)
    if question.name not in (EVERY, of.name):
        raise Unusable(f"{shown(question.name)} was asked for")
    wanted = "" if question.resource == OF_NAMESPACE else question.namespace
    if wanted and of.namespace not in ("", wanted):
        raise Unusable(f"namespace {shown(wanted)} was asked for")
    if of.namespace:
        check_name(of.namespace)


def summed(by_member: Mapping[str, list[Measured]]) -> list[Measured]:
    """One value for each object (by its name) or set of labels: the sum over members.

    A sum is as old as its oldest part and was measured over the longest of their windows; what else it says is that
    of the first member by name.
    """
    found: dict[tuple[str, tuple[tuple[str, str], ...]], Measured] = {}
    for cluster in sorted(by_member):
        for one in by_member[cluster]:
            before = found.get(one.key)
            found[one.key] = one if before is None else _plus(before, one)
    return list(found.values())


def _plus(one: Measured, other: Measured) -> Measured:
    windows = [window for window in (one.window, other.window) if window is not None]
    return msgspec.structs.replace(
        one,
        value=one.value + other.value,
        at=min(one.at, other.at, key=_moment),
        window=max(windows) if windows else None,
    )


def _moment(at: str) -> tuple[str, str]:
    """A time as it sorts: fractions of seconds are written with as many digits as they have."""
    whole, _, fraction = at.removesuffix("Z").partition(".")
    return whole, fraction.ljust(9, "0")


def shown_value(one: Measured, question: ValueQuestion | ExternalQuestion, version: str) -> dict[str, object]:
    """A value as an item of the list that a version answers with."""
    window = {} if one.window is None else {"windowSeconds" if version == "v1beta2" else "window": one.window}
    measured = {"timestamp": one.at, **window, "value": str(one.value)}
    if isinstance(question, ExternalQuestion):
        return {"metricName": question.metric, "metricLabels": dict(one.labels), **measured}
    if version == "v1beta1":
        return {
            "describedObject": one.described,
            "metricName": question.metric,
            **measured,
            "selector": one.selector,
        }
    return {"describedObject": one.described, "metric": {"name": question.metric, "selector": one.selector}, **measured}
