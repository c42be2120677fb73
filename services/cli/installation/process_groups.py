"""The services of a laptop installation that share processes: those that decide, and those that no delivery waits for.

Elsewhere each is a process of its own (`python -m services.<name>`); here memory counts more (docs/adr/0014).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Final

from msgspec import Struct

from services._kit.runtime.multi_service import Part, run_services
from services.cli.common.layout import Layout


class Member(Struct, frozen=True):
    """How one service of a group is made: names of its class and of its settings; some need none."""

    factory: str
    settings: str
    takes_settings: bool = True


GROUPS: Final[Mapping[str, Mapping[str, Member]]] = {
    "deciding": {
        "detector": Member("Detector", "DetectorSettings"),
        "override_renderer": Member("OverrideRenderer", "RendererSettings", takes_settings=False),
        "scheduler": Member("Scheduler", "SchedulerSettings"),
    },
    "background": {
        "autoscaler": Member("Autoscaler", "AutoscalerSettings"),
        "cluster_monitor": Member("ClusterMonitor", "MonitorSettings"),
        "descheduler": Member("Descheduler", "DeschedulerSettings"),
        "estimator": Member("Estimator", "EstimatorSettings"),
        "failover": Member("Failover", "FailoverSettings"),
        "janitor": Member("Janitor", "JanitorSettings"),
        "networking": Member("Networking", "NetworkingSettings"),
        "registrar": Member("Registrar", "RegistrarSettings"),
    },
}
"""Services by the process that runs them."""

PROCESS_OF: Final[Mapping[str, str]] = {name: group for group, members in GROUPS.items() for name in members}
"""The process of each service that shares one."""


def run(layout: Layout, environments: Mapping[str, Mapping[str, str]]) -> int:
    """Run services with these variables until asked to stop; the exit code of the process."""
    return run_services([_part(layout, name, environment) for name, environment in environments.items()])


def _part(layout: Layout, name: str, environment: Mapping[str, str]) -> Part:
    member = GROUPS[PROCESS_OF[name]][name]
    factory: Callable[..., Any] = getattr(import_module(f"services.{name}.app"), member.factory)
    return Part(
        factory if member.takes_settings else lambda _: factory(),
        getattr(import_module(f"services.{name}.settings"), member.settings),
        environment,
        layout.log(name),
    )
