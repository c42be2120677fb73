"""Runs one simulated member with settings from FLEETLOG_MEMBER_* until SIGINT or SIGTERM."""

import asyncio
import gc
import signal
import sys

from services.member_sim.settings import MemberSettings, from_environment


async def _main(settings: MemberSettings) -> None:
    from services._kit.base.logs import configure, get
    from services._kit.runtime.service_wiring import LOG_REPLACED
    from services.apiserver.store.store_port import CANNOT_START, StoreReplaced, StoreUnavailable
    from services.member_sim.app import Running, run_member

    configure("member_sim", settings.name)

    def ready(running: Running) -> None:
        # What was loaded stays for long: the garbage collector can skip it.
        gc.collect()
        gc.freeze()
        print(f"ready {running.url} kubeconfig={running.kubeconfig} faults={running.admin_url}", flush=True)  # noqa: T201 - callers wait for this line

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    try:
        await run_member(settings, ready, stop)
    except StoreReplaced:
        # The store has logged it; the process supervisor starts this member again with the present stream.
        sys.exit(LOG_REPLACED)
    except StoreUnavailable as error:
        get().error(CANNOT_START, reason=f"member {settings.name} cannot start: {error}")
        sys.exit(1)


def main() -> None:
    """Run; settings that cannot be used are named on standard error with exit code 2."""
    try:
        settings = from_environment()
    except ValueError as e:
        print(f"member_sim: {e}", file=sys.stderr)  # noqa: T201 - there is no log yet
        sys.exit(2)
    from services._kit.concurrency.event_loop import run_loop

    run_loop(_main(settings))


if __name__ == "__main__":
    main()
