"""Bytes that mostly equal others are written as what they differ in, and come out whole again."""

from __future__ import annotations

import random
from hashlib import sha256

import pytest

from services._rules.history.delta_encoding import WORTH, base_of, decode_delta, marker, referenced, splice

BASE = random.Random(1).randbytes(2 * WORTH)
NAME = sha256(BASE).hexdigest()


@pytest.mark.parametrize(
    "data",
    [
        BASE,
        BASE[:-7],
        BASE[7:],
        BASE + b"more",
        b"more" + BASE,
        BASE[:1000] + b"in between" + BASE[1000:],
        BASE[:1000] + BASE[3000:],
        BASE[:1000] + b"instead" + BASE[3000:],
        b"a" * WORTH + b"a" * 5,
    ],
)
def test_delta_decodes_to_the_original(data: bytes) -> None:
    base = b"a" * (WORTH + 2) if data.startswith(b"aaaa") else BASE
    short = splice(NAME, base, data)
    assert short is not None
    assert len(short) < 3000
    assert base_of(short) == NAME
    assert decode_delta(short, base) == data


def test_delta_holds_changed_values_only() -> None:
    values = [random.Random(seed).randbytes(20_000).hex().encode() for seed in range(4)]
    base = b'{"a":"%s","b":"old","c":"%s","d":"%s","e":"%s"}' % tuple(values)
    data = b'{"a":"%s","b":"new and longer","c":"%s","f":"new","e":"%s"}' % (values[0], values[1], values[3])
    short = splice(NAME, base, data)
    assert short is not None
    assert len(short) < 300
    assert decode_delta(short, base) == data


def test_delta_is_not_used_when_it_saves_nothing() -> None:
    assert splice(NAME, BASE, random.Random(2).randbytes(2 * WORTH)) is None
    assert splice(NAME, BASE, BASE[: WORTH - 1]) is None
    assert splice(NAME, b"", BASE) is None


def test_bytes_that_only_resemble_a_delta_are_kept() -> None:
    for data in (b"", b'{"kind":"ConfigMap"}', b"FLD1", b"FLD1\xff\xff", b'FLD1{"a":1}'):
        assert base_of(data) == ""
        assert decode_delta(data, BASE) == data


def test_base_of_a_stored_delta_is_kept() -> None:
    name, other = "a" * 64, "b" * 64
    mark, orphan = marker(name, NAME), marker(other, NAME)
    assert referenced({name, NAME, mark}) == {mark, NAME}
    assert referenced({NAME, orphan, "like-", "like-x-y"}) == set()
