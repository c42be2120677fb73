"""Fuzzes a started API server: any 500, crash or lost connection fails it."""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from pathlib import Path

from tests.bench.measures import emit
from tests.fuzz.findings import Watcher
from tests.support.apiserver_process import ServerProcess

PARTS = ("wild", "published")


def main(arguments: list[str]) -> int:
    """Run the parts that the command line asks for; the exit code."""
    parser = argparse.ArgumentParser(prog="just fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long, all parts together")
    parser.add_argument("--seed", type=int, default=0, help="repeat a run; 0 draws one")
    parser.add_argument("--only", choices=PARTS, help="one part")
    asked = parser.parse_args(arguments)
    seed = asked.seed or random.SystemRandom().randrange(1, 1 << 31)
    parts = (asked.only,) if asked.only else PARTS
    print(f"seed {seed}, {asked.seconds:g} s", flush=True)
    with tempfile.TemporaryDirectory() as place:
        server = ServerProcess(Path(place))
        try:
            watcher = Watcher(server)
            try:
                for part in parts:
                    _run(part, watcher, asked.seconds / len(parts), seed)
                watcher.end()
            except AssertionError as error:
                print("\n".join([f"failed, seed {seed}: {error}", *getattr(error, "__notes__", ())]), file=sys.stderr)
                print(server.log()[-4000:], file=sys.stderr)
                return 1
            codes = ", ".join(f"{code}: {count}" for code, count in sorted(watcher.codes.items()))
            print(f"{watcher.sent} requests; {codes}")
            emit("fuzz_neighbour_ms_worst", watcher.neighbour.longest * 1000, "ms", requests=watcher.sent)
            emit("fuzz_rss_mib_peak", server.peak_kb() / 1024, "MiB", requests=watcher.sent)
        finally:
            server.stop()
    return 0


def _run(part: str, watcher: Watcher, seconds: float, seed: int) -> None:
    # Each needs a second to be loaded.
    if part == "wild":
        from tests.fuzz.wild import send_wild

        send_wild(watcher, seconds, seed)
    else:
        from tests.fuzz.published import send_published

        send_published(watcher, seconds, seed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
