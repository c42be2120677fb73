"""EndpointSlices of a Service: those of its pods by family and ports, or mirrors of Endpoints that a user wrote."""

import zlib
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from schemas.manifest import Manifest
from services.member_sim.world.world_model import (
    ENDPOINTS,
    NODES,
    SERVICES,
    SLICES,
    Key,
    Write,
    is_true,
    owner_reference,
)
from services.member_sim.world.world_state import State

SERVICE_NAME: Final = "kubernetes.io/service-name"
MANAGED_BY: Final = "endpointslice.kubernetes.io/managed-by"
HEADLESS: Final = "service.kubernetes.io/headless"
SKIP_MIRROR: Final = "endpointslice.kubernetes.io/skip-mirror"
ZONE: Final = "topology.kubernetes.io/zone"
_CONTROLLER: Final = "endpointslice-controller.k8s.io"
_MIRROR: Final = "endpointslicemirroring-controller.k8s.io"
_LEADER: Final = "control-plane.alpha.kubernetes.io/leader"
_LARGEST: Final = 100
"""Endpoints of one slice."""
_MOST_MIRRORED: Final = 1000
"""Addresses of one subset that are mirrored."""
_RESERVED: Final = frozenset({SERVICE_NAME, MANAGED_BY, HEADLESS})
_encode: Final = msgspec.json.Encoder(order="sorted").encode

Group = tuple[str, bytes]
"""Address type and ports, as their JSON: what all endpoints of a slice have in common."""


def slices_of_pods(state: State, key: Key, service: Manifest, pods: Iterable[Manifest]) -> list[Write]:
    """The writes that bring the slices of a Service with a selector to what its pods are."""
    spec = service["spec"]
    everyone = bool(spec.get("publishNotReadyAddresses"))
    wanted: dict[Group, list[Manifest]] = {}
    families = spec.get("ipFamilies") or ["IPv4"]
    named = any(isinstance(port.get("targetPort"), str) for port in spec.get("ports") or ())
    ports = b""
    for pod in pods:
        if named or not ports:
            ports = _encode(pod_ports(service, pod))
        for family in families:
            if addresses := [ip for ip in pod_addresses(pod) if family_of(ip) == family][:1]:
                endpoint = _endpoint(state, service, pod, addresses, everyone)
                wanted.setdefault((family, ports), []).append(endpoint)
    labels = {name: text for name, text in _labels(service).items() if name not in _RESERVED}
    labels |= {SERVICE_NAME: key.name, MANAGED_BY: _CONTROLLER}
    if is_headless(service):
        labels[HEADLESS] = ""
    if (spec.get("trafficDistribution") or "").startswith("Prefer"):
        _hint(spec["trafficDistribution"], wanted)
    owned = state.children(service["metadata"]["uid"], SLICES)
    return list(_reconciled(state, owner_reference(SERVICES, service), key, labels, families, wanted, owned))


def mirrored_slices(state: State, key: Key, service: Manifest | None) -> list[Write]:
    """The writes that mirror the Endpoints of a Service without selector; None: the Service is gone."""
    endpoints = state.get(ENDPOINTS, key.namespace, key.name)
    if endpoints is None:
        return []
    owned = state.children(endpoints["metadata"]["uid"], SLICES)
    hidden = (
        _LEADER in (endpoints["metadata"].get("annotations") or {}) or _labels(endpoints).get(SKIP_MIRROR) == "true"
    )
    if service is None or hidden:
        return [_deleted(item) for item in owned]
    wanted: dict[Group, list[Manifest]] = {}
    for subset in endpoints.get("subsets") or ():
        ports = _encode([{"protocol": "TCP", "name": "", **port} for port in subset.get("ports") or ()])
        found = [(entry, True) for entry in subset.get("addresses") or ()]
        found += [(entry, False) for entry in subset.get("notReadyAddresses") or ()]
        for entry, ready in found[:_MOST_MIRRORED]:
            endpoint = {
                "addresses": [entry["ip"]],
                "conditions": {"ready": ready},
                **{name: entry[name] for name in ("hostname", "nodeName", "targetRef") if entry.get(name)},
            }
            wanted.setdefault((family_of(entry["ip"]), ports), []).append(endpoint)
    families = sorted({family for family, _ in wanted})
    labels = {**_labels(endpoints), SERVICE_NAME: key.name, MANAGED_BY: _MIRROR}
    return list(_reconciled(state, owner_reference(ENDPOINTS, endpoints), key, labels, families, wanted, owned))


