"""Starts the gateway: `python -m services.gateway`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from services._kit.runtime.service_wiring import run
from services.gateway.app import Gateway
from services.gateway.settings import GatewaySettings


def main(arguments: Sequence[str] = ()) -> int:
    """Run until asked to stop; the exit code of the process. `arguments` are flags (`--help` lists them)."""
    return run(Gateway, GatewaySettings, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
