"""Which names of Services lead where, as the DNS of a cluster answers."""

from __future__ import annotations

from collections.abc import Iterable

from schemas.manifest import Manifest


def known_names(endpoints: Iterable[Manifest]) -> dict[str, dict[str, list[str]]]:
    """Addresses by namespace and name; a pod with a host name of its own is `HOST.SERVICE`."""
    found: dict[str, dict[str, list[str]]] = {}
    for one in endpoints:
        names = found.setdefault(one["metadata"]["namespace"], {})
        service = one["metadata"]["name"]
        for subset in one.get("subsets") or ():
            for address in subset.get("addresses") or ():
                for name in (service, f"{address['hostname']}.{service}" if address.get("hostname") else ""):
                    if name and address["ip"] not in names.setdefault(name, []):
                        names[name].append(address["ip"])
    return found
