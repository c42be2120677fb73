"""Services: the Endpoints and EndpointSlice of their pods, and the address of a load balancer."""

import zlib
from typing import Any

from schemas.manifest import Manifest
from services.member_sim.world.pod_reading import is_finished, starting
from services.member_sim.world.world_model import (
    ENDPOINTS,
    NOTHING,
    SERVICES,
    SLICES,
    Decision,
    Key,
    Turn,
    Write,
    is_true,
    owner_reference,
)
from services.member_sim.world.world_state import State

SERVICE_NAME = "kubernetes.io/service-name"
MANAGED_BY = "endpointslice.kubernetes.io/managed-by"
CONTROLLER = "endpointslice-controller.k8s.io"


def decide_service(state: State, key: Key, turn: Turn) -> Decision:
    """Decide the writes for one Service."""
    service = state.find(key)
    if service is None:
        endpoints = state.get(ENDPOINTS, key.namespace, key.name)
        if endpoints is None or not _is_ours(endpoints):
            return NOTHING
        return Decision([Write("delete", Key(ENDPOINTS, *key[1:]), uid=endpoints["metadata"]["uid"])])
    if "deletionTimestamp" in service["metadata"] or state.closing(key.namespace):
        return NOTHING
    writes = _load_balancer(key, service)
    selector = service["spec"].get("selector")
    if not selector or service["spec"].get("type") == "ExternalName":
        return Decision(writes)
    pods = [pod for pod in state.pods_with(key.namespace, selector) if not is_finished(pod)]
    moment = starting(state, pods, turn.config, turn.now)
    if moment is not None and moment <= turn.now:
        return Decision(writes, moment + 1)
    placed = [pod for pod in pods if (pod.get("status") or {}).get("podIP")]
    placed.sort(key=lambda pod: str(pod["status"]["podIP"]))
    writes += _endpoints(state, key, service, placed)
    writes += _slice(state, key, service, placed)
    return Decision(writes)


def _load_balancer(key: Key, service: Manifest) -> list[Write]:
    if service["spec"].get("type") != "LoadBalancer" or service["spec"].get("loadBalancerClass"):
        return []
    present = ((service.get("status") or {}).get("loadBalancer") or {}).get("ingress")
    if present:
        return []
    number = zlib.crc32(f"{key.namespace}/{key.name}".encode())
    wanted = service["spec"].get("loadBalancerIP") or f"172.19.{number >> 8 & 255}.{number & 255}"
    entry = {"ip": wanted, "ipMode": "VIP"}
    status = {**(service.get("status") or {}), "loadBalancer": {"ingress": [entry]}}
    return [Write("status", key, status, uid=service["metadata"]["uid"])]


def _endpoints(state: State, key: Key, service: Manifest, pods: list[Manifest]) -> list[Write]:
    where = Key(ENDPOINTS, key.namespace, key.name)
    old = state.find(where)
    if old is not None and old["metadata"].get("ownerReferences"):
        return []
    everyone = service["spec"].get("publishNotReadyAddresses")
    ready = [_address(pod) for pod in pods if _serves(pod) or everyone]
    waiting = [_address(pod) for pod in pods if not _serves(pod) and not everyone]
    subset: Manifest = {}
    if ready:
        subset["addresses"] = ready
    if waiting:
        subset["notReadyAddresses"] = waiting
    ports = _ports(service, pods)
    if ports:
        subset["ports"] = ports
    subsets = [subset] if ready or waiting else []
    if old is not None and (old.get("subsets") or []) == subsets:
        return []
    body: Manifest = {"apiVersion": "v1", "kind": "Endpoints"}
    labels = {**(service["metadata"].get("labels") or {}), "endpoints.kubernetes.io/managed-by": "endpoint-controller"}
    body["metadata"] = {"name": key.name, "namespace": key.namespace, "labels": labels}
    if old is not None:
        body["metadata"] = old["metadata"]
    if subsets:
        body["subsets"] = subsets
    return [Write("create" if old is None else "update", where, body)]


def _slice(state: State, key: Key, service: Manifest, pods: list[Manifest]) -> list[Write]:
    owned = state.children(service["metadata"]["uid"], SLICES)
    old = min(owned, key=lambda found: str(found["metadata"]["name"]), default=None)
    everyone = bool(service["spec"].get("publishNotReadyAddresses"))
    endpoints = [_endpoint(pod, everyone) for pod in pods]
    ports = _ports(service, pods)
    if old is not None and (old.get("endpoints") or []) == endpoints and (old.get("ports") or []) == ports:
        return []
    digest = f"{zlib.crc32(service['metadata']['uid'].encode()):08x}"
    body: Manifest = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "addressType": (service["spec"].get("ipFamilies") or ["IPv4"])[0],
        "endpoints": endpoints,
        "ports": ports,
        "metadata": {
            "name": f"{key.name}-{digest[:5]}",
            "namespace": key.namespace,
            "labels": {
                **(service["metadata"].get("labels") or {}),
                SERVICE_NAME: key.name,
                MANAGED_BY: CONTROLLER,
            },
            "ownerReferences": [owner_reference(SERVICES, service)],
        },
    }
    if old is None:
        return [Write("create", Key(SLICES, key.namespace, body["metadata"]["name"]), body)]
    body["metadata"] = old["metadata"]
    return [Write("update", Key(SLICES, key.namespace, old["metadata"]["name"]), body)]


def _endpoint(pod: Manifest, everyone: bool) -> Manifest:
    leaving = "deletionTimestamp" in pod["metadata"]
    serving = is_true(pod, "Ready")
    return {
        "addresses": [pod["status"]["podIP"]],
        "conditions": {"ready": everyone or (serving and not leaving), "serving": serving, "terminating": leaving},
        "nodeName": pod["spec"].get("nodeName"),
        "targetRef": _target(pod),
    }


def _address(pod: Manifest) -> Manifest:
    return {"ip": pod["status"]["podIP"], "nodeName": pod["spec"].get("nodeName"), "targetRef": _target(pod)}


def _target(pod: Manifest) -> Manifest:
    meta = pod["metadata"]
    return {"kind": "Pod", "namespace": meta["namespace"], "name": meta["name"], "uid": meta["uid"]}


def _serves(pod: Manifest) -> bool:
    return is_true(pod, "Ready") and "deletionTimestamp" not in pod["metadata"]


def _ports(service: Manifest, pods: list[Manifest]) -> list[Manifest]:
    """Return the service's ports as seen on the pods; a named port that no pod has is left out."""
    found = []
    for port in service["spec"].get("ports") or ():
        number = _number(port.get("targetPort", port["port"]), pods)
        if number is None:
            continue
        entry: Manifest = {"name": port.get("name", ""), "port": number, "protocol": port.get("protocol", "TCP")}
        if port.get("appProtocol"):
            entry["appProtocol"] = port["appProtocol"]
        found.append(entry)
    return found


def _number(target: Any, pods: list[Manifest]) -> int | None:
    if isinstance(target, int):
        return target
    for pod in pods:
        for container in pod["spec"].get("containers") or ():
            for port in container.get("ports") or ():
                if port.get("name") == target:
                    return int(port["containerPort"])
    return None


def _is_ours(endpoints: Manifest) -> bool:
    labels = endpoints["metadata"].get("labels") or {}
    return bool(labels.get("endpoints.kubernetes.io/managed-by") == "endpoint-controller")
