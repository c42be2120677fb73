"""Starts the agent: `python -m services.agent`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from services._kit.base import logs
from services._kit.base.flags import package_of, with_flags
from services._kit.base.settings import SettingsError, load, tell_unknown
from services._kit.concurrency.event_loop import FAILED, OK, run_loop
from services._kit.log.ids import default_instance
from services._kit.runtime.service_wiring import BAD_SETTINGS
from services.agent.app import NAME, run_until_signal
from services.agent.settings import AgentSettings


def main(arguments: Sequence[str] = ()) -> int:
    """Run until asked to stop; the exit code of the process. `arguments` are flags (`--help` lists them)."""
    try:
        environment = with_flags(AgentSettings, arguments, package_of(AgentSettings))
        settings = load(AgentSettings, environment)
        logger = logs.configure(NAME, settings.instance or default_instance(NAME), settings.log_level)
        tell_unknown(AgentSettings, environment, logger)
    except (SettingsError, ValueError) as error:
        print(f"fleetlog: {error}", file=sys.stderr)  # noqa: T201 - logging is not set up yet
        return BAD_SETTINGS
    try:
        run_loop(run_until_signal(settings))
    except SettingsError as error:
        logger.error("settings", reason=str(error))
        return BAD_SETTINGS
    except OSError as error:
        logger.error("stopped", reason=str(error))
        return FAILED
    logger.info("stopped")
    return OK


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
