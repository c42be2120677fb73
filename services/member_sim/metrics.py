"""Counters of the simulated member in the format Prometheus scrapes."""

from prometheus_client import Counter

DECISIONS = Counter("fleetlog_member_sim_decisions_total", "Keys decided.")
WRITES = Counter("fleetlog_member_sim_writes_total", "Writes carried out.", ["operation"])
REFUSALS = Counter("fleetlog_member_sim_refusals_total", "Writes the API server refused.", ["reason"])
