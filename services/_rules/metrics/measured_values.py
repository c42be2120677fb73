"""Decides whether what a member measured can be used: quantities, times, names, labels.

One value that a client cannot read would cost it the answers of all members.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from services._rules.kubernetes.quantity import NANO, Quantity, QuantityError, parse

MOST_CORES: Final = 1_000_000 * NANO
MOST_MEMORY: Final = (1 << 60) * NANO
MOST: Final = 10**15 * NANO
"""Of any other value: its thousandths fit into the 64 bits in which autoscalers count."""
LONGEST_WINDOW: Final = 366 * 24 * 3600
"""Seconds over which a value may have been measured."""
_SHOWN: Final = 60
_PLAIN: Final = {
    "cpu": re.compile(r"[0-9]{1,15}n|[0-9]{1,12}u|[0-9]{1,9}m|[0-9]{1,6}"),
    "memory": re.compile(r"[0-9]{1,14}Ki|[0-9]{1,11}Mi|[0-9]{1,8}Gi|[0-9]{1,18}"),
}
"""What nearly all members write, and what is in bounds whatever its digits are."""
_MOST: Final = {"cpu": MOST_CORES, "memory": MOST_MEMORY}
_NAME: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.:]{0,251}[A-Za-z0-9])?")
_LABEL_KEY: Final = re.compile(r"([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_LABEL_VALUE: Final = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_METRIC: Final = re.compile(r"[A-Za-z0-9_][-A-Za-z0-9_.:]{0,252}")
_TIME: Final = re.compile(
    r"[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,9})?Z"
)
_WINDOW: Final = re.compile(r"0|([0-9]{1,9}(\.[0-9]{1,9})?(ns|us|µs|ms|s|m|h)){1,3}")
_MOST_LABELS: Final = 100


class Unusable(ValueError):
    """What of an answer cannot be used and why, for those who read that it was left out."""


def shown(text: object) -> str:
    """A text of a member for a message: quoted and short."""
    return repr(str(text)[:_SHOWN])


def check_usage(usage: Mapping[str, str]) -> None:
    """Check the amounts by resource that something uses; raises Unusable."""
    if not usage:
        raise Unusable("it says no usage")
    for resource, text in usage.items():
        plain = _PLAIN.get(resource)
        if plain is None or plain.fullmatch(text) is None:
            if _LABEL_KEY.fullmatch(resource) is None:
                raise Unusable(f"{shown(resource)} is no resource")
            amount(text, _MOST.get(resource, MOST))


def amount(value: str | float, most: int = MOST) -> Quantity:
    """A measured value in whole nano-units of `most` at most; raises Unusable."""
    try:
        found = parse(value)
    except (QuantityError, OverflowError) as error:
        raise Unusable(f"{shown(value)} is no quantity") from error
    if found.nano < 0:
        raise Unusable(f"{shown(value)} is negative")
    if found.nano > most:
        raise Unusable(f"{shown(value)} is more than anything can have")
    return found


def check_time(text: str) -> None:
    """Check an RFC 3339 time in UTC, as API servers write it; raises Unusable."""
    if _TIME.fullmatch(text) is None:
        raise Unusable(f"{shown(text)} is no time")


def check_window(text: str) -> None:
    """Check a duration as Go writes it; raises Unusable."""
    if _WINDOW.fullmatch(text) is None:
        raise Unusable(f"{shown(text)} is no duration")


def check_name(text: str) -> None:
    """Check the name of an object or container; raises Unusable."""
    if _NAME.fullmatch(text) is None:
        raise Unusable(f"{shown(text)} is no name")


def check_labels(labels: Mapping[str, str]) -> None:
    """Check the labels of an object; raises Unusable."""
    if len(labels) > _MOST_LABELS:
        raise Unusable(f"it has {len(labels)} labels")
    for key, value in labels.items():
        if _LABEL_KEY.fullmatch(key) is None or _LABEL_VALUE.fullmatch(value) is None:
            raise Unusable(f"{shown(key)} with {shown(value)} is no label")


def is_metric(text: str) -> bool:
    """Whether a text can be the name of a metric."""
    return _METRIC.fullmatch(text) is not None
