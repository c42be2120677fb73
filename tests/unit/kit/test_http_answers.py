"""Answers of HTTP servers, in whatever pieces they arrive."""

from __future__ import annotations

import gzip

import pytest

from services._kit.http_answers import Answer, Gathering, Malformed

BODY = b'{"kind":"List","items":[1,2,3]}'
WITH_LENGTH = b"HTTP/1.1 201 Created\r\nContent-Type: application/json\r\ncontent-LENGTH: 31\r\n\r\n" + BODY
IN_CHUNKS = (
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"a;name=value\r\n" + BODY[:10] + b"\r\n15\r\n" + BODY[10:] + b"\r\n0\r\nX-Trailer: yes\r\n\r\n"
)
PACKED = gzip.compress(BODY)
ZIPPED = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(PACKED) + PACKED
AFTER_A_HINT = b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + WITH_LENGTH
WHOLE = {"length": WITH_LENGTH, "chunks": IN_CHUNKS, "gzip": ZIPPED, "hint": AFTER_A_HINT}


def gathered(data: bytes, piece: int, method: str = "GET") -> Answer | None:
    """The answer, its bytes arriving so many at once; nothing may follow it."""
    gathering = Gathering(method)
    answer = None
    for start in range(0, len(data), piece):
        assert answer is None, "it was whole before its end"
        answer = gathering.feed(data[start : start + piece])
    return answer


@pytest.mark.parametrize("piece", [1, 2, 7, 1000])
@pytest.mark.parametrize(
    "data", [WITH_LENGTH, IN_CHUNKS, ZIPPED, AFTER_A_HINT], ids=["length", "chunks", "gzip", "hint"]
)
def test_an_answer_is_whole_with_its_last_byte(data: bytes, piece: int) -> None:
    answer = gathered(data, piece)
    assert answer is not None
    assert answer.body == BODY
    assert answer.lasting
    assert answer.status in (200, 201)


def test_words_of_the_head_are_kept() -> None:
    answer = gathered(WITH_LENGTH, 1000)
    assert answer is not None
    assert (answer.status, answer.reason) == (201, "Created")
    assert answer.headers == {"content-type": "application/json", "content-length": "31"}


@pytest.mark.parametrize(
    ("head", "method"), [(b"HTTP/1.1 204 No Content\r\n\r\n", "GET"), (WITH_LENGTH[: -len(BODY)], "HEAD")]
)
def test_some_answers_have_no_body(head: bytes, method: str) -> None:
    answer = gathered(head, 3, method)
    assert answer is not None
    assert answer.body == b""


def test_without_a_length_the_end_of_the_connection_is_the_end() -> None:
    gathering = Gathering("GET")
    assert gathering.feed(b"HTTP/1.1 200 OK\r\n\r\nsome") is None
    assert gathering.feed(b"thing") is None
    answer = gathering.end()
    assert answer is not None
    assert answer.body == b"something"
    assert not answer.lasting


@pytest.mark.parametrize("data", [b"", WITH_LENGTH[:20], WITH_LENGTH[:-1], IN_CHUNKS[:-2]])
def test_an_answer_that_breaks_off_is_none(data: bytes) -> None:
    gathering = Gathering("GET")
    assert gathering.feed(data) is None
    assert gathering.end() is None


@pytest.mark.parametrize("head", [b"HTTP/1.0 200 OK\r\n", b"HTTP/1.1 200 OK\r\nConnection: Close\r\n"])
def test_some_connections_are_not_used_again(head: bytes) -> None:
    answer = gathered(head + b"Content-Length: 0\r\n\r\n", 1000)
    assert answer is not None
    assert not answer.lasting


@pytest.mark.parametrize(
    "data",
    [
        b"SSH-2.0-OpenSSH_9.6\r\n\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nab",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc",
        b"x" * 70_000,
    ],
)
def test_what_is_no_answer_is_refused(data: bytes) -> None:
    with pytest.raises(Malformed):
        gathered(data, 1 << 20)
