"""Opens the log of an installation for reading."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

from msgspec import Struct, structs

from schemas.topology import STREAMS
from services._kit.base.log_errors import Ambiguous, LogError, Refused, Unavailable
from services._kit.base.settings import Settings, credentials, log_settings, tls_context
from services._kit.log.connection import Connection
from services._kit.log.jetstream import JetStreamLog
from services._rules.identity.accounts import HUB_API, OBSERVER_API
from services.cli.common.installation_search import absence
from services.cli.common.layout import Layout
from services.cli.common.running import Failed

PATIENCE: Final = 5.0
_NO_STREAMS: Final = b'"err_code":10039'
_IDENTITIES: Final = (
    "FLEETLOG_NATS_CREDS",
    "FLEETLOG_NATS_USER with FLEETLOG_NATS_PASSWORD_FILE",
    "FLEETLOG_NATS_NKEY_FILE",
    "or FLEETLOG_NATS_TOKEN_FILE",
)


class LogAccess(Struct, frozen=True):
    """Where the log's server is, and the identity and TLS settings to use there; the URL may hold an identity, too."""

    url: str
    settings: Settings = Settings()


def log_access(directory: Path, nats: str = "") -> LogAccess:
    """The log of a URL, with the services' own settings (FLEETLOG_TLS_CA, …), or of an installation.

    Those settings count for the log of an installation, too, where its server is not run by it. Raises Failed when
    there is neither, SettingsError.
    """
    settings = log_settings(os.environ)
    if nats:
        return LogAccess(nats if "//" in nats else f"nats://{nats}", settings)
    installation = Layout(directory).load()
    if installation is None:
        raise Failed(f"{absence(directory)}; start one with `fleetlog up`, or use --dir or --nats")
    if not installation.nats_url:
        return LogAccess(installation.log_access)
    if installation.nats_creds:
        settings = structs.replace(settings, nats_creds=installation.nats_creds)
    return LogAccess(installation.log_access, settings)


@asynccontextmanager
async def open_log(access: LogAccess) -> AsyncIterator[Connection]:
    """A connection to the log's server, closed afterwards; raises Failed when none answers within five seconds."""
    trouble: list[Exception] = []
    options = credentials(access.settings)
    tls = tls_context(access.settings)
    try:
        async with asyncio.timeout(PATIENCE):
            connection = await Connection.open(
                access.url, name="fleetlog/cli", on_error=trouble.append, tls=tls, **options
            )
    except TimeoutError:
        # What the server said counts more than how a connection ended: it resets those it refuses now and then.
        said = [error for error in trouble if str(error)]
        last = next((error for error in reversed(said) if not isinstance(error, OSError)), said[-1] if said else "")
        raise Failed(_unanswered(without_secret(access.url), str(last))) from None
    try:
        await _find_api(connection)
        yield connection
    except LogError as error:
        if connection.observes and isinstance(error, Ambiguous | Unavailable | Refused):
            raise Failed(f"{error}; this identity only reads, and not every stream (docs/tail-the-log.md)") from error
        raise
    finally:
        await connection.close()


async def _find_api(connection: Connection) -> None:
    """Find out whether this identity is an observer's: its account has no streams, and asks the hub's."""
    with suppress(LogError):
        own = await connection.request(f"{HUB_API}.INFO", timeout=PATIENCE)
        if _NO_STREAMS not in own.data:
            return
        await connection.request(f"{OBSERVER_API}.INFO", timeout=PATIENCE)
        connection.api, connection.observes = OBSERVER_API, True


def _unanswered(url: str, why: str) -> str:
    if "authorization" in why.lower():
        return (
            f"the log at {url} does not let this command in: {why}; name the installation with --dir, or set the "
            f"identity: {', '.join(_IDENTITIES)} (docs/tail-the-log.md)"
        )
    if "certificate" in why.lower() or "ssl" in why.lower():
        return (
            f"the certificate of the log at {url} is not trusted: {why}; set FLEETLOG_TLS_CA to the file of its "
            "authority, as the services have it (ca.crt of `fleetlog certs`)"
        )
    return f"the log at {url} does not answer{f': {why}' if why else ''}; is the installation up?"


def without_secret(url: str) -> str:
    """URLs of servers, separated by commas, without names and passwords."""
    return ",".join(_without_identity(one) for one in url.split(","))


def _without_identity(url: str) -> str:
    before, slashes, rest = url.partition("//")
    return f"{before}{slashes}{rest.rpartition('@')[2]}" if slashes else url.rpartition("@")[2]


def check_pattern(subject: str) -> None:
    """Raises Failed for what is no pattern of subjects; an empty one is fine."""
    tokens = subject.split(".")
    if subject and (not all(tokens) or re.search(r"\s", subject) or ">" in tokens[:-1]):
        raise Failed(f"--subject {subject!r}: tokens between dots, `*` for any one, `>` at the end for the rest")


def streams(connection: Connection) -> dict[str, JetStreamLog]:
    """The streams of the log behind a connection, by name."""
    return {stream.name: JetStreamLog(connection, stream.name) for stream in STREAMS}
