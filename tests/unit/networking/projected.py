"""A projection of the networking service, and endpoints as members report them."""

from __future__ import annotations

from schemas.codec import Known, subject_of
from schemas.endpoints import PortOfSlice, ServiceSlice, SliceEndpoint
from services.networking.state import NetworkingState, ServiceName, fold

NAME = ServiceName("default", "web")
HTTP = (PortOfSlice("http", port=8080),)


class Projected:
    """The state after some facts."""

    def __init__(self) -> None:
        self.state = NetworkingState()
        self.seq = 0

    def take(self, *events: Known) -> set[ServiceName]:
        """Fold more facts; the Services that they mark."""
        touched: set[ServiceName] = set()
        for event in events:
            self.seq += 1
            touched.update(fold(self.state, self.seq, subject_of(event), event))
        return touched


def slices(*addresses: str, name: str = "web-a", kind: str = "IPv4") -> tuple[ServiceSlice, ...]:
    """One slice with an endpoint for each address."""
    return (ServiceSlice(name, kind, tuple(SliceEndpoint((address,)) for address in addresses), HTTP),)
