"""Kubernetes resource quantities as exact whole numbers of nano-units.

Parsing, rounding, caps and the canonical text follow Kubernetes, so that a quantity written here is the one that an API
server would have stored.
"""

import re
from functools import lru_cache
from typing import Final, Literal, TypeAlias

from msgspec import Struct

Format: TypeAlias = Literal["DecimalSI", "BinarySI", "DecimalExponent"]

NANO: Final = 10**9
_MILLI_IN_NANO: Final = 10**6
_MAX_INT64: Final = 2**63 - 1

_FORM = re.compile(r"([+-]?)0*([0-9]*)(?:\.([0-9]*))?([eEinumkKMGTP]*[-+]?[0-9]*)")
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_DECIMAL_SUFFIX: Final = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY_SUFFIXES: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")

# Beyond these a text is no resource amount but an attempt to make us compute powers of ten for minutes.
_LONGEST_TEXT: Final = 512
_LARGEST_EXPONENT: Final = 512


class QuantityError(ValueError):
    """A text that is no Kubernetes quantity; the message names the text and the accepted form."""


class Quantity(Struct, frozen=True, eq=False):
    """An amount in nano-units together with the family of suffixes it is written in.

    Two quantities are equal when their amounts are, whatever their spelling.
    """

    nano: int
    format: Format = "DecimalSI"
    # Kubernetes keeps some spellings as they came ("1.500"); empty where the text is computed from the amount.
    spelled: str = ""

    def __str__(self) -> str:
        """Canonical text, as Kubernetes writes it."""
        return self.spelled or _canonical(self.nano, self.format)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and self.nano == other.nano

    def __hash__(self) -> int:
        return hash(self.nano)

    def __lt__(self, other: "Quantity") -> bool:
        return self.nano < other.nano

    def __le__(self, other: "Quantity") -> bool:
        return self.nano <= other.nano

    def __add__(self, other: "Quantity") -> "Quantity":
        """Sum; a zero takes over the format of what is added."""
        return Quantity(self.nano + other.nano, self.format if self.nano else other.format)

    def __sub__(self, other: "Quantity") -> "Quantity":
        """Difference; a zero takes over the format of what is subtracted."""
        return Quantity(self.nano - other.nano, self.format if self.nano else other.format)

    def __mul__(self, factor: int) -> "Quantity":
        """This amount `factor` times, in the same format."""
        return Quantity(self.nano * factor, self.format)

    def value(self) -> int:
        """Whole units, a fraction rounded away from zero."""
        return _scaled(self.nano, NANO)

    def milli_value(self) -> int:
        """Thousandths of a unit, a fraction rounded away from zero."""
        return _scaled(self.nano, _MILLI_IN_NANO)

    def is_zero(self) -> bool:
        """Whether the amount is nothing."""
        return self.nano == 0


ZERO: Final = Quantity(0)


def from_value(units: int, form: Format = "DecimalSI") -> Quantity:
    """Quantity of whole units."""
    return Quantity(units * NANO, form)


def from_milli(thousandths: int, form: Format = "DecimalSI") -> Quantity:
    """Quantity of thousandths of a unit."""
    return Quantity(thousandths * _MILLI_IN_NANO, form)


def parse(value: str | float | None) -> Quantity:
    """Read a quantity from a manifest; null is zero as it is for Kubernetes.

    Raises QuantityError for anything that an API server would refuse.
    """
    if isinstance(value, str):
        return _parse_text(value)
    if value is None:
        return ZERO
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise QuantityError(f"{value!r} is not a quantity: write a text such as '100m' or '1Gi', or a number")
    if isinstance(value, int):
        return Quantity(value * NANO) if value else ZERO
    if value.is_integer():
        return Quantity(int(value) * NANO)
    return _parse_text(repr(value))


