"""The string formats that definitions may ask for."""

import pytest

from services._rules.kubernetes.validation.string_formats import checker

RULES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "bsonobjectid": (("507f1f77bcf86cd799439011",), ("507f1f77bcf86cd79943901", "g07f1f77bcf86cd799439011")),
    "cidr": (("10.0.0.0/8", "10.0.0.1/8", "fd00::/64"), ("10.0.0.0", "10.0.0.0/33", "")),
    "creditcard": (("4111 1111 1111 1111", "378282246310005"), ("4111111111111112", "")),
    "date": (("2024-02-29",), ("2023-02-29", "20240229", "2024-2-1")),
    "hexcolor": (("#fff", "a0B1c2"), ("#ffff", "red")),
    "ipv4": (("10.0.0.1",), ("::1", "10.0.0", "")),
    "ipv6": (("::1", "::ffff:1.2.3.4"), ("10.0.0.1", "fe80::1%eth0")),
    "isbn10": (("0-306-40615-2", "097522980X"), ("0306406153", "9780306406157")),
    "isbn13": (("978-0-306-40615-7",), ("9780306406158", "0306406152")),
    "password": (("", "anything"), ()),
    "rgbcolor": (("rgb(0, 128,255)",), ("rgb(0,0,256)", "rgb(01,0,0)", "rgb(1,2)")),
    "ssn": (("123-45-6789", "123 45 6789"), ("123456789", "123-456789", "1234-5-6789")),
    "uuid3": (("6fa459ea-ee8a-3ca4-894e-db77e160355e",), ("6fa459ea-ee8a-4ca4-894e-db77e160355e",)),
    "uuid4": (("16fd2706-8baf-433b-82eb-8c7fada847da",), ("16fd2706-8baf-433b-c2eb-8c7fada847da",)),
}


@pytest.mark.parametrize("name", RULES)
def test_formats_tell_values_apart(name: str) -> None:
    check = checker(name)
    assert check is not None
    right, wrong = RULES[name]
    assert [text for text in right if not check(text)] == []
    assert [text for text in wrong if check(text)] == []


def test_a_format_that_is_not_known_is_not_checked() -> None:
    assert checker("odd") is None
