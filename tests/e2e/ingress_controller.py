"""An ingress controller outside of all clusters, which reads the control plane as multi-cluster-ingress-nginx does.

MultiClusterIngresses give the routes; of a backend `web` the Service `derived-web` of the control plane and its
EndpointSlices say where it is reached. Slices of clusters whose traffic is blocked are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from schemas.manifest import Manifest
from tests.e2e.fleet import Kubectl
from tests.e2e.pod_network import Cluster, Inside, ready_endpoints

CLASS = "nginx"
PORT = 8000
_CLUSTER = "endpointslice.karmada.io/provision-cluster"
_KIND = "multiclusteringresses"


class IngressController:
    """Serves one namespace at its own address."""

    def __init__(self, control: Kubectl, namespace: str, place: Cluster) -> None:
        self._control, self._namespace = control, namespace
        self._server: Inside = place.program("ingress_proxy.py")
        self.address = place.address
        self.url = f"http://{place.address}:{PORT}/"
        self._server.ask({"listen": [place.address, PORT]})

    def led(self) -> set[str]:
        """Lead requests as the control plane says now; the addresses that they may go to."""
        routes = [route for item in self._control.items(_KIND, self._namespace) for route in self._routes(item)]
        self._server.ask({"routes": routes})
        return {address for route in routes for address, _ in route["endpoints"]}

    def publish(self, name: str) -> None:
        """Say in the status where requests come in."""
        status = {"status": {"loadBalancer": {"ingress": [{"ip": self.address}]}}}
        text = msgspec.json.encode(status).decode()
        words = ("patch", "mci", name, "--subresource=status", "--type=merge", "-p", text)
        self._control.run(*words, namespace=self._namespace)

    def _routes(self, ingress: Manifest) -> Iterator[Manifest]:
        spec = ingress["spec"]
        if spec.get("ingressClassName") != CLASS:
            return
        blocked = set((ingress.get("status") or {}).get("trafficBlockClusters") or ())
        if "defaultBackend" in spec:
            endpoints = self._endpoints(spec["defaultBackend"], blocked)
            yield {"host": "", "path": "/", "exact": False, "endpoints": endpoints}
        for rule in spec.get("rules") or ():
            for path in (rule.get("http") or {}).get("paths") or ():
                yield {
                    "host": rule.get("host") or "",
                    "path": path.get("path") or "/",
                    "exact": path.get("pathType") == "Exact",
                    "endpoints": self._endpoints(path["backend"], blocked),
                }

    def _endpoints(self, backend: Manifest, blocked: set[str]) -> list[tuple[str, int]]:
        name = f"derived-{backend['service']['name']}"
        service = self._control.get("service", name, self._namespace)
        if service is None:
            return []
        asked = backend["service"]["port"]
        ports: list[Any] = [
            port
            for port in service["spec"]["ports"]
            if asked.get("name") == port.get("name", "") or asked.get("number") == port["port"]
        ]
        slices = self._control.items("endpointslices", self._namespace, f"kubernetes.io/service-name={name}")
        open_ones = [item for item in slices if item["metadata"]["annotations"][_CLUSTER] not in blocked]
        return sorted(place for port in ports for place in ready_endpoints(open_ones, port.get("name", "")))
