"""Starts the log's server of a laptop installation unless it would cut off what is stored behind a damaged message.

`python -m services.cli.log.disk STORE REFUSED nats-server -c FILE`; why it was not started is in the file REFUSED.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

from services.cli.log.disk.files import damage, sentence

REFUSED: Final = 3


def main(arguments: list[str]) -> int:
    """Check and become the server; returns only when it must not start."""
    store, refused, *server = arguments
    try:
        found = damage(Path(store), server[0])
    except OSError as error:
        # Without space for a copy, or without its memory: as every server starts.
        sys.stderr.write(f"the log was not checked before the start: {error}\n")
        found = []
    if not found:
        Path(refused).unlink(missing_ok=True)
        os.execv(server[0], server)
    Path(refused).write_text(sentence(found) + "\n", encoding="utf-8")
    sys.stderr.write(f"the log's server is not started: {sentence(found)}\n")
    return REFUSED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
