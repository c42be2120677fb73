"""What made a key dirty is named once, and a reading that ends after its connection leaves no error behind."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from services._kit.base.log_errors import Unavailable
from services._kit.log.pump import JetStreamPump
from services._kit.runtime.projection import Cause


def test_a_fact_that_marks_a_key_twice_is_one_cause() -> None:
    cause = Cause((7,))
    for position in (7, 8, 8, 9, 9):
        cause.add(position)
    assert cause.seqs == (7, 8, 9)
    cause.add(10)
    assert cause.seqs == (7, 9, 10)


async def test_a_consumer_whose_server_is_gone_is_let_go_of_in_silence() -> None:
    async def publish(*_: object) -> None:
        raise Unavailable("connection closed")

    connection = SimpleNamespace(is_connected=True, publish=publish, nc=SimpleNamespace(is_closed=False))
    pump = JetStreamPump(cast("Any", SimpleNamespace(connection=connection, name="FACTS")), (">",), 1, 10)
    pump._consumer = "c"
    await pump._drop()
    assert pump._consumer == ""