def pod_ports(service: Manifest, pod: Manifest) -> list[Manifest]:
    """The ports of a Service as they are on one pod; a named port that the pod does not have is left out."""
    found = []
    for port in service["spec"].get("ports") or ():
        protocol = port.get("protocol", "TCP")
        number = _number(port.get("targetPort") or port["port"], protocol, pod)
        if number is None:
            continue
        entry: Manifest = {"name": port.get("name", ""), "port": number, "protocol": protocol}
        if port.get("appProtocol"):
            entry["appProtocol"] = port["appProtocol"]
        found.append(entry)
    return found


def pod_addresses(pod: Manifest) -> list[str]:
    """All addresses of a pod, of each family."""
    status = pod.get("status") or {}
    several = [entry["ip"] for entry in status.get("podIPs") or () if entry.get("ip")]
    return several or ([status["podIP"]] if status.get("podIP") else [])


def family_of(address: str) -> str:
    """The address type of an address."""
    return "IPv6" if ":" in address else "IPv4"


def is_headless(service: Manifest) -> bool:
    """Whether a Service has no address of its own."""
    return bool(service["spec"].get("clusterIP") == "None")


def pod_hostname(service: Manifest, pod: Manifest) -> str:
    """The name by which a pod is found below the Service; empty where it has none there."""
    spec = pod["spec"]
    return str(spec.get("hostname") or "") if spec.get("subdomain") == service["metadata"]["name"] else ""


def pod_reference(pod: Manifest) -> Manifest:
    """How endpoints name their pod."""
    meta = pod["metadata"]
    return {"kind": "Pod", "namespace": meta["namespace"], "name": meta["name"], "uid": meta["uid"]}


def _labels(manifest: Manifest) -> dict[str, str]:
    return manifest["metadata"].get("labels") or {}


def _number(target: Any, protocol: str, pod: Manifest) -> int | None:
    if isinstance(target, int):
        return target
    # Of the containers that run first only those that go on running serve.
    beside = [one for one in pod["spec"].get("initContainers") or () if one.get("restartPolicy") == "Always"]
    for container in (*(pod["spec"].get("containers") or ()), *beside):
        for port in container.get("ports") or ():
            if port.get("name") == target and port.get("protocol", "TCP") == protocol:
                return int(port["containerPort"])
    return None


def _endpoint(state: State, service: Manifest, pod: Manifest, addresses: list[str], everyone: bool) -> Manifest:
    leaving = "deletionTimestamp" in pod["metadata"]
    serving = is_true(pod, "Ready")
    endpoint: Manifest = {
        "addresses": addresses,
        "conditions": {"ready": everyone or (serving and not leaving), "serving": serving, "terminating": leaving},
        "targetRef": pod_reference(pod),
    }
    if hostname := pod_hostname(service, pod):
        endpoint["hostname"] = hostname
    if name := pod["spec"].get("nodeName"):
        endpoint["nodeName"] = name
        node = state.get(NODES, "", name)
        if node is not None and (zone := _labels(node).get(ZONE)):
            endpoint["zone"] = zone
    return endpoint


