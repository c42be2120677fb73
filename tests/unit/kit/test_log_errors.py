"""What answers of the log's server mean: worth another attempt, or final."""

from __future__ import annotations

import pytest

from services._kit.base.log_errors import Conflict, Refused, StreamFull, TooLarge, Unavailable, from_api


@pytest.mark.parametrize(
    ("code", "err_code", "meaning"),
    [
        (400, 10005, Unavailable),  # a server of three has not joined yet
        (503, 10008, Unavailable),
        (503, 0, Unavailable),
        (503, 10077, StreamFull),
        (400, 10054, TooLarge),
        (400, 10071, Conflict),
        (400, 10052, Refused),
    ],
)
def test_an_answer_is_told_by_its_code(code, err_code, meaning):
    assert type(from_api(code, err_code, "said")) is meaning
