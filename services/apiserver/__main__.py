"""Runs one API server: settings from FLEETLOG_* variables, objects in JetStream (FLEETLOG_NATS_URL) or memory.

The identity at the log's servers and their authority come from the variables of every service: FLEETLOG_NATS_CREDS,
FLEETLOG_NATS_USER with FLEETLOG_NATS_PASSWORD_FILE, FLEETLOG_TLS_CA.
"""

import asyncio
import gc
import os
import signal
import sys
from collections.abc import Sequence

from services._kit.base import logs
from services._kit.base.settings import SettingsError, access_options, log_settings
from services._kit.concurrency.supervision import Supervisor
from services._kit.concurrency.tasks import first_of
from services._kit.log.ids import default_instance
from services.apiserver import help_text
from services.apiserver.kinds.kind_catalog import builtin_registry
from services.apiserver.server import ApiServer
from services.apiserver.settings import flag, from_environment, whole_number
from services.apiserver.store.store_port import CANNOT_START, Store, StoreUnavailable


class Misconfigured(ValueError):
    """A variable that cannot be used; the message names it."""


async def _main() -> None:
    # Lines without the values of variables: those of a request may hold a Secret.
    logs.configure("apiserver", default_instance("apiserver"), os.environ.get("FLEETLOG_LOG_LEVEL", "info"))
    try:
        settings = from_environment()
        port = whole_number(os.environ, "PORT", 6443)
        replicas = whole_number(os.environ, "REPLICAS", 1)
        drop_unreadable = flag(os.environ, "DROP_UNREADABLE", default=False)
        access = access_options(log_settings(os.environ))
    except (ValueError, OSError, SettingsError) as error:
        raise Misconfigured(str(error)) from None
    store: Store
    url = os.environ.get("FLEETLOG_NATS_URL", "")
    if url:
        from services.apiserver.store.jetstream_store import JetStreamStore
        from services.apiserver.store.secret_encryption import sealing_of

        stream = os.environ.get("FLEETLOG_APISERVER_STREAM", "OBJECTS")
        prefix = os.environ.get("FLEETLOG_APISERVER_PREFIX", "obj")
        data_dir = settings.data_dir
        assert data_dir is not None
        store = JetStreamStore(
            url,
            stream=stream,
            prefix=prefix,
            replicas=replicas,
            connect_options=access,
            sealing=sealing_of(os.environ.get("FLEETLOG_SECRETS_KEY_FILE", ""), data_dir),
            drop_unreadable=drop_unreadable,
        )
    else:
        from services.apiserver.store.memory_store import MemoryStore

        store = MemoryStore()
    server = ApiServer(store, builtin_registry(), settings)
    host = os.environ.get("FLEETLOG_APISERVER_HOST", "127.0.0.1")
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    async with Supervisor():
        try:
            await server.start(host, port)
        except StoreUnavailable as error:
            logs.get().error(CANNOT_START, reason=f"control plane cannot start: {error}")
            sys.exit(1)
        # What was loaded stays for long: the garbage collector can skip it.
        gc.collect()
        gc.freeze()
        print(f"ready {server.url}", flush=True)  # noqa: T201 - callers wait for this line
        lost = await first_of(stopped.wait(), store.lost())
        await server.stop()
    if lost is not True:
        from services._kit.runtime.service_wiring import LOG_REPLACED

        # The error is logged; the process supervisor starts this server again with the present stream.
        sys.exit(LOG_REPLACED)


def main(arguments: Sequence[str] = ()) -> None:
    """Run until SIGINT or SIGTERM; settings that cannot be used are named on standard error with exit code 2.

    `arguments` are of a command line of its own; in an installation the process has that of `fleetlog up`.
    """
    from services._kit.concurrency.event_loop import run_loop
    from services._kit.runtime.service_wiring import BAD_SETTINGS

    if {"-h", "--help"} & set(arguments):
        print(help_text.usage(), end="")  # noqa: T201 - what was asked for
        return
    if why := help_text.refusal(arguments):
        print(why, file=sys.stderr)  # noqa: T201 - as every service says it
        sys.exit(BAD_SETTINGS)
    try:
        run_loop(_main())
    except Misconfigured as error:
        print(f"apiserver: {error}", file=sys.stderr)  # noqa: T201 - as every service says it
        sys.exit(BAD_SETTINGS)


if __name__ == "__main__":
    main(sys.argv[1:])