def _hint(distribution: str, wanted: dict[Group, list[Manifest]]) -> None:
    """Say from where ready endpoints should be used; nothing where the zone of one is not known."""
    for endpoints in wanted.values():
        ready = [endpoint for endpoint in endpoints if endpoint["conditions"]["ready"]]
        if not all(endpoint.get("zone") for endpoint in ready):
            continue
        for endpoint in ready:
            endpoint["hints"] = {"forZones": [{"name": endpoint["zone"]}]}
            if distribution == "PreferSameNode":
                endpoint["hints"]["forNodes"] = [{"name": endpoint["nodeName"]}]


def _reconciled(
    state: State,
    owner: Manifest,
    key: Key,
    labels: dict[str, str],
    families: list[str],
    wanted: dict[Group, list[Manifest]],
    owned: list[Manifest],
) -> Iterator[Write]:
    """Creates, changes and deletes slices; an endpoint stays in the slice that it is in."""
    present: dict[Group, list[Manifest]] = {}
    for item in sorted(owned, key=lambda found: str(found["metadata"]["name"])):
        present.setdefault((item["addressType"], _encode(item.get("ports") or [])), []).append(item)
    for family in families:
        if not any(group[0] == family for group in wanted):
            # That there is none is said by a slice without endpoints.
            wanted[family, b"[]"] = []
    names: set[str] = set()
    for group, endpoints in wanted.items():
        slices = present.pop(group, [])
        yield from _group(state, owner, key, labels, group, endpoints, slices, names)
    for slices in present.values():
        yield from map(_deleted, slices)


def _group(
    state: State,
    owner: Manifest,
    key: Key,
    labels: dict[str, str],
    group: Group,
    endpoints: list[Manifest],
    slices: list[Manifest],
    names: set[str],
) -> Iterator[Write]:
    """The writes for the slices of one family and set of ports."""
    left = {_identity(endpoint): endpoint for endpoint in endpoints}
    kept: list[tuple[Manifest, list[Manifest]]] = []
    for item in slices:
        places = [_identity(endpoint) for endpoint in item.get("endpoints") or ()]
        kept.append((item, [left.pop(place) for place in places if place in left]))
    new = list(left.values())
    for _, held in kept:
        taken = _LARGEST - len(held)
        held += new[:taken]
        new = new[taken:]
    for number, (item, held) in enumerate(kept):
        others = any(filled for _, filled in kept) or new
        if not held and (others or number):
            yield _deleted(item)
        elif (item.get("endpoints") or []) != held or _labels(item) != labels:
            body = {**item, "endpoints": held, "metadata": {**item["metadata"], "labels": labels}}
            yield Write("update", Key(SLICES, key.namespace, item["metadata"]["name"]), body)
    batches = [new[start : start + _LARGEST] for start in range(0, len(new), _LARGEST)]
    for batch in batches or ([] if kept else [[]]):
        name = _free_name(state, key, owner["uid"], group, names)
        yield Write(
            "create",
            Key(SLICES, key.namespace, name),
            {
                "apiVersion": "discovery.k8s.io/v1",
                "kind": "EndpointSlice",
                "addressType": group[0],
                "endpoints": batch,
                "ports": msgspec.json.decode(group[1]),
                "metadata": {"name": name, "namespace": key.namespace, "labels": labels, "ownerReferences": [owner]},
            },
        )


def _identity(endpoint: Manifest) -> tuple[str, str]:
    """What makes an endpoint the same one: its object and address."""
    return str((endpoint.get("targetRef") or {}).get("uid") or ""), str(endpoint["addresses"][0])


def _free_name(state: State, key: Key, uid: str, group: Group, names: set[str]) -> str:
    number = 0
    while True:
        digest = f"{zlib.crc32(b'%s/%s/%s/%d' % (uid.encode(), group[0].encode(), group[1], number)):08x}"
        name = f"{key.name}-{digest[:5]}"
        if name not in names and state.get(SLICES, key.namespace, name) is None:
            names.add(name)
            return name
        number += 1


def _deleted(item: Manifest) -> Write:
    meta = item["metadata"]
    return Write("delete", Key(SLICES, meta["namespace"], meta["name"]), uid=meta["uid"])
