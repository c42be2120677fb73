"""Which tests run one after the other in one process, and which of them begin first.

What takes longest begins first, so that nobody waits for it alone at the end; files that use one running installation
stay together, so that it is started once.
"""

from __future__ import annotations

from typing import Final

import pytest
from xdist.scheduler import LoadScopeScheduling

ONE_FLEET: Final = "tests/e2e: one installation"
STOCK: Final = "tests/integration/stock: one installation"
COMMANDS: Final = "tests/integration/cli: one installation"
_TOGETHER: Final = {
    "tests/e2e/test_e2e_clusters.py": ONE_FLEET,
    "tests/e2e/test_e2e_guestbook.py": ONE_FLEET,
    "tests/e2e/test_e2e_nginx.py": ONE_FLEET,
    "tests/e2e/test_e2e_updates.py": ONE_FLEET,
    "tests/integration/stock/test_stock_front.py": STOCK,
    "tests/integration/stock/test_stock_path.py": STOCK,
    "tests/integration/cli/test_cli_members.py": COMMANDS,
    "tests/integration/cli/test_cli_pull.py": COMMANDS,
    "tests/integration/cli/test_cli_pull_signed.py": COMMANDS,
    "tests/integration/cli/test_cli_reading.py": COMMANDS,
    "tests/integration/cli/test_cli_register.py": COMMANDS,
}
_LONGEST_FIRST: Final = (
    ONE_FLEET,
    "tests/faults/test_rounds.py",
    "tests/faults/hostile/test_hostile_rounds.py",
    "tests/faults/chaos/test_chaos_cycle.py",
    "tests/e2e/test_e2e_estimator.py",
    "tests/e2e/test_e2e_failover.py",
    "tests/e2e/test_e2e_pull.py",
    "tests/e2e/test_e2e_pages.py",
    "tests/faults/test_agent_kills.py",
    COMMANDS,
    "tests/integration/member_sim/test_member_with_kubectl.py",
    "tests/integration/cli/test_cli_outside.py",
    "tests/integration/cli/test_cli_stop.py",
    "tests/integration/cli/test_cli_demo.py",
    "tests/integration/history/test_history_installation.py",
    "tests/integration/restore/test_backup_installation.py",
    "tests/integration/blobs/test_blobs_installation.py",
    "tests/integration/agent/test_agent_admission.py",
    "tests/integration/agent/test_agent_hostile.py",
    "tests/log/test_serve.py",
    "tests/unit/rules/test_scheduling_properties.py",
)


def unit_of(nodeid: str) -> str:
    """What a test stays together with: its file, or several."""
    file = nodeid.partition("::")[0]
    return _TOGETHER.get(file, file)


def in_order(items: list[pytest.Item]) -> None:
    """Put the longest first and what stays together side by side; otherwise they stay in the order they have."""
    places: dict[str, int] = {name: place - len(_LONGEST_FIRST) for place, name in enumerate(_LONGEST_FIRST)}
    for item in items:
        places.setdefault(unit_of(item.nodeid), len(places))
    items.sort(key=lambda item: places[unit_of(item.nodeid)])


class Units(LoadScopeScheduling):
    """Hands out units, in the order of their collection."""

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid)
