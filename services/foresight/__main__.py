"""Measures one edit of a policy: a question on standard input, the answer on standard output; for guards.

The log is that of the environment: FLEETLOG_NATS_URL, with the identity that services have there.
"""

from __future__ import annotations

import asyncio
import os
import resource
import sys
import time
from contextlib import suppress
from typing import Final

import msgspec
from nats.errors import Error as NatsError

from schemas.keys import ObjectKey, PolicyKey
from schemas.topology import STREAMS
from services._kit.base.log_errors import LogError
from services._kit.base.settings import credentials, gates_of, log_settings, tls_context
from services._kit.log.connection import Connection
from services._kit.log.jetstream import JetStreamLog
from services._kit.runtime.policy_guard import Measured, Question
from services.detector.state import OVERRIDE_KINDS
from services.foresight.difference import plan_of
from services.foresight.planning import Change, Planner
from services.foresight.reading import Asked, read_world, settle
from services.foresight.world import circumstances_of

MOST_BYTES: Final = 2 << 30
"""Memory that a measurement may take: a log that needs more is not measured."""
NICENESS: Final = 5
CONNECT_SECONDS: Final = 3.0


async def measure(question: Question) -> Measured:
    """How far an edit reaches, by the facts as they stand now."""
    connection = await _connected()
    asked = Asked()
    try:
        logs = {stream.name: JetStreamLog(connection, stream.name) for stream in STREAMS}
        gates = gates_of(tuple(filter(None, os.environ.get("FLEETLOG_FEATURE_GATES", "").split(","))))
        world = await read_world(logs, asked, circumstances=circumstances_of(gates))
        copies = question.kind in OVERRIDE_KINDS
        planner = Planner(world, time.time(), interpreter=asked.asking.interpreter, manifests=copies)
        key = PolicyKey(question.kind, question.namespace, question.name)
        planner.apply([Change(key, question.manifest)])
        await settle(planner, logs, asked, _unknown)
        radius = plan_of(planner, ()).radius
        return Measured(radius.disturbed, radius.claimed)
    finally:
        await asked.close()
        await connection.close()


async def _connected() -> Connection:
    """A connection to the log; raises LogError soon where none answers: a guard waits for what is said here."""
    settings = log_settings(os.environ)
    said: list[Exception] = []
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            return await Connection.open(
                settings.nats_url,
                name="fleetlog/foresight",
                on_error=said.append,
                tls=tls_context(settings),
                **credentials(settings),
            )
    except (TimeoutError, NatsError) as error:
        raise LogError(f"no server answers at {settings.nats_url}: {said[-1] if said else error}") from None


async def _unknown(_: ObjectKey) -> bytes | None:
    """The control plane is not read here: what is not on the log holds nothing that could be disturbed."""
    return None


def main() -> None:
    """Answer one question; an error is an answer as well."""
    os.nice(NICENESS)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_DATA, (MOST_BYTES, MOST_BYTES))
    try:
        question = msgspec.json.decode(sys.stdin.buffer.read(), type=Question)
        answer = asyncio.run(measure(question))
    except MemoryError:
        answer = Measured(problem=f"it takes more than {MOST_BYTES >> 20} MiB")
    except (LogError, OSError, ValueError) as error:
        answer = Measured(problem=f"the log cannot be read: {error}")
    sys.stdout.buffer.write(msgspec.json.encode(answer))


if __name__ == "__main__":
    main()
