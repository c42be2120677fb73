"""Which tests run one after the other in one process, and which of them begin first.

What takes longest begins first, so that nobody waits for it alone at the end; files that use one running installation
stay together, so that it is started once.
"""

from __future__ import annotations

from typing import Final

import pytest
from xdist.scheduler import LoadScopeScheduling

POLICIES: Final = "tests/e2e: an installation for policies"
WORKLOADS: Final = "tests/e2e: an installation for workloads"
VIEWS: Final = "tests/e2e: an installation for views and members"
STOCK: Final = "tests/integration/stock: one installation"
COMMANDS: Final = "tests/integration/cli: one installation"
TOGETHER: Final = {
    "tests/e2e/test_e2e_carrying.py": WORKLOADS,
    "tests/e2e/test_e2e_clusters.py": VIEWS,
    "tests/e2e/test_e2e_dependencies.py": WORKLOADS,
    "tests/e2e/test_e2e_global_view.py": VIEWS,
    "tests/e2e/test_e2e_guestbook.py": WORKLOADS,
    "tests/e2e/test_e2e_joining.py": POLICIES,
    "tests/e2e/test_e2e_metrics.py": VIEWS,
    "tests/e2e/test_e2e_nginx.py": WORKLOADS,
    "tests/e2e/test_e2e_operations.py": VIEWS,
    "tests/e2e/test_e2e_policies.py": POLICIES,
    "tests/e2e/test_e2e_promotion.py": VIEWS,
    "tests/e2e/test_e2e_proxy.py": POLICIES,
    "tests/e2e/test_e2e_quota.py": WORKLOADS,
    "tests/e2e/test_e2e_rebalancing.py": VIEWS,
    "tests/e2e/test_e2e_rights.py": WORKLOADS,
    "tests/e2e/test_e2e_scopes.py": POLICIES,
    "tests/e2e/test_e2e_search.py": VIEWS,
    "tests/e2e/test_e2e_services.py": WORKLOADS,
    "tests/e2e/test_e2e_traffic.py": WORKLOADS,
    "tests/e2e/test_e2e_tunnel.py": VIEWS,
    "tests/e2e/test_e2e_updates.py": WORKLOADS,
    "tests/integration/stock/test_stock_admission.py": STOCK,
    "tests/integration/stock/test_stock_front.py": STOCK,
    "tests/integration/stock/test_stock_path.py": STOCK,
    "tests/integration/cli/test_cli_apply.py": COMMANDS,
    "tests/integration/cli/test_cli_entering.py": COMMANDS,
    "tests/integration/cli/test_cli_foresight.py": COMMANDS,
    "tests/integration/cli/test_cli_members.py": COMMANDS,
    "tests/integration/cli/test_cli_pull.py": COMMANDS,
    "tests/integration/cli/test_cli_pull_signed.py": COMMANDS,
    "tests/integration/cli/test_cli_reading.py": COMMANDS,
    "tests/integration/cli/test_cli_register.py": COMMANDS,
    "tests/integration/cli/test_cli_tracing.py": COMMANDS,
}
LONGEST_FIRST: Final = (
    WORKLOADS,
    POLICIES,
    VIEWS,
    "tests/faults/test_rounds.py",
    "tests/faults/hostile/test_hostile_rounds.py",
    "tests/faults/chaos/test_chaos_cycle.py",
    "tests/e2e/test_e2e_autoscaling.py",
    "tests/e2e/test_e2e_estimator.py",
    "tests/e2e/test_e2e_failover.py",
    "tests/e2e/test_e2e_pull.py",
    "tests/e2e/test_e2e_pages.py",
    "tests/faults/test_agent_kills.py",
    COMMANDS,
    "tests/integration/gateway/test_members_through_planes.py",
    "tests/integration/delivery/test_hostile_members.py",
    "tests/unit/pipeline/test_decisions_are_pure.py",
    "tests/unit/kit/test_hostile_watch.py",
    "tests/integration/cli/test_log_repair.py",
    "tests/unit/search/test_search_fleet.py",
    "tests/integration/proxying/test_global_hostile.py",
    "tests/integration/blobs/test_large_to_twenty.py",
    "tests/integration/cli/test_parked.py",
    "tests/integration/search/test_search_backend.py",
    "tests/unit/cli/test_supervision.py",
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
    return TOGETHER.get(file, file)


def in_order(items: list[pytest.Item]) -> None:
    """Put the longest first and what stays together side by side; otherwise they stay in the order they have."""
    places: dict[str, int] = {name: place - len(LONGEST_FIRST) for place, name in enumerate(LONGEST_FIRST)}
    for item in items:
        places.setdefault(unit_of(item.nodeid), len(places))
    items.sort(key=lambda item: places[unit_of(item.nodeid)])


class Units(LoadScopeScheduling):
    """Hands out units, in the order of their collection."""

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid)
