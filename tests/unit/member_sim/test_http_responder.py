"""The HTTP server of simulated containers, fed with bytes."""

import pytest

from services.member_sim.containers.http_responder import HttpResponder, listening
from services.member_sim.containers.pod_containers import Container, find

POD = {
    "metadata": {"name": "web", "namespace": "default", "uid": "u"},
    "spec": {
        "containers": [
            {"name": "a", "image": "nginx:1"},
            {"name": "b", "image": "x", "ports": [{"containerPort": 8080}, {"containerPort": 53, "protocol": "UDP"}]},
            {"name": "c", "image": "y", "ports": [{"containerPort": 9090}]},
        ]
    },
    "status": {"containerStatuses": [{"name": name, "state": {"running": {}}} for name in "ab"]},
}


def containers() -> list[Container]:
    return [find(POD, name) for name in "abc"]


async def answered(*pieces: bytes) -> bytes:
    given, sent = [*pieces, b""], bytearray()

    async def read() -> bytes:
        return given.pop(0) if given else b""

    async def write(data: bytes) -> None:
        sent.extend(data)

    await HttpResponder(find(POD, "a"), 80, read, write).serve()
    return bytes(sent)


def test_running_containers_listen_at_what_they_declare() -> None:
    assert {port: one.name for port, one in listening(containers()).items()} == {80: "a", 8080: "b"}


async def test_several_requests_of_one_connection_are_answered() -> None:
    request = b"GET /hostname HTTP/1.1\r\nHost: x\r\n\r\n"
    raw = await answered(request[:10], request[10:] + request)
    assert raw.count(b"HTTP/1.1 200") == 2
    assert raw.endswith(b"\r\n\r\nweb\n")
    assert b"X-Pod: default/web" in raw


async def test_bodies_come_back_as_they_were_sent() -> None:
    head = b"POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 6\r\nExpect: 100-continue\r\n\r\n"
    raw = await answered(head, b"abc", b"def")
    assert raw.startswith(b"HTTP/1.1 100")
    assert raw.endswith(b"Content-Length: 6\r\n\r\nabcdef")
    chunked = b"PUT /x HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
    assert (await answered(chunked)).endswith(b"3\r\nabc\r\n0\r\n\r\n")


@pytest.mark.parametrize(
    ("line", "code", "size"),
    [
        (b"GET /bytes/70000", b"200", 70000),
        (b"HEAD /bytes/70000", b"200", 0),
        (b"GET /bytes/9999999999999999", b"404", None),
        (b"GET /nothing", b"404", None),
        (b"GET /healthz", b"200", 3),
        (b"DELETE /", b"405", None),
    ],
)
async def test_paths_are_answered(line: bytes, code: bytes, size: int | None) -> None:
    raw = await answered(line + b" HTTP/1.1\r\nHost: x\r\n\r\n")
    head, _, body = raw.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 " + code)
    assert size is None or len(body) == size


@pytest.mark.parametrize("raw", [b"\x16\x03\x01\x00\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n", b"G" * 100_000])
async def test_what_is_no_http_is_refused(raw: bytes) -> None:
    assert (await answered(raw)).startswith(b"HTTP/1.1 4")
