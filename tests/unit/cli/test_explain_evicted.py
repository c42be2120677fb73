"""`fleetlog explain` says where an object runs now, not only where it was placed."""

from __future__ import annotations

from msgspec.structs import replace

from schemas.envelope import Provenance
from schemas.events.eviction import EvictionFinished
from services.cli.queries.explain import Explained, document, text
from services.cli.queries.required_by import Required
from tests.support.facts import KEY, placement


def headline(found: Explained) -> str:
    return text(KEY, found).splitlines()[0]


def test_an_evicted_object_runs_on_no_cluster() -> None:
    placed = replace(placement(m1=1), provenance=Provenance(as_of=5))
    found = Explained(6, 0.0, placed, None, EvictionFinished(key=KEY, uid="u1", left=("m1",)), 9)
    assert headline(found).endswith(
        "runs on no cluster: it was evicted from m1 after this decision, and not placed again."
    )
    assert document(KEY, found, Required())["left"] == ["m1"]
    assert headline(replace(found, event=placement(m1=1, m2=2))).endswith(
        "runs on m2 (2 replicas): it was evicted from m1 after this decision, and not placed again."
    )


def test_an_eviction_before_the_decision_is_past() -> None:
    placed = replace(placement(m1=1), provenance=Provenance(as_of=10))
    found = Explained(11, 0.0, placed, None, EvictionFinished(key=KEY, uid="u1", left=("m1",)), 9)
    assert headline(found).endswith("runs on m1 (1 replica).")
    assert document(KEY, found, Required())["left"] == []
