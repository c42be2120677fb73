"""Checks that a manifest has the types its kind prescribes, so that interpretation may rely on them.

The shapes are written down in shape_table.py.
"""

from datetime import datetime
from typing import Annotated, Any, Final

from msgspec import Meta

from schemas.manifest import Manifest
from services._rules.interpreter.common.interpretation import InterpretError
from services._rules.interpreter.common.shape_table import SHAPES
from services._rules.kubernetes.typed_structs import QUANTITY, Shapes, WrongShape

# A number with a zero fraction passes for a whole number, as it does for a Kubernetes client.
_SCALARS: Final[dict[str, Any]] = {
    "s": str | None,
    "i": int | Annotated[float, Meta(multiple_of=1)] | None,
    "b": bool | None,
    "t": datetime | None,
    "q": QUANTITY,
    "x": int | Annotated[float, Meta(multiple_of=1)] | str | None,
    "*": Any,
}
_SHAPES: Final = Shapes(SHAPES, _SCALARS)

WHOLE_NUMBERS: Final[dict[str, frozenset[str]]] = {
    shape: frozenset(name for name, code in _SHAPES.codes(shape).items() if code == "i")
    for shape in SHAPES
    if shape.endswith("Status")
}
"""The fields of each status that hold whole numbers, by the name of its shape."""


def check_object(kind: str, obj: Manifest) -> None:
    """Raises InterpretError, with the field, where the manifest does not have the shape of its (native) kind."""
    _check(kind, obj, "")


def check_status(kind: str, status: object, field: str = "status") -> None:
    """Raises InterpretError where a status does not have the shape that its kind prescribes."""
    _check(kind + "Status", status, field)


def _check(shape: str, value: object, field: str) -> None:
    try:
        _SHAPES.check(shape, value)
    except WrongShape as problem:
        raise InterpretError(problem.what, ".".join(part for part in (field, problem.where) if part)) from None
