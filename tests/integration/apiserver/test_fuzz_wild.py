"""Some hundred wild requests: none is answered 500 or lost. `just fuzz` takes longer."""

from __future__ import annotations

from pathlib import Path

from tests.fuzz.findings import Watcher
from tests.fuzz.wild import send_wild
from tests.support.apiserver_process import ServerProcess

SECONDS = 5.0
ENOUGH = 101
SEED = 4
"""`just fuzz` draws others."""


def test_wild_requests_find_nothing(tmp_path: Path) -> None:
    server = ServerProcess(tmp_path)
    try:
        watcher = Watcher(server)
        send_wild(watcher, SECONDS, SEED, ENOUGH)
        watcher.end()
    finally:
        server.stop()
