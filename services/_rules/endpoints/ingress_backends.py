"""What a MultiClusterIngress leads to, what its status says of that, and who keeps it; docs/sources.md#services."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct

from schemas.manifest import Manifest

GROUP: Final = "networking.karmada.io"
INGRESSES: Final = "multiclusteringresses"
INGRESS_API: Final = f"{GROUP}/v1alpha1"
INGRESS_KIND: Final = "MultiClusterIngress"
LOCATIONS: Final = "serviceLocations"
BLOCKED: Final = "trafficBlockClusters"
FIELDS: Final = (LOCATIONS, BLOCKED)
"""What is written of the status; everything else of it belongs to the ingress controller."""
TRAFFIC_CONTROL: Final = "TrafficControl"
"""The action by which Remedies take traffic away from a cluster."""
_LISTED: Final = 5


class Backend(Struct, frozen=True, order=True):
    """A Service that requests are led to; of its port either the name or the number is known. `rule` names whose."""

    service: str
    port_name: str = ""
    port_number: int = 0
    rule: str = ""

    @property
    def port(self) -> str:
        """The port as it was written."""
        return self.port_name or str(self.port_number)


class Location(Struct, frozen=True, order=True):
    """The clusters that have a Service, sorted."""

    name: str
    clusters: tuple[str, ...] = ()


class Ingress(Struct, frozen=True):
    """What a MultiClusterIngress asks for, and what its status says."""

    uid: str
    backends: tuple[Backend, ...] = ()
    locations: tuple[Location, ...] = ()
    blocked: tuple[str, ...] = ()
    others: frozenset[str] = frozenset()
    """Fields of the status that another manager keeps."""

    @property
    def services(self) -> list[str]:
        """Names of the Services that it leads to, each once, sorted."""
        return sorted({backend.service for backend in self.backends})


class Found(Struct, frozen=True):
    """What is known of the Service of a backend."""

    ports: frozenset[tuple[str, int]] | None = None
    """Names and numbers; None: there is no such Service."""
    clusters: tuple[str, ...] = ()
    """Clusters that have it, sorted."""
    offered: Mapping[str, int] = {}
    """Ready endpoints by the cluster that other clusters can reach them in; clusters without ready ones have 0."""


class _Port(Struct, frozen=True):
    name: str = ""
    number: int = 0


class _Service(Struct, frozen=True):
    name: str = ""
    port: _Port | None = None


class _Backend(Struct, frozen=True):
    service: _Service | None = None


class _Path(Struct, frozen=True):
    path: str = ""
    backend: _Backend | None = None


class _Http(Struct, frozen=True):
    paths: tuple[_Path, ...] | None = None


class _Rule(Struct, frozen=True):
    host: str = ""
    http: _Http | None = None


class _Spec(Struct, frozen=True, rename="camel"):
    default_backend: _Backend | None = None
    rules: tuple[_Rule, ...] | None = None


class _Location(Struct, frozen=True):
    name: str = ""
    clusters: tuple[str, ...] | None = None


class _Status(Struct, frozen=True, rename="camel"):
    service_locations: tuple[_Location, ...] | None = None
    traffic_block_clusters: tuple[str, ...] | None = None


class _Object(Struct, frozen=True):
    spec: _Spec | None = None
    status: _Status | None = None


def read_ingress(manifest: Manifest, manager: str) -> Ingress:
    """What a MultiClusterIngress says; `manager` are we. Raises ValueError for one that cannot be read."""
    metadata = manifest["metadata"]
    try:
        found = msgspec.convert({"spec": manifest.get("spec"), "status": manifest.get("status")}, _Object)
    except msgspec.ValidationError as error:
        raise ValueError(f"{INGRESS_KIND} {metadata.get('name')}: {error}") from error
    status = found.status or _Status()
    return Ingress(
        str(metadata.get("uid") or ""),
        tuple(dict.fromkeys(_backends(found.spec or _Spec()))),
        tuple(Location(item.name, item.clusters or ()) for item in status.service_locations or ()),
        status.traffic_block_clusters or (),
        frozenset(_kept_by_others(metadata.get("managedFields"), manager)),
    )


def _backends(spec: _Spec) -> Iterator[Backend]:
    """Those of rules and the default one; other objects than Services are left to the controller."""
    given = [("the default backend", spec.default_backend)]
    for rule in spec.rules or ():
        paths = (rule.http or _Http()).paths or ()
        given += [(f"{rule.host or '*'}{path.path or '/'}", path.backend) for path in paths]
    for words, backend in given:
        if backend is not None and (service := backend.service) is not None:
            port = service.port or _Port()
            yield Backend(service.name, port.name, port.number, words)


def _kept_by_others(entries: Any, manager: str) -> Iterator[str]:
    """Fields of the status, of those that are written here, of which another manager has written the value."""
    for entry in entries if isinstance(entries, list) else ():
        if not isinstance(entry, dict) or entry.get("manager") == manager:
            continue
        fields = (entry.get("fieldsV1") or {}).get("f:status")
        yield from (name for name in FIELDS if isinstance(fields, dict) and f"f:{name}" in fields)


def locations(services: Iterable[str], found: Mapping[str, Found]) -> tuple[Location, ...]:
    """The Services that a cluster has, by name."""
    return tuple(Location(name, found[name].clusters) for name in services if found[name].clusters)


def blocked_clusters(located: Iterable[Location], blocked: Iterable[str]) -> tuple[str, ...]:
    """Clusters of the locations whose traffic is to be blocked, sorted."""
    return tuple(sorted({name for item in located for name in item.clusters} & set(blocked)))


def wanted_status(ingress: Ingress, found: Mapping[str, Found], blocked: Iterable[str]) -> Manifest | None:
    """The fields of the status that are kept here, as they have to be; None where they are so already.

    A field that another manager keeps is left to it; what has nothing to say is left out, and goes.
    """
    own = [name for name in FIELDS if name not in ingress.others]
    places = ingress.locations if LOCATIONS in ingress.others else locations(ingress.services, found)
    clusters = blocked_clusters(places, blocked)
    present = {LOCATIONS: ingress.locations, BLOCKED: ingress.blocked}
    wanted = {LOCATIONS: places, BLOCKED: clusters}
    if all(present[name] == wanted[name] for name in own):
        return None
    status: Manifest = {
        LOCATIONS: [{"name": item.name, "clusters": list(item.clusters)} for item in places],
        BLOCKED: list(clusters),
    }
    return {name: status[name] for name in own if status[name]}


def backend_problems(
    ingress: Ingress, found: Mapping[str, Found], blocked: Iterable[str], namespace: str
) -> list[tuple[str, str]]:
    """Reasons and messages of what keeps requests from reaching pods, the first of each Service."""
    problems: dict[str, tuple[str, str]] = {}
    for backend in ingress.backends:
        problem = _problem(backend, found[backend.service], frozenset(blocked), namespace)
        if problem is not None:
            problems.setdefault(backend.service, problem)
    return list(problems.values())


def _problem(backend: Backend, found: Found, blocked: frozenset[str], namespace: str) -> tuple[str, str] | None:
    name, rule = backend.service, backend.rule
    if found.ports is None:
        return "NoSuchService", f"{rule}: there is no Service {name} in namespace {namespace} of the control plane"
    if not any(
        port == backend.port_name if backend.port_name else number == backend.port_number
        for port, number in found.ports
    ):
        known = _several(sorted(f"{port or '(unnamed)'}:{number}" for port, number in found.ports))
        return "NoSuchPort", f"{rule}: Service {name} has no port {backend.port}; it has {known or 'none'}"
    if not found.clusters:
        return "NotPropagated", f"{rule}: no cluster has Service {name}; does a policy propagate it?"
    if not found.offered:
        return "NoEndpoints", f"{rule}: no cluster exports endpoints of Service {name}: propagate a ServiceExport"
    ready = sorted(cluster for cluster, count in found.offered.items() if count)
    if not ready:
        return "NoReadyEndpoint", f"{rule}: no endpoint of Service {name} is ready in {_several(sorted(found.offered))}"
    if blocked.issuperset(ready):
        return "AllClustersBlocked", f"{rule}: traffic to {_several(ready)} is blocked by a Remedy, no other has {name}"
    return None


def _several(names: Sequence[str]) -> str:
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return f"{', '.join(names[:_LISTED])}{more}"
