"""Resource quantities: parsing to exact numbers and the canonical spelling an API server stores."""

from __future__ import annotations

import functools
import re
from decimal import ROUND_UP, Context, Decimal

_FORM = re.compile(r"^([+-]?)([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:(Ki|Mi|Gi|Ti|Pi|Ei)|([numkMGTPE]?)|[eE]([+-]?[0-9]+))$")
_BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY_NAMES = ["", *_BINARY]
_DECIMAL_NAMES = {exponent: name for name, exponent in _DECIMAL.items()}
_NANO = Decimal("1e-9")
_EXACT = Context(prec=60)

WRONG_FORMAT = r"quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
WRONG_SUFFIX = "unable to parse quantity's suffix"
_LOOSE = re.compile(r"^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$")


def _parse(text: str) -> tuple[Decimal, str]:
    match = _FORM.match(text)
    if match is None:
        raise ValueError(WRONG_SUFFIX if _LOOSE.match(text) and re.search("[0-9]", text) else WRONG_FORMAT)
    sign, number, binary, decimal, exponent = match.groups()
    value = Decimal(f"{sign}{number}")
    if binary:
        return (_EXACT.multiply(value, Decimal(1024 ** _BINARY[binary])), "binary")
    if exponent is not None:
        return (value.scaleb(int(exponent), _EXACT), "exponent")
    return (value.scaleb(_DECIMAL[decimal], _EXACT), "decimal")


def parse(text: str) -> Decimal:
    """Return the exact value of a quantity; raises ValueError when it is none."""
    return _parse(text)[0]


@functools.lru_cache(maxsize=4096)
def canonical(text: str) -> str:
    """Return the canonical spelling: no fraction digits, the largest suffix of its own family; raises ValueError."""
    value, form = _parse(text.strip())
    value = value.quantize(_NANO, rounding=ROUND_UP, context=_EXACT)
    if form == "binary" and -1024 < value < 1024:
        form = "decimal"
    if form == "binary":
        if value != value.to_integral_value():
            return _decimal(value, exponent=False)
        number, power = int(value), 0
        while power < 6 and number and number % 1024 == 0:
            number, power = number // 1024, power + 1
        return f"{number}{_BINARY_NAMES[power]}"
    return _decimal(value, exponent=form == "exponent")


def _decimal(value: Decimal, *, exponent: bool) -> str:
    number, power = int(value.scaleb(9, _EXACT)), -9
    if number == 0:
        return "0"
    while power < 18 and number % 1000 == 0:
        number, power = number // 1000, power + 3
    if exponent:
        return f"{number}e{power}" if power else str(number)
    return f"{number}{_DECIMAL_NAMES[power]}"


def value_of(quantity: object) -> Decimal:
    """Return the value of a quantity in a manifest, which may be a string or a number; raises ValueError."""
    return parse(str(quantity))
