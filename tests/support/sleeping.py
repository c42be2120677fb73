"""A service that lives and does nothing."""

from __future__ import annotations

import time


def main() -> None:
    """Sleep until killed."""
    while True:
        time.sleep(60)
