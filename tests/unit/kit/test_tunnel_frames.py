"""Frames between hub and agent: what is read, what is refused, and how lost frames and spent credit show."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from services._kit.proxying.flow_credit import WINDOW, Numbers, ReceiveCredit, SendCredit
from services._kit.proxying.member_exchange import CHUNK
from services._kit.proxying.tunnel_frames import (
    LARGEST,
    MOST_GROUPS,
    MOST_HEADERS,
    PATH_BYTES,
    AnyFrame,
    Cancel,
    Credit,
    Data,
    End,
    FrameError,
    Greeting,
    Head,
    Open,
    greeting,
    packed,
    unpacked,
    unsuitable_head,
    unsuitable_open,
)

ID = "0123456789abcdef" * 2
OPEN = Open(ID, 0, "GET", "/api/v1/pods?watch=true", (("Accept", "*/*"),), "anna", ("dev",))


@pytest.mark.parametrize(
    "frame",
    [
        OPEN,
        Head(ID, 0, 200, (("Content-Type", "x"),)),
        Data(ID, 1, b"x" * CHUNK),
        End(ID, 2),
        Credit(ID, 1, 10),
        Cancel(ID, 3, "refused", "no"),
    ],
)
def test_a_frame_is_read_as_it_was_written(frame: AnyFrame) -> None:
    assert unpacked(packed(frame)) == frame


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"\xc1" * 10,
        msgspec.msgpack.encode(["data", ID, 0]),
        msgspec.msgpack.encode(["data", ID, "0", b"x"]),
        msgspec.msgpack.encode(["other", ID, 0]),
        msgspec.msgpack.encode(["end", b"\xff", 0]),
        packed(Data(ID, 0, b"")),
        packed(Data(ID, 0, b"x" * (CHUNK + 1))),
        packed(Credit(ID, 0, -1)),
        b"\x91" * 100_000,
        b"x" * (LARGEST + 1),
        packed(End(ID, 0)) + b"\x00",
    ],
)
def test_what_is_no_frame_is_refused(data: bytes) -> None:
    with pytest.raises(FrameError):
        unpacked(data)


def test_a_greeting_names_instance_and_session() -> None:
    said = Greeting(instance="agent-0", session="s")
    assert greeting(packed(said)) == said
    for wrong in (
        Greeting(instance="", session="s"),
        Greeting(instance="a", session=""),
        replace(said, session="s" * 2000),
    ):
        with pytest.raises(FrameError):
            greeting(packed(wrong))
    with pytest.raises(FrameError):
        greeting(b"hello")


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"id": "x"}, "no id"),
        ({"method": "TRACE"}, "no method"),
        ({"method": "GET\r\n"}, "no method"),
        ({"path": "api"}, "not encoded"),
        ({"path": "/a b"}, "not encoded"),
        ({"path": "/a\r\nX: y"}, "not encoded"),
        ({"path": "/ä"}, "not encoded"),
        ({"path": "/a#b"}, "not encoded"),
        ({"path": "/" + "a" * PATH_BYTES}, "characters"),
        ({"path": "/a?" + "&" * 1000}, "parameters"),
        ({"user": ""}, "no user"),
        ({"user": "a\r\nImpersonate-Group: system:masters"}, "no name"),
        ({"user": "a" * 2000}, "no name"),
        ({"groups": ("a\n",)}, "no name"),
        ({"groups": ("a",) * (MOST_GROUPS + 1)}, "groups"),
        ({"headers": (("A", "b\r\nC: d"),)}, "cannot be sent"),
        ({"headers": (("A b", "c"),)}, "cannot be sent"),
        ({"headers": (("A", "b"),) * (MOST_HEADERS + 1)}, "headers are more"),
        ({"headers": (("A", "b" * 100_000),)}, "headers are more"),
        ({"upgrade": "a\r\n"}, "no protocol"),
    ],
)
def test_a_request_that_cannot_be_is_refused(wrong: dict[str, Any], words: str) -> None:
    assert unsuitable_open(OPEN) == ""
    assert words in unsuitable_open(replace(OPEN, **wrong))


def test_the_head_of_an_answer_is_checked() -> None:
    head = Head(ID, 0, 200, (("A", "b"),))
    assert unsuitable_head(head, "") == ""
    assert unsuitable_head(replace(head, status=101), "websocket") == ""
    for wrong in ({"status": 101}, {"status": 0}, {"status": 99}, {"status": 600}, {"status": 204 * 10**9}):
        assert "status" in unsuitable_head(replace(head, **wrong), "")
    assert "cannot be sent" in unsuitable_head(replace(head, headers=(("A", "b\nC: d"),)), "")


def test_a_lost_or_repeated_frame_shows() -> None:
    numbers = Numbers()
    assert [numbers.next() for _ in range(3)] == [0, 1, 2]
    numbers.check(0)
    numbers.check(1)
    for wrong in (1, 3, 0, -1):
        with pytest.raises(FrameError, match="lost"):
            numbers.check(wrong)
    numbers.check(2)


def test_a_side_sends_no_more_than_its_credit() -> None:
    credit = SendCredit()
    assert credit.spend(CHUNK) == CHUNK
    assert credit.spend(2 * WINDOW) == WINDOW - CHUNK
    assert credit.spend(1) == 0
    credit.gain(10)
    assert credit.spend(100) == 10


def test_credit_for_what_was_not_sent_is_refused() -> None:
    credit = SendCredit()
    credit.spend(10)
    with pytest.raises(FrameError, match="10 were sent"):
        credit.gain(11)
    credit.gain(10)
    with pytest.raises(FrameError):
        credit.gain(1)


def test_data_without_credit_is_refused() -> None:
    credit = ReceiveCredit()
    credit.arrived(WINDOW)
    with pytest.raises(FrameError, match="credit for 0"):
        credit.arrived(1)


def test_credit_returns_in_pieces_as_bytes_are_taken() -> None:
    credit = ReceiveCredit()
    credit.arrived(WINDOW)
    given = [credit.taken(CHUNK) for _ in range(WINDOW // CHUNK)]
    assert sum(given) == WINDOW
    assert 1 < sum(1 for size in given if size) <= 4
    credit.arrived(WINDOW)
