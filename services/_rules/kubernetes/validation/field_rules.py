"""Rules of fields as data: what a field needs, which values and formats it takes.

A table is a tuple of rules. A rule takes a value and its place in the object and returns what is wrong with the value;
a table is evaluated in its order, which is the order of the causes in an answer. Most rules are about one field of an
object, and hold when the field is absent unless they say otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any

import msgspec

from services._rules.kubernetes.validation import name_formats
from services._rules.kubernetes.validation.field_errors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)

NOT_NEGATIVE = "must be greater than or equal to 0"
PORT_RANGE = "must be between 1 and 65535, inclusive"

Check = Callable[[Any, str], Iterable[FieldError]]
ListCheck = Callable[[Any, str], list[FieldError]]
Form = Callable[[str], list[str]]
Test = Callable[[Any], object]


class Siblings(msgspec.Struct, frozen=True):
    """A rule of list items that compares them: `start` returns the check of one list, which knows the items before."""

    start: Callable[[], Check]


Rule = Check | Siblings
Rules = tuple[Rule, ...]


def place(path: str, name: str) -> str:
    """Return the path of a field; `path` is empty for the object itself."""
    return f"{path}.{name}" if path else name


def lookup(obj: Any, path: str) -> Any:
    """Return the value at a path of field names; None when a part of it is missing."""
    for name in path.split("."):
        obj = (obj or {}).get(name)
    return obj


def started(rules: Rules) -> list[Check]:
    """Return the checks of one list, with nothing seen so far."""
    return [rule.start() if isinstance(rule, Siblings) else rule for rule in rules]


def apply(rules: Rules, value: Any, path: str = "") -> list[FieldError]:
    """Return what a table finds wrong with a value."""
    found: list[FieldError] = []
    for rule in rules:
        found += rule(value, path)  # type: ignore[operator]
    return found


# Going into fields.


def inside(name: str, *rules: Rule, absent: Any = None) -> ListCheck:
    """Rules of the value of a field; `absent` is what they see where the field is missing."""
    only: Any = rules[0] if len(rules) == 1 else None

    def check(value: Any, path: str) -> list[FieldError]:
        inner = value.get(name)
        if inner is None:
            inner = absent
            if inner is None:
                return []
        where = f"{path}.{name}" if path else name
        found = only(inner, where) if only else apply(rules, inner, where)
        return found if type(found) is list else list(found)

    return check


def each(name: str, *rules: Rule) -> ListCheck:
    """Rules of every item of a list."""
    comparing = any(isinstance(rule, Siblings) for rule in rules)

    def check(value: Any, path: str) -> list[FieldError]:
        items = value.get(name)
        if not items:
            return []
        found: list[FieldError] = []
        checks: Any = started(rules) if comparing else rules
        where = f"{path}.{name}" if path else name
        for index, item in enumerate(items):
            place_of_item = f"{where}[{index}]"
            for one in checks:
                found += one(item, place_of_item)
        return found

    return check


def every(name: str, rule: Check, shown_as: str = "") -> ListCheck:
    """A rule of every item of a list, whose errors name the list (or `shown_as`) and not the item."""

    def check(value: Any, path: str) -> list[FieldError]:
        return [error for item in value.get(name) or () for error in rule(item, place(path, shown_as or name))]

    return check


def one_of(members: Mapping[str, Rules], missing: str, several: str, besides: tuple[str, ...] = ()) -> ListCheck:
    """Rules of a union: exactly one member is there. Fields of `besides` count as members without rules."""

    def check(value: Any, path: str) -> list[FieldError]:
        chosen = [name for name in members if name in value]
        if not chosen:
            return [] if any(name in value for name in besides) else [required(path, missing)]
        found = apply(members[chosen[0]], value[chosen[0]], place(path, chosen[0]))
        return found + [forbidden(place(path, name), several) for name in chosen[1:]]

    return check


# Fields.


def needed(*names: str, detail: str = "", when: Test | None = None) -> ListCheck:
    """Fields that must be there and not empty, of objects that pass a test."""

    def check(value: Any, path: str) -> list[FieldError]:
        missing = [required(place(path, name), detail) for name in names if not value.get(name)]
        return missing if missing and (when is None or when(value)) else []

    return check


def given(name: str, detail: str) -> ListCheck:
    """A field that must be there, and may be empty."""

    def check(value: Any, path: str) -> list[FieldError]:
        return [required(place(path, name), detail)] if value.get(name) is None else []

    return check


def unwanted(name: str, detail: str, when: Test) -> ListCheck:
    """A field that may not be set in objects that pass a test."""

    def check(value: Any, path: str) -> list[FieldError]:
        return [forbidden(place(path, name), detail)] if value.get(name) and when(value) else []

    return check


def refused(name: str, detail: str, when: Test, shown: Any = None) -> ListCheck:
    """A field whose value is wrong in objects that pass a test; the message shows `shown` for a missing value."""

    def check(value: Any, path: str) -> list[FieldError]:
        return [invalid(place(path, name), value.get(name, shown), detail)] if when(value) else []

    return check


def valid(test: Test, detail: str) -> ListCheck:
    """A value that passes a test."""

    def check(value: Any, path: str) -> list[FieldError]:
        return [] if test(value) else [invalid(path, value, detail)]

    return check


def only_if(test: Test, *rules: Rule) -> ListCheck:
    """Rules of objects that pass a test."""

    def check(value: Any, path: str) -> list[FieldError]:
        return apply(rules, value, path) if test(value) else []

    return check


def text(name: str, form: Form, *, need: str | None = None, blank: bool = False) -> ListCheck:
    """A text of a format; `need` is the detail of the error where it is missing, `blank` checks a missing one as ""."""

    def check(value: Any, path: str) -> list[FieldError]:
        found = value.get(name)
        if not found:
            if need is not None:
                return [required(place(path, name), need)]
            if not blank:
                return []
            found = ""
        texts = form(found)
        return [invalid(place(path, name), found, text) for text in texts] if texts else []

    return check


def formed(form: Form) -> ListCheck:
    """A value that is a text of a format."""

    def check(value: Any, path: str) -> list[FieldError]:
        return [invalid(path, value, text) for text in form(value)]

    return check


def choice(
    name: str, values: tuple[str, ...], *, need: str | None = None, blank: bool = False, shown: tuple[str, ...] = ()
) -> ListCheck:
    """A text of an enumeration, listed as `shown` where that differs.

    `need` is the detail of the error where it is missing. `blank` takes "" for a value, and a missing text for "" where
    it is not needed.
    """

    def check(value: Any, path: str) -> list[FieldError]:
        found = value.get(name)
        if found in values:
            return []
        if need is not None and (found is None or not (found or blank)):
            return [required(place(path, name), need)]
        if found is None and not blank:
            return []
        return [not_supported(place(path, name), found or "", shown or values)]

    return check


def listed(values: tuple[str, ...], shown: tuple[str, ...] = ()) -> ListCheck:
    """A value that is a text of an enumeration."""

    def check(value: Any, path: str) -> list[FieldError]:
        return [] if value in values else [not_supported(path, value, shown or values)]

    return check


def number(
    name: str,
    least: float = -math.inf,
    most: float = math.inf,
    detail: str = "",
    *,
    need: str | None = None,
    absent: int | None = None,
) -> ListCheck:
    """A number between two bounds.

    `need` is the detail of the error where it is missing or 0, `absent` the number that a missing one is checked as.
    """
    text = detail or (NOT_NEGATIVE if most == math.inf else f"must be between {least} and {most}, inclusive")

    def check(value: Any, path: str) -> list[FieldError]:
        found = value.get(name)
        if not found and need is not None:
            return [required(place(path, name), need)]
        if found is None:
            found = absent
            if found is None:
                return []
        return [] if least <= found <= most else [invalid(place(path, name), found, text)]

    return check


def not_negative(*names: str) -> ListCheck:
    """Numbers that are not below zero."""

    def check(value: Any, path: str) -> list[FieldError]:
        return [invalid(place(path, name), value[name], NOT_NEGATIVE) for name in names if (value.get(name) or 0) < 0]

    return check


def port_or_name(value: int | str, field: str) -> list[FieldError]:
    """Return what is wrong with a port given by number or name."""
    if isinstance(value, str):
        return [invalid(field, value, text) for text in name_formats.port_name(value)]
    return [] if 1 <= value <= 65535 else [invalid(field, value, PORT_RANGE)]


def domain_prefixed(value: str, field: str) -> list[FieldError]:
    """Return what is wrong with a path behind a domain, such as the name of a controller."""
    domain, _, path = value.partition("/")
    if not domain or not path:
        return [invalid(field, value, 'must be a domain-prefixed path (such as "acme.io/foo")')]
    found = [invalid(field, domain, problem) for problem in name_formats.subdomain(domain)]
    return found + [invalid(field, path, problem) for problem in name_formats.path_part(path)]


# Items of a list.


def repeated(values: Iterable[Hashable]) -> list[int]:
    """Return the places of the values that occurred before."""
    seen: set[Hashable] = set()
    found = []
    for index, value in enumerate(values):
        if value in seen:
            found.append(index)
        seen.add(value)
    return found


def distinct(key: Callable[[Any], Hashable], error: Callable[[Any, str], FieldError]) -> Siblings:
    """Items of a list that differ in a key; items whose key is None do not count."""

    def start() -> ListCheck:
        seen: set[Hashable] = set()

        def check(value: Any, path: str) -> list[FieldError]:
            found = key(value)
            if found in seen:
                return [error(value, path)]
            if found is not None:
                seen.add(found)
            return []

        return check

    return Siblings(start)


def unique(name: str, *, blank: bool = False) -> Siblings:
    """Items of a list that differ in a field; `blank` counts a missing one as ""."""
    empty = "" if blank else None
    return distinct(
        lambda item: item.get(name) or empty,
        lambda item, path: duplicate(place(path, name), item.get(name) or ""),
    )


# Changes.


def immutable(field: str, new: Any, old: Any, shown: Any = None) -> list[FieldError]:
    """Return an error when a field that may not change did; `shown` replaces the value in the message."""
    return [] if new == old else [invalid(field, new if shown is None else shown, "field is immutable")]


def changed(paths: tuple[str, ...], new: Any, old: Any, path: str = "") -> list[FieldError]:
    """Return an error for each of the fields that differs."""
    return [error for one in paths for error in immutable(place(path, one), lookup(new, one), lookup(old, one))]
