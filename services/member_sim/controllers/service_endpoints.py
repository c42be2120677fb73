"""Services: the Endpoints and EndpointSlices of their pods, and the address of a load balancer."""

import zlib
from typing import Final

from schemas.manifest import Manifest
from services.member_sim.controllers.endpoint_slices import (
    HEADLESS,
    family_of,
    is_headless,
    mirrored_slices,
    pod_addresses,
    pod_hostname,
    pod_ports,
    pod_reference,
    slices_of_pods,
)
from services.member_sim.world.pod_reading import is_finished, starting
from services.member_sim.world.world_model import ENDPOINTS, Decision, Key, Turn, Write, is_true
from services.member_sim.world.world_state import State

_MANAGED_BY: Final = "endpoints.kubernetes.io/managed-by"
_CONTROLLER: Final = "endpoint-controller"
_OVER_CAPACITY: Final = "endpoints.kubernetes.io/over-capacity"
_MOST: Final = 1000
"""Addresses of one Endpoints object; the slices have all."""


def decide_service(state: State, key: Key, turn: Turn) -> Decision:
    """Decide the writes for one Service."""
    service = state.find(key)
    if service is None:
        endpoints = state.get(ENDPOINTS, key.namespace, key.name)
        if endpoints is None or not _is_ours(endpoints):
            return Decision(mirrored_slices(state, key, None))
        return Decision([Write("delete", Key(ENDPOINTS, *key[1:]), uid=endpoints["metadata"]["uid"])])
    if "deletionTimestamp" in service["metadata"] or state.closing(key.namespace):
        return Decision([])
    writes = _load_balancer(key, service)
    if service["spec"].get("type") == "ExternalName":
        return Decision(writes)
    selector = service["spec"].get("selector")
    if not selector:
        return Decision([*writes, *mirrored_slices(state, key, service)])
    pods = [pod for pod in state.pods_with(key.namespace, selector) if not is_finished(pod)]
    moment = starting(state, pods, turn.config, turn.now)
    if moment is not None and moment <= turn.now:
        return Decision(writes, moment + 1)
    placed = [pod for pod in pods if pod_addresses(pod)]
    placed.sort(key=lambda pod: pod_addresses(pod)[0])
    writes += _endpoints(state, key, service, placed)
    writes += slices_of_pods(state, key, service, placed)
    # It may have had none before, and Endpoints that were mirrored.
    writes += mirrored_slices(state, key, None)
    return Decision(writes)


def _load_balancer(key: Key, service: Manifest) -> list[Write]:
    spec, status = service["spec"], service.get("status") or {}
    present = (status.get("loadBalancer") or {}).get("ingress")
    if spec.get("loadBalancerClass"):
        return []
    if spec.get("type") != "LoadBalancer":
        if not present:
            return []
        return [Write("status", key, {**status, "loadBalancer": {}}, uid=service["metadata"]["uid"])]
    if present:
        return []
    number = zlib.crc32(f"{key.namespace}/{key.name}".encode())
    wanted = spec.get("loadBalancerIP") or f"172.19.{number >> 8 & 255}.{number & 255}"
    entry = {"ip": wanted, "ipMode": "VIP"}
    return [Write("status", key, {**status, "loadBalancer": {"ingress": [entry]}}, uid=service["metadata"]["uid"])]


def _endpoints(state: State, key: Key, service: Manifest, pods: list[Manifest]) -> list[Write]:
    where = Key(ENDPOINTS, key.namespace, key.name)
    old = state.find(where)
    if old is not None and old["metadata"].get("ownerReferences"):
        return []
    subsets = _subsets(service, pods[:_MOST])
    labels = {**(service["metadata"].get("labels") or {}), _MANAGED_BY: _CONTROLLER}
    if is_headless(service):
        labels[HEADLESS] = ""
    metadata: Manifest = {"name": key.name, "namespace": key.namespace} if old is None else {**old["metadata"]}
    metadata["labels"] = labels
    annotations = {**(metadata.get("annotations") or {})}
    annotations.pop(_OVER_CAPACITY, None)
    if len(pods) > _MOST:
        annotations[_OVER_CAPACITY] = "truncated"
    if annotations or metadata.get("annotations"):
        metadata["annotations"] = annotations
    if old is not None and (old.get("subsets") or []) == subsets and old["metadata"] == metadata:
        return []
    body: Manifest = {"apiVersion": "v1", "kind": "Endpoints", "metadata": metadata}
    if subsets:
        body["subsets"] = subsets
    return [Write("create" if old is None else "update", where, body)]


def _subsets(service: Manifest, pods: list[Manifest]) -> list[Manifest]:
    """Addresses of the first family, together with those that have the same ports."""
    everyone = bool(service["spec"].get("publishNotReadyAddresses"))
    family = (service["spec"].get("ipFamilies") or ["IPv4"])[0]
    subsets: list[Manifest] = []
    for pod in pods:
        addresses = [ip for ip in pod_addresses(pod) if family_of(ip) == family]
        if not addresses:
            continue
        # Empty names are not kept here, unlike those of slices.
        ports = [{name: value for name, value in port.items() if value != ""} for port in pod_ports(service, pod)]
        found = next((subset for subset in subsets if subset.get("ports", []) == ports), None)
        if found is None:
            found = {"ports": ports} if ports else {}
            subsets.append(found)
        ready = everyone or (is_true(pod, "Ready") and "deletionTimestamp" not in pod["metadata"])
        entry: Manifest = {"ip": addresses[0], "nodeName": pod["spec"].get("nodeName"), "targetRef": pod_reference(pod)}
        if hostname := pod_hostname(service, pod):
            entry["hostname"] = hostname
        found.setdefault("addresses" if ready else "notReadyAddresses", []).append(entry)
    return subsets


def _is_ours(endpoints: Manifest) -> bool:
    labels = endpoints["metadata"].get("labels") or {}
    return bool(labels.get(_MANAGED_BY) == _CONTROLLER)
