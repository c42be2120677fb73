"""Facts for unit tests of the gateway: the same story that the integration tests put on a real log."""

from __future__ import annotations

from schemas.codec import subject_of
from schemas.events.observed import WorkObserved
from services.gateway.state import GatewayState, fold
from services.gateway.views.catalog import Catalog
from services.gateway.views.view_shapes import GROUP


def entries(collection):
    """The objects of a collection, in order."""
    return list(collection.bucket(GROUP, collection._resource).entries(""))


class Shown:
    """A projection and its catalog; `tell` folds events at the next positions."""

    def __init__(self, *events, tag=7, ring=4096):
        self.state = GatewayState()
        self.catalog = Catalog(tag, ring)
        self.catalog.start(self.state)
        self.now = 1_700_000_100.0
        self.tell(*events)

    def tell(self, *events):
        """Fold events and show what changed; the position of the last."""
        position = 0
        for event in events:
            self.now += 1
            position = (self.state.observations if isinstance(event, WorkObserved) else self.state.facts) + 1
            assert subject_of(event)
            fold(self.state, position, self.now, event)
        self.catalog.refresh(self.state)
        return position
