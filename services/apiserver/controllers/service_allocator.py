"""Cluster IPs and node ports of Services: given out once, kept while a Service holds them."""

import ipaddress
import random
import time

from schemas.manifest import Manifest
from services._rules.kubernetes.validation import field_errors as fields
from services._rules.kubernetes.validation.address_families import settle_families
from services.apiserver.core import status_errors as status
from services.apiserver.kinds.kind_model import Kind
from services.apiserver.store.store_port import Entry, Event, Key, Store

NODE_PORTS = range(30000, 32768)
_PENDING_SECONDS = 30.0
Port = tuple[str, int]


class ServiceAllocator:
    """Follows Services in the store; what was given out to a write in flight stays taken for a while."""

    def __init__(self, store: Store, cidr: str) -> None:
        self._store = store
        self._network = ipaddress.ip_network(cidr)
        self._ips: dict[str, Key] = {}
        self._ports: dict[Port, Key] = {}
        self._pending: dict[str | Port, float] = {}
        self._dry_run = False

    async def start(self) -> None:
        """Learn what is held."""
        for entry in self._store.list("", "services"):
            self._hold(entry)
        self._store.listen(self._on_event, ("", "services"))

    async def stop(self) -> None:
        """Nothing to let go."""

    def _on_event(self, event: Event) -> None:
        key = event.entry.key
        if event.prev is not None:
            for ip in _ips(event.prev.obj):
                if self._ips.get(ip) == key:
                    del self._ips[ip]
            for port in _ports(event.prev.obj):
                if self._ports.get(port) == key:
                    del self._ports[port]
        if not event.deleted:
            self._hold(event.entry)

    def _hold(self, entry: Entry) -> None:
        for ip in _ips(entry.obj):
            self._ips[ip] = entry.key
            self._pending.pop(ip, None)
        for port in _ports(entry.obj):
            self._ports[port] = entry.key
            self._pending.pop(port, None)

    def __call__(self, kind: Kind, new: Manifest, old: Manifest | None, *, dry_run: bool) -> None:
        """Fill in what a Service lacks; raises 422 when it asks for something that is taken.

        A dry run reserves nothing, and takes node ports outside the range, as Kubernetes does.
        """
        if kind.store_key != "/services":
            return
        spec = new.get("spec") or {}
        before = (old or {}).get("spec") or {}
        if errors := settle_families(spec, f"IPv{self._network.version}"):
            raise status.invalid(kind.group_kind, new["metadata"].get("name", ""), errors)
        self._dry_run = dry_run
        wanted = spec.get("type", "ClusterIP")
        key = Key("", "services", new["metadata"].get("namespace", ""), new["metadata"].get("name", ""))
        if wanted not in ("ClusterIP", "NodePort", "LoadBalancer"):
            return
        if not before.get("clusterIP") or before.get("type") == "ExternalName":
            self._cluster_ip(kind, key, spec)
        if wanted in ("NodePort", "LoadBalancer"):
            self._node_ports(kind, key, spec)
            local = spec.get("externalTrafficPolicy") == "Local"
            if wanted == "LoadBalancer" and local and not spec.get("healthCheckNodePort"):
                spec["healthCheckNodePort"] = self._new_port("TCP", set())

    def _busy(self, item: str | Port) -> bool:
        until = self._pending.get(item)
        if until is not None and until < time.monotonic():
            del self._pending[item]
            until = None
        return until is not None or item in self._ips or item in self._ports

    def _reserve(self, item: str | Port) -> None:
        if not self._dry_run:
            self._pending[item] = time.monotonic() + _PENDING_SECONDS

    def _cluster_ip(self, kind: Kind, key: Key, spec: Manifest) -> None:
        """Allocate an address to a Service without one; otherwise claim the one it names, which may be refused."""
        if spec.get("clusterIP") == "None":
            spec["clusterIPs"] = spec.get("clusterIPs") or ["None"]
        elif not spec.get("clusterIP"):
            spec["clusterIP"] = self._new_ip()
            spec["clusterIPs"] = [spec["clusterIP"]]
        else:
            self._claim_ip(kind, key, spec)

    def _new_ip(self) -> str:
        size = self._network.num_addresses
        for _ in range(4 * size):
            ip = str(self._network[random.randrange(1, size - 1)])
            if not self._busy(ip):
                self._reserve(ip)
                return ip
        raise status.internal("failed to allocate a serviceIP: range is full")

    def _claim_ip(self, kind: Kind, key: Key, spec: Manifest) -> None:
        ip = spec["clusterIP"]
        try:
            address = ipaddress.ip_address(ip)
        except ValueError:
            return  # the kind's own checks report that better
        if self._ips.get(ip) == key:
            return
        problem = ""
        if address not in self._network:
            problem = f"provided IP is not in the valid range. The range of valid IPs is {self._network}"
        elif self._busy(ip):
            problem = "provided IP is already allocated"
        if problem:
            shown = fields.Raw(f'[]string{{"{ip}"}}')
            error = fields.invalid("spec.clusterIPs", shown, f"failed to allocated ip:{ip} with error:{problem}")
            raise status.invalid(kind.group_kind, key.name, [error])
        spec["clusterIPs"] = spec.get("clusterIPs") or [ip]
        self._reserve(ip)

    def _node_ports(self, kind: Kind, key: Key, spec: Manifest) -> None:
        own: set[int] = set()
        for index, port in enumerate(spec.get("ports") or ()):
            protocol, number = port.get("protocol", "TCP"), port.get("nodePort", 0)
            if not number:
                port["nodePort"] = self._new_port(protocol, own)
            elif self._ports.get((protocol, number)) != key:
                problem = ""
                if number not in NODE_PORTS and not self._dry_run:
                    problem = "provided port is not in the valid range. The range of valid ports is 30000-32767"
                elif self._busy((protocol, number)):
                    problem = "provided port is already allocated"
                if problem:
                    error = fields.invalid(f"spec.ports[{index}].nodePort", number, problem)
                    raise status.invalid(kind.group_kind, key.name, [error])
                self._reserve((protocol, number))
            own.add(port["nodePort"])

    def _new_port(self, protocol: str, own: set[int]) -> int:
        for _ in range(8 * len(NODE_PORTS)):
            number = random.choice(NODE_PORTS)
            if number not in own and not self._busy((protocol, number)):
                self._reserve((protocol, number))
                return number
        raise status.internal("failed to allocate a nodePort: range is full")


def _ips(obj: Manifest) -> list[str]:
    spec = obj.get("spec") or {}
    found = spec.get("clusterIPs") or ([spec["clusterIP"]] if spec.get("clusterIP") else [])
    return [ip for ip in found if ip != "None"]


def _ports(obj: Manifest) -> list[Port]:
    spec = obj.get("spec") or {}
    out = [(p.get("protocol", "TCP"), p["nodePort"]) for p in spec.get("ports") or () if p.get("nodePort")]
    if spec.get("healthCheckNodePort"):
        out.append(("TCP", spec["healthCheckNodePort"]))
    return out