@lru_cache(maxsize=16384)
def _parse_text(text: str) -> Quantity:
    stripped = text.strip()
    found = _FORM.fullmatch(stripped) if 0 < len(stripped) <= _LONGEST_TEXT and stripped.isascii() else None
    if found is None:
        raise QuantityError(
            f"{text[:64]!r} is not a quantity: write digits, optionally with a fraction,"
            " then a suffix (m, k, M, Ki, Mi, Gi, …)"
        )
    sign, whole, fraction, suffix = found[1], found[2], found[3] or "", found[4]
    form, exponent = _suffix(suffix, text)
    digits = (whole or "0") + fraction
    unscaled = int(digits)
    if form == "BinarySI":
        nano = _ceil_div(unscaled * NANO << exponent, 10 ** len(fraction))
        nano, form = _bounded_binary(nano, exponent, len(whole or "0"), bool(fraction))
    else:
        scale = exponent - len(fraction) + 9
        nano = unscaled * 10**scale if scale >= 0 else _ceil_div(unscaled, 10**-scale)
    if sign == "-":
        nano = -nano
    return Quantity(nano, form, _kept_spelling(stripped, form, exponent, digits, fraction))


def _suffix(suffix: str, text: str) -> tuple[Format, int]:
    """Family and exponent (of two or of ten) that a suffix stands for."""
    if suffix in _DECIMAL:
        return "DecimalSI", _DECIMAL[suffix]
    if suffix in _BINARY:
        return "BinarySI", _BINARY[suffix]
    if suffix[0] in "eE" and re.fullmatch(r"[-+]?[0-9]+", suffix[1:]):
        exponent = int(suffix[1:])
        if abs(exponent) > _LARGEST_EXPONENT:
            raise QuantityError(f"{text[:64]!r} is not a usable quantity: its exponent is beyond {_LARGEST_EXPONENT}")
        return "DecimalExponent", exponent
    raise QuantityError(
        f"{text[:64]!r} is not a quantity: {suffix!r} is no known suffix (m, k, M, G, Ki, Mi, Gi, e3, …)"
    )


def _bounded_binary(nano: int, exponent: int, digits: int, fraction: bool) -> tuple[int, Format]:
    """Cap and change of family that Kubernetes applies to a binary amount."""
    small_enough_for_int64 = not fraction and 15 - digits - exponent * 3 // 10 - 1 >= 0
    if small_enough_for_int64:
        return nano, "BinarySI"
    if 0 < nano < NANO:
        return nano, "DecimalSI"
    return min(nano, _MAX_INT64 * NANO), "BinarySI"


def _kept_spelling(text: str, form: Format, exponent: int, digits: str, fraction: str) -> str:
    """The text itself where Kubernetes takes it for canonical without checking further, else nothing."""
    if text == "0":
        return text
    if form == "BinarySI":
        kept = not fraction and int(digits) & 7 != 0 and 15 - len(digits) - exponent * 3 // 10 - 1 >= 0
        return text if kept else ""
    scale = exponent - len(fraction)
    fits = len(digits) <= 18 and scale >= -9
    return text if fits and scale % 3 == 0 and not digits.endswith("000") and digits[0] != "0" else ""


def _canonical(nano: int, form: Format) -> str:
    if nano == 0:
        return "0"
    if form == "BinarySI" and abs(nano) >= 1024 * NANO and nano % NANO == 0:
        amount, power = nano // NANO, 0
        while amount % 1024 == 0 and power < 6:
            amount //= 1024
            power += 1
        return f"{amount}{_BINARY_SUFFIXES[power]}"
    amount, exponent = nano, -9
    while amount % 1000 == 0:
        amount //= 1000
        exponent += 3
    if form != "DecimalExponent" and exponent in _DECIMAL_SUFFIX:
        return f"{amount}{_DECIMAL_SUFFIX[exponent]}"
    return f"{amount}e{exponent}" if exponent else str(amount)


def _ceil_div(number: int, divisor: int) -> int:
    return -(-number // divisor)


def _scaled(nano: int, unit: int) -> int:
    return _ceil_div(nano, unit) if nano >= 0 else nano // unit
