"""Runs the tests that failed once more, alone: what passes then is printed as flaky and does not fail the run.

The failures are those of pytest's cache, of all runs since it was cleared: `just test` and `just test-rest` add theirs.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Final

import pytest

MOST: Final = 5
"""Failures that are run again; more are no coincidence."""
FAILURES: Final = Path(".pytest_cache/v/cache/lastfailed")

_GROUP: Final = re.compile(r"@[^\]]*$")
"""What pytest-xdist puts behind the name of a test in a group; parameters end with a bracket."""


class Outcomes:
    """A plugin that notes which tests passed, and which failed in any of their phases."""

    def __init__(self) -> None:
        self._passed: set[str] = set()
        self._failed: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note what came of one phase of a test."""
        if report.failed:
            self._failed.add(report.nodeid)
        elif report.when == "call" and report.passed:
            self._passed.add(report.nodeid)

    def passed(self, test: str) -> bool:
        """Whether it ran and nothing of it failed; a test that was skipped did not pass."""
        return test in self._passed and test not in self._failed


def main() -> int:
    """Run them; 0 when each of them passed."""
    known = json.loads(FAILURES.read_text()) if FAILURES.exists() else {}
    failed = sorted({_GROUP.sub("", test) for test in known})
    if not failed:
        print("Tests failed, and none of them is known: the output above says what happened.")
        return 1
    if len(failed) > MOST:
        print(f"{len(failed)} tests failed; no more than {MOST} are run again.")
        return 1
    outcomes = Outcomes()
    pytest.main(["-p", "no:randomly", *failed], plugins=[outcomes])
    flaky = [test for test in failed if outcomes.passed(test)]
    for test in flaky:
        print("FLAKY", test)
    for test in failed:
        if test not in flaky:
            print("FAILED TWICE", test)
    print(f"{len(flaky)} flaky, {len(failed) - len(flaky)} failed twice")
    return int(len(flaky) < len(failed))


if __name__ == "__main__":
    sys.exit(main())
