"""Starts the gateway: `python -m services.gateway`."""

from __future__ import annotations

import sys

from services._kit.main import run
from services.gateway.app import Gateway
from services.gateway.settings import GatewaySettings


def main() -> int:
    """Run until asked to stop; the exit code of the process."""
    return run(Gateway, GatewaySettings)


if __name__ == "__main__":
    sys.exit(main())
