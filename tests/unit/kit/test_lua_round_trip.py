"""Whatever JSON holds, a script that returns its object unchanged returns it unchanged, nulls apart."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from services._kit.interpretation.lua.machine import LuaMachine
from services._rules.interpreter import Operation

SAME = "function ReviseReplica(obj) return obj end"
JOINED = "function ReviseReplica(obj) obj.text = obj.text .. '' obj.number = obj.number .. '' return obj end"
MACHINE = LuaMachine()

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
SCALARS = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | NUMBERS | TEXTS
OBJECTS = st.recursive(
    st.dictionaries(TEXTS, SCALARS | st.lists(SCALARS, min_size=1, max_size=4), max_size=4),
    lambda inner: st.dictionaries(TEXTS, SCALARS | inner, max_size=4),
    max_leaves=12,
)


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without_nulls(member) for name, member in value.items() if member is not None}
    if isinstance(value, list):
        return [member for member in value if member is not None]
    return value


def emptied(value: Any, given: Any) -> Any:
    """Without what held nothing but nulls: it became empty, and nobody knows what it was."""
    return {
        name: emptied(member, given[name]) if isinstance(member, dict) else member
        for name, member in value.items()
        if member not in ({}, []) or given[name] in ({}, [])
    }


@settings(deadline=None)
@given(OBJECTS)
def test_objects_return_as_they_were(spec: dict[str, Any]) -> None:
    obj = {"kind": "Widget", "spec": {"n": 1, **spec}}
    kept = without_nulls(obj)
    assert MACHINE.evaluate(Operation.REVISE, SAME, [obj, 1]) == emptied(kept, obj)


@settings(deadline=None)
@given(TEXTS, NUMBERS)
def test_joined_numbers_name_the_same_number(text: str, number: float) -> None:
    obj = {"kind": "Widget", "text": text, "number": number}
    joined = MACHINE.evaluate(Operation.REVISE, JOINED, [obj, 1])
    assert joined["text"] == text
    assert float(joined["number"]) == number
