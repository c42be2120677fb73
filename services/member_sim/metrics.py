"""Counters of the simulated member in the format Prometheus scrapes; in a registry of their own.

The module is loaded before processes are forked from their common parent: in the default registry every service would
show them.
"""

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge

REGISTRY: Final = CollectorRegistry()
DECISIONS = Counter("fleetlog_member_sim_decisions_total", "Keys decided.", registry=REGISTRY)
WRITES = Counter("fleetlog_member_sim_writes_total", "Writes carried out.", ["operation"], registry=REGISTRY)
REFUSALS = Counter(
    "fleetlog_member_sim_refusals_total", "Writes the API server refused.", ["reason"], registry=REGISTRY
)
CONNECTIONS = Gauge(
    "fleetlog_member_sim_connections",
    "Connections to containers that are open: log, exec, attach, portforward.",
    ["subresource"],
    registry=REGISTRY,
)
