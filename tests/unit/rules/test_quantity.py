"""Quantities: canonical text, rounding, caps and arithmetic."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services._rules.kubernetes.quantity import Quantity, QuantityError, from_milli, from_value, parse


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("0", "0"),
        ("0.1", "100m"),
        ("1024Mi", "1Gi"),
        ("1.5Gi", "1536Mi"),
        ("1000", "1k"),
        ("1500", "1500"),
        ("1500k", "1500k"),
        ("0.5Ki", "512"),
        ("-0.5Gi", "-512Mi"),
        ("0Mi", "0"),
        ("1023Ki", "1023Ki"),
        ("12E2", "1200"),
        ("12e3", "12e3"),
        ("0.1n", "1n"),
        ("-1500m", "-1500m"),
        ("-0.5", "-500m"),
        ("1000E", "1e21"),
        ("9999999999Gi", "9223372036854775807"),
        ("  2 ", "2"),
        ("1.500", "1.500"),
    ],
)
def test_canonical_text_is_the_one_kubernetes_writes(text: str, canonical: str) -> None:
    assert str(parse(text)) == canonical


@pytest.mark.parametrize("bad", ["", "1Q", "1i", "Ki1", "1..2", "1 Gi", "0x1", "1e", "1e9999", "abc", True, [], "١"])
def test_malformed_quantity_is_refused(bad: object) -> None:
    with pytest.raises(QuantityError, match="quantity"):
        parse(bad)  # type: ignore[arg-type]


def test_whole_and_milli_values_round_away_from_zero() -> None:
    assert parse("1001m").value() == 2
    assert parse("-1001m").value() == -2
    assert parse("1500u").milli_value() == 2
    assert parse("1Ki").milli_value() == 1_024_000


def test_numbers_of_a_manifest_are_read_like_their_text() -> None:
    assert parse(2) == parse("2")
    assert parse(0.25) == parse("250m")
    assert parse(3.0) == parse("3")
    assert parse(None).is_zero()


def test_zero_takes_the_format_of_the_other_quantity() -> None:
    assert str(parse(0) + parse("2Gi")) == "2Gi"
    assert str(parse("1Gi") + parse("1024M")) == "2048576Ki"
    assert str(parse("1Gi") - parse("512Mi")) == "512Mi"


def test_equality_ignores_spelling() -> None:
    assert parse("1") == parse("1000m")
    assert hash(parse("1")) == hash(parse("1000m"))
    assert parse("1") < parse("2")
    assert parse("1Ki") < parse("1k") * 2


@given(st.integers(-(10**20), 10**20), st.sampled_from(["DecimalSI", "BinarySI", "DecimalExponent"]))
def test_canonical_text_reads_back_to_the_same_amount(nano: int, form: str) -> None:
    quantity = Quantity(nano, form)  # type: ignore[arg-type]
    again = parse(str(quantity))
    assert again.nano == nano
    # A binary amount without a binary suffix reads as a decimal one, which may be written shorter.
    assert str(again) == str(quantity if again.format == form else Quantity(nano, "DecimalSI"))


@given(st.integers(0, 2**32), st.sampled_from(["", "m", "k", "M", "Ki", "Mi", "Gi", "e3", "E-3"]))
def test_parsing_is_exact_and_monotonous(number: int, suffix: str) -> None:
    smaller, larger = parse(f"{number}{suffix}"), parse(f"{number + 1}{suffix}")
    assert smaller < larger
    assert smaller + larger - larger == smaller


@given(st.integers(-(10**12), 10**12))
def test_units_and_thousandths_agree(number: int) -> None:
    assert from_value(number).value() == number
    assert from_milli(number).milli_value() == number
    assert from_value(number) == from_milli(number * 1000)
