"""Endpoints of a Service in one cluster, as its EndpointSlices name them; fields are those of discovery.k8s.io/v1."""

from __future__ import annotations

from msgspec import Struct


class PortOfSlice(Struct, frozen=True, omit_defaults=True, rename="camel"):
    """One port of the endpoints of a slice; without a number all ports are meant."""

    name: str = ""
    protocol: str = "TCP"
    port: int | None = None
    app_protocol: str | None = None


class EndpointConditions(Struct, frozen=True, omit_defaults=True):
    """What is known of an endpoint; None where its cluster does not say."""

    ready: bool | None = None
    serving: bool | None = None
    terminating: bool | None = None


class EndpointTarget(Struct, frozen=True, omit_defaults=True, rename="camel"):
    """The object behind an endpoint, usually a pod of its cluster."""

    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""


class ZoneHint(Struct, frozen=True):
    """A zone that an endpoint should be used from."""

    name: str


class EndpointHints(Struct, frozen=True, omit_defaults=True, rename="camel"):
    """Where an endpoint should be used from."""

    for_zones: tuple[ZoneHint, ...] | None = None


class SliceEndpoint(Struct, frozen=True, omit_defaults=True, rename="camel"):
    """One endpoint: its addresses, all of the slice's address type, and what is known of it."""

    addresses: tuple[str, ...]
    conditions: EndpointConditions = EndpointConditions()
    hostname: str | None = None
    node_name: str | None = None
    zone: str | None = None
    target_ref: EndpointTarget | None = None
    hints: EndpointHints | None = None


class ServiceSlice(Struct, frozen=True, omit_defaults=True, rename="camel"):
    """The content of one EndpointSlice; `name` is its own in its cluster, `address_type` IPv4, IPv6 or FQDN."""

    name: str
    address_type: str
    endpoints: tuple[SliceEndpoint, ...] = ()
    ports: tuple[PortOfSlice, ...] = ()
