"""What a request for a log asks for: the parameters of pods/log, read and checked as Kubernetes does."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from msgspec import Struct

from services._rules.kubernetes.validation import field_errors as fields
from services.apiserver.core.request import integer, truth
from services.apiserver.core.status_errors import bad_request, invalid

_LARGEST: Final = 2**63 - 1
_NANO_DIGITS: Final = 6


class LogOptions(Struct, frozen=True):
    """The parameters; `since` is a moment (Unix seconds) or None, `tail` and `limit` None where all is wanted."""

    follow: bool = False
    previous: bool = False
    timestamps: bool = False
    since: float | None = None
    tail: int | None = None
    limit: int | None = None


def log_options(query: dict[str, list[str]], pod: str, now: float) -> LogOptions:
    """The options of a query for the log of a pod; raises ApiError 400 or 422."""

    def given(name: str) -> str | None:
        return (query.get(name) or [""])[0] or None

    def flag(name: str) -> bool:
        return name in query and truth(query[name][0])

    def number(name: str) -> int | None:
        text = given(name)
        return None if text is None else integer(text)

    seconds, tail, limit = number("sinceSeconds"), number("tailLines"), number("limitBytes")
    since = given("sinceTime")
    found: list[fields.FieldError] = []
    if tail is not None and tail < 0:
        found.append(fields.invalid("tailLines", tail, "must be greater than or equal to 0"))
    if limit is not None and limit < 1:
        found.append(fields.invalid("limitBytes", limit, "must be greater than 0"))
    if seconds is not None and since is not None:
        found.append(fields.forbidden("", "at most one of `sinceTime` or `sinceSeconds` may be specified"))
    elif seconds is not None and seconds < 1:
        found.append(fields.invalid("sinceSeconds", seconds, "must be greater than 0"))
    if found:
        raise invalid("PodLogOptions", pod, found)
    moment = now - min(seconds, _LARGEST >> 24) if seconds is not None else None
    if since is not None:
        moment = _moment(since)
    return LogOptions(
        follow=flag("follow"),
        previous=flag("previous"),
        timestamps=flag("timestamps"),
        since=moment,
        tail=tail,
        limit=limit,
    )


def _moment(text: str) -> float:
    """Unix seconds of an RFC 3339 time, whose fraction may have nine digits; raises ApiError 400."""
    shown = text[:100]
    whole, point, rest = shown.partition(".")
    if point:
        digits = len(rest) - len(rest.lstrip("0123456789"))
        whole += f".{rest[: min(digits, _NANO_DIGITS)]:0<{_NANO_DIGITS}}{rest[digits:]}"
    try:
        found = datetime.fromisoformat(whole.replace(" ", "+"))
    except ValueError:
        found = None
    if found is None or found.tzinfo is None:
        raise bad_request(f'parsing time "{shown}" as RFC 3339: it has to look like 2006-01-02T15:04:05Z')
    return found.timestamp()
