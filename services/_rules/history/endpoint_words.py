"""Says in one line what a fact about the endpoints of an exported Service tells."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from schemas.codec import Known
from schemas.endpoints import SliceEndpoint
from schemas.events.endpoints import EndpointsCollected, EndpointsEvent, EndpointsReleased
from services._rules.endpoints.health_gates import is_ready

_LISTED: Final = 4


def endpoint_words(event: EndpointsEvent, before: Known | None) -> str:
    """How many endpoints a slice has, which came, went, or changed; or why it does not count any more."""
    if isinstance(event, EndpointsReleased):
        return event.reason or "it does not count any more"
    now = _by_address(event.endpoints)
    ready = sum(1 for endpoint in event.endpoints if is_ready(endpoint))
    count = f"{event.cluster} offers {len(event.endpoints)} endpoints, {ready} ready"
    if event.kept:
        count = f"{count}; no other cluster does, or it would not be used: {event.kept}"
    if not isinstance(before, EndpointsCollected):
        return count
    known = _by_address(before.endpoints)
    turned = [address for address in now if address in known and is_ready(now[address]) != is_ready(known[address])]
    parts = (
        ("came", [address for address in now if address not in known]),
        ("left", [address for address in known if address not in now]),
        ("ready now", [address for address in turned if is_ready(now[address])]),
        ("not ready now", [address for address in turned if not is_ready(now[address])]),
    )
    news = [f"{word}: {_several(addresses)}" for word, addresses in parts if addresses]
    if event.ports != before.ports:
        news.append("other ports")
    return "; ".join([count, *news])


def _by_address(endpoints: Iterable[SliceEndpoint]) -> dict[str, SliceEndpoint]:
    return {address: endpoint for endpoint in endpoints for address in endpoint.addresses}


def _several(addresses: Sequence[str]) -> str:
    more = f" and {len(addresses) - _LISTED} more" if len(addresses) > _LISTED else ""
    return f"{', '.join(addresses[:_LISTED])}{more}"
