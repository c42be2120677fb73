"""Endpoints: the addresses and ports behind a Service."""

from __future__ import annotations

from schemas.manifest import Manifest
from services._rules.kubernetes.validation import name_formats as names
from services._rules.kubernetes.validation.field_errors import FieldError, invalid, not_supported, required
from services.apiserver.kinds.builtin import BuiltinKind
from services.apiserver.kinds.checks import containers as container_checks
from services.apiserver.kinds.checks import status_fields as status_checks
from services.apiserver.kinds.checks import volumes as volume_checks


class Endpoints(BuiltinKind):
    """core/v1 Endpoints."""

    create_on_update = True

    def default(self, obj: Manifest) -> None:
        """Fill in protocols."""
        for subset in obj.get("subsets") or ():
            for port in subset.get("ports") or ():
                port.setdefault("protocol", "TCP")

    def check(self, obj: Manifest) -> list[FieldError]:
        """Check addresses and ports."""
        found: list[FieldError] = []
        for index, subset in enumerate(obj.get("subsets") or ()):
            field = f"subsets[{index}]"
            ready, waiting = subset.get("addresses") or [], subset.get("notReadyAddresses") or []
            if not ready and not waiting:
                found.append(required(field, "must specify `addresses` or `notReadyAddresses`"))
            for list_name, addresses in (("addresses", ready), ("notReadyAddresses", waiting)):
                for number, address in enumerate(addresses):
                    found += _endpoint_address(address, f"{field}.{list_name}[{number}]")
            ports = subset.get("ports") or []
            for number, port in enumerate(ports):
                found += _endpoint_port(port, f"{field}.ports[{number}]", named=len(ports) > 1)
        return found


def _endpoint_address(address: Manifest, field: str) -> list[FieldError]:
    ip = address.get("ip", "")
    found = volume_checks.address(ip, f"{field}.ip")
    for name in ("hostname", "nodeName"):
        if text := address.get(name):
            check = names.label if name == "hostname" else names.subdomain
            found += [invalid(f"{field}.{name}", text, message) for message in check(text)]
    return found + status_checks.non_special(ip, f"{field}.ip")


def _endpoint_port(port: Manifest, field: str, *, named: bool) -> list[FieldError]:
    found: list[FieldError] = []
    name = port.get("name", "")
    if named and not name:
        found.append(required(f"{field}.name"))
    elif name:
        found += [invalid(f"{field}.name", name, text) for text in names.label(name)]
    if not 1 <= port.get("port", 0) <= 65535:
        found.append(invalid(f"{field}.port", port.get("port", 0), container_checks.PORT_RANGE))
    protocol = port.get("protocol", "")
    if protocol not in container_checks.PROTOCOLS:
        found.append(not_supported(f"{field}.protocol", protocol, container_checks.PROTOCOLS))
    return found
