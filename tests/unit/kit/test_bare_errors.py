"""An error that is kept refers to nothing that was read on the way to it."""

from __future__ import annotations

import weakref

import pytest

from services._kit.kube.answers.exchange import bare, failures
from services._kit.kube.api import BadAnswer, Unreachable


class Read:
    """What was read of an answer."""


def fails(kept: list[weakref.ref[Read]], error: Exception) -> None:
    """Raise an error, with another one behind it, from frames that hold what was read."""
    read = Read()
    kept.append(weakref.ref(read))
    try:
        raise ValueError("behind it")
    except ValueError as cause:
        raise error from cause


@pytest.mark.parametrize("error", [TimeoutError(), OSError("reset"), BadAnswer("no JSON"), RuntimeError("closed")])
def test_what_failures_raise_can_be_kept_without_its_frames(error: Exception) -> None:
    kept: list[weakref.ref[Read]] = []
    found: BaseException | None = None
    try:
        with failures("GET /", 1.0):
            fails(kept, error)
    except Unreachable as raised:
        found = bare(raised)
    assert found is not None
    assert kept[0]() is None


def test_a_bare_error_keeps_its_causes_without_their_frames() -> None:
    kept: list[weakref.ref[Read]] = []
    try:
        fails(kept, KeyError("x"))
    except KeyError as raised:
        found = bare(raised)
    assert isinstance(found.__cause__, ValueError)
    assert found.__traceback__ is None
    assert kept[0]() is None
