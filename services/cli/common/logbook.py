"""Opens the log of an installation for reading."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from msgspec import Struct

from schemas.topology import STREAMS
from services._kit.log.connection import Connection
from services._kit.log.jetstream import JetStreamLog
from services.cli.common.installation_search import absence
from services.cli.common.layout import Layout
from services.cli.common.running import Failed

PATIENCE: Final = 5.0


class LogAccess(Struct, frozen=True):
    """Where the log's server is; `token` and `creds` (a file) are empty when the URL says it all."""

    url: str
    token: str = ""
    creds: str = ""


def log_access(directory: Path, nats: str = "") -> LogAccess:
    """The log of a URL (with FLEETLOG_NATS_TOKEN_FILE or FLEETLOG_NATS_CREDS) or of an installation.

    Raises Failed when there is neither.
    """
    if nats:
        token_file = os.environ.get("FLEETLOG_NATS_TOKEN_FILE", "")
        token = Path(token_file).read_text(encoding="utf-8").strip() if token_file else ""
        return LogAccess(nats if "//" in nats else f"nats://{nats}", token, os.environ.get("FLEETLOG_NATS_CREDS", ""))
    installation = Layout(directory).load()
    if installation is None:
        raise Failed(f"{absence(directory)}; start one with `fleetlog up`, or use --dir or --nats")
    return LogAccess(installation.log_access, creds=installation.nats_creds)


@asynccontextmanager
async def open_log(access: LogAccess) -> AsyncIterator[Connection]:
    """A connection to the log's server, closed afterwards; raises Failed when none answers within five seconds."""
    trouble: list[Exception] = []
    try:
        async with asyncio.timeout(PATIENCE):
            connection = await Connection.open(
                access.url,
                name="fleetlog/cli",
                on_error=trouble.append,
                token=access.token or None,
                user_credentials=access.creds or None,
            )
    except TimeoutError:
        # What the server said counts more than how a connection ended: it resets those it refuses now and then.
        said = [error for error in trouble if str(error)]
        last = next((error for error in reversed(said) if not isinstance(error, OSError)), said[-1] if said else "")
        raise Failed(_unanswered(_without_secret(access.url), str(last))) from None
    try:
        yield connection
    finally:
        await connection.close()


def _unanswered(url: str, why: str) -> str:
    if "authorization" in why.lower():
        return (
            f"the log at {url} does not let this command in: {why}; name the installation with --dir, or set "
            "FLEETLOG_NATS_CREDS or FLEETLOG_NATS_TOKEN_FILE"
        )
    return f"the log at {url} does not answer{f': {why}' if why else ''}; is the installation up?"


def _without_secret(url: str) -> str:
    return url.replace(f"{urlsplit(url).netloc.rpartition('@')[0]}@", "") if "@" in url else url


def check_pattern(subject: str) -> None:
    """Raises Failed for what is no pattern of subjects; an empty one is fine."""
    tokens = subject.split(".")
    if subject and (not all(tokens) or re.search(r"\s", subject) or ">" in tokens[:-1]):
        raise Failed(f"--subject {subject!r}: tokens between dots, `*` for any one, `>` at the end for the rest")


def streams(connection: Connection) -> dict[str, JetStreamLog]:
    """The streams of the log behind a connection, by name."""
    return {stream.name: JetStreamLog(connection, stream.name) for stream in STREAMS}
