"""The services of a laptop installation that share one process: those that no delivery waits for.

Elsewhere each is a process of its own (`python -m services.<name>`); here memory counts more (docs/adr/0014).
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Final

from services._kit.together import Part, run_together
from services.cli.layout import Layout

NAME: Final = "background"

TOGETHER: Final[Mapping[str, tuple[str, str]]] = {
    "cluster_monitor": ("ClusterMonitor", "MonitorSettings"),
    "descheduler": ("Descheduler", "DeschedulerSettings"),
    "estimator": ("Estimator", "EstimatorSettings"),
    "failover": ("Failover", "FailoverSettings"),
    "janitor": ("Janitor", "JanitorSettings"),
    "registrar": ("Registrar", "RegistrarSettings"),
}
"""Class of the service and of its settings, by service."""


def run(layout: Layout, environments: Mapping[str, Mapping[str, str]]) -> int:
    """Run services with these variables until asked to stop; the exit code of the process."""
    return run_together([_part(layout, name, environment) for name, environment in environments.items()])


def _part(layout: Layout, name: str, environment: Mapping[str, str]) -> Part:
    factory, settings = TOGETHER[name]
    return Part(
        getattr(import_module(f"services.{name}.app"), factory),
        getattr(import_module(f"services.{name}.settings"), settings),
        environment,
        layout.log(name),
    )
