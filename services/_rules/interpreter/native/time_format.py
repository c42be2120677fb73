"""Times in manifests in the one spelling an API server stores, in which the order of texts is the order of times."""

from datetime import UTC, datetime

from services._rules.interpreter.common.interpretation import InterpretError, describe


def canonical_time(value: object, field: str) -> str | None:
    """A time in UTC to the second ("…Z"), None for null; raises InterpretError for what is no RFC 3339 time."""
    if value is None:
        return None
    if type(value) is not str:
        raise InterpretError(f"is {describe(value)}, expected a time", field)
    if len(value) == 20 and value[19] == "Z":
        return value
    return _parsed(value, field).strftime("%Y-%m-%dT%H:%M:%SZ")


def _parsed(value: str, field: str) -> datetime:
    try:
        return datetime.fromisoformat(value).astimezone(UTC)
    except ValueError:
        raise InterpretError(f"{value!r} is no RFC 3339 time", field) from None
