"""One process that turns texts into other texts for the API server: bodies into JSON, answers into YAML.

It reads requests on standard input and writes answers on standard output; it knows no secret, opens nothing and may
use a bounded amount of memory. Run by
services/apiserver/flow/text_workers.py.
"""

from __future__ import annotations

import resource
import sys
from typing import BinaryIO, Final

import msgspec

from services.apiserver.core.status_errors import ApiError
from services.apiserver.flow.text_workers import (
    FROM_PROTOBUF,
    FROM_YAML,
    REQUEST_SIZE,
    Refusal,
    answered,
    request_sizes,
)
from services.apiserver.flow.work_aside import make_room_for_depth
from services.apiserver.http import codec

_MOST_MEMORY: Final = 1 << 30


def perform(task: str, body: bytes) -> bytes:
    """What a task makes of a text; raises ApiError."""
    name, _, argument = task.partition(" ")
    if name == FROM_YAML:
        return msgspec.json.encode(codec.decode_yaml(body))
    if name == FROM_PROTOBUF:
        return msgspec.json.encode(codec.decode_protobuf(body, argument))
    return codec.dump_yaml(body)


def serve(given: BinaryIO, out: BinaryIO) -> None:
    """Answer requests until there are no more."""
    while len(sizes := given.read(REQUEST_SIZE)) == REQUEST_SIZE:
        length, size = request_sizes(sizes)
        task = given.read(length).decode()
        body = given.read(size)
        try:
            answer = answered(perform(task, body), done=True)
        except ApiError as error:
            answer = answered(msgspec.json.encode(Refusal(error.code, error.reason, error.message)), done=False)
        except (MemoryError, RecursionError):
            text = "Request entity too large: the document needs more memory than one request may use"
            answer = answered(msgspec.json.encode(Refusal(413, "RequestEntityTooLarge", text)), done=False)
        out.write(answer)
        out.flush()


def main() -> None:
    """Serve standard input and output."""
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY, _MOST_MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    make_room_for_depth()
    serve(sys.stdin.buffer, sys.stdout.buffer)


if __name__ == "__main__":
    main()
