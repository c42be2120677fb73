"""Folds the statuses of members into that of a Service, Ingress, budget or autoscaler template (reference 03 §4.7)."""

from collections.abc import Iterable
from typing import Any, Final

from schemas.manifest import Manifest
from services._rules.interpreter.common.interpretation import object_at
from services._rules.interpreter.common.shape_checks import check_object
from services._rules.interpreter.native.time_format import canonical_time
from services._rules.interpreter.native.workload_statuses import Items, reports, with_status

_BUDGET_SUMS: Final = ("currentHealthy", "desiredHealthy", "expectedPods", "disruptionsAllowed")


def aggregate_service(obj: Manifest, items: Items) -> Manifest:
    """Merges the load balancer entries of a Service; other types have no status to merge."""
    check_object("Service", obj)
    if object_at(obj, "spec").get("type") != "LoadBalancer":
        return obj
    return with_status(obj, _balanced(_entries("Service", items)))


def aggregate_ingress(obj: Manifest, items: Items) -> Manifest:
    """Merges the load balancer entries of an Ingress."""
    check_object("Ingress", obj)
    return with_status(obj, _balanced(_entries("Ingress", items)))


def _entries(kind: str, items: Items) -> list[Manifest]:
    entries: list[Manifest] = []
    for _, member in reports(kind, items):
        entries.extend(entry or {} for entry in (member.get("loadBalancer") or {}).get("ingress") or ())
    return entries


def _balanced(entries: list[Manifest]) -> Manifest:
    merged = merge_load_balancer_ingress(entries)
    return {"loadBalancer": {"ingress": merged} if merged else {}}


def merge_load_balancer_ingress(entries: Iterable[Manifest]) -> list[Manifest]:
    """One entry per host name, address and mode, with the ports of all; in a stable order."""
    merged: dict[tuple[str, str, str | None], list[Manifest]] = {}
    for entry in entries:
        key = (entry.get("hostname") or "", entry.get("ip") or "", entry.get("ipMode"))
        merged.setdefault(key, []).extend(port or {} for port in entry.get("ports") or ())
    result = []
    for hostname, address, mode in sorted(merged, key=_place):
        united: Manifest = {}
        if address:
            united["ip"] = address
        if hostname:
            united["hostname"] = hostname
        if mode is not None:
            united["ipMode"] = mode
        ports = {_port_key(port): port for port in reversed(merged[hostname, address, mode])}
        if ports:
            united["ports"] = [ports[key] for key in sorted(ports)]
        result.append(united)
    return result


def _place(key: tuple[str, str, str | None]) -> tuple[bool, str, str, bool, str]:
    """Entries with a host name first, then by address and mode, those without a mode before those with one."""
    hostname, address, mode = key
    return (not hostname, hostname, address, mode is not None, mode or "")


def _port_key(port: Manifest) -> tuple[int, str, str]:
    return (int(port.get("port") or 0), port.get("protocol") or "", port.get("error") or "")


def aggregate_budget(obj: Manifest, items: Items) -> Manifest:
    """Sums a PodDisruptionBudget's counters and names its disrupted pods by cluster."""
    check_object("PodDisruptionBudget", obj)
    status: dict[str, Any] = dict.fromkeys(_BUDGET_SUMS, 0)
    disrupted: dict[str, str | None] = {}
    for cluster, member in reports("PodDisruptionBudget", items):
        for name in _BUDGET_SUMS:
            status[name] += int(member.get(name) or 0)
        for pod, moment in (member.get("disruptedPods") or {}).items():
            disrupted[f"{cluster}/{pod}"] = canonical_time(moment, "disruptedPods")
    if disrupted:
        status["disruptedPods"] = disrupted
    return obj if obj.get("status") == status else {**obj, "status": status}


def aggregate_autoscaler(obj: Manifest, items: Items) -> Manifest:
    """Sums the replica counts of a HorizontalPodAutoscaler."""
    check_object("HorizontalPodAutoscaler", obj)
    current = desired = 0
    for _, member in reports("HorizontalPodAutoscaler", items):
        current += int(member.get("currentReplicas") or 0)
        desired += int(member.get("desiredReplicas") or 0)
    status: Manifest = {"desiredReplicas": desired}
    if current:
        status["currentReplicas"] = current
    return with_status(obj, status)
