"""Replays the recorded admission of objects."""

from collections.abc import Callable
from typing import Any

import msgspec

from services._rules.admission import Admitted, Context
from services._rules.kubernetes import quantity
from tests.support.admitting import admit

Case = dict[str, Any]

_IDENTITY = "8d3c1c3e-5d0b-4a52-9d58-3b0f8f6d7a11"
NOW = "<now>"
_QUANTITIES = {"overall", "hard", "min", "max", "value", "averageValue", "resourceRequest"}


def _plain(value: Any, name: str = "") -> Any:
    """Without nulls, empty containers and zero values, quantities in canonical form."""
    if isinstance(value, dict):
        return {
            key: plain
            for key, item in value.items()
            if (plain := _plain(item, name if name in _QUANTITIES else key)) not in (None, {}, [], "", 0, False)
        }
    if isinstance(value, list):
        return [_plain(item, name) for item in value]
    if name in _QUANTITIES and not isinstance(value, bool) and isinstance(value, str | int | float):
        try:
            return str(quantity.parse(value))
        except quantity.QuantityError:
            return value
    return value


def check_admission(case: Case) -> bool:
    """Whether the decision is the recorded one, and the object with its defaults where both let it pass."""
    context = Context(
        namespace=case.get("namespace") or "",
        identity=_IDENTITY,
        now=NOW,
        existing=case.get("existing") or (),
        allow_no_execute_taint_policy=case.get("allowNoExecuteTaintPolicy") or False,
    )
    found = admit(case["kind"], case["operation"], case.get("object"), case.get("old"), context)
    if not isinstance(found, Admitted):
        return not case["allowed"]
    stored = msgspec.json.decode(msgspec.json.encode(found.object).replace(_IDENTITY.encode(), b"<uuid>"))
    return as_recorded(case, stored)


def as_recorded(case: Case, stored: Case) -> bool:
    """Whether an object that was let pass, ids and times replaced, is what was recorded."""
    if not case["allowed"] or "defaulted" not in case:
        return bool(case["allowed"])
    if case["kind"] == "Work":
        # Here an explicit null in a manifest is the point of some cases.
        return bool(stored["spec"] == case["defaulted"]["spec"] and stored["metadata"] == case["defaulted"]["metadata"])
    return bool(_plain(stored) == _plain(case["defaulted"]))


FILES: dict[str, Callable[[Case], bool | None]] = {"admission": check_admission}
