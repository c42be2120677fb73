"""Drift is named exactly where a write is needed: the two comparisons never disagree, whatever the objects."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.manifest import Manifest
from services._rules.delivery.drift import MOST, repaired
from services._rules.delivery.semantic_equal import needs_update

NAMES = st.sampled_from(
    ["name", "labels", "selector", "containers", "ports", "port", "limits", "env", "paused", "data", "x"]
)
LEAVES = st.sampled_from([None, True, False, 0, 1, "", "a", "1", "100m", "0.1"])
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=12
)
SPECS = st.dictionaries(NAMES, VALUES, max_size=4)
LABELS = st.dictionaries(st.sampled_from("ab"), st.sampled_from("xy"), max_size=2)
KINDS = st.sampled_from([("apps/v1", "Deployment"), ("v1", "ConfigMap"), ("v1", "Pod"), ("example.com/v1", "Widget")])


@given(KINDS, SPECS, SPECS, LABELS, LABELS)
@settings(max_examples=300, deadline=None)
def test_drift_is_named_exactly_when_a_write_is_needed(
    kind: tuple[str, str], wanted: Manifest, live: Manifest, labels: Manifest, present: Manifest
) -> None:
    head = {"apiVersion": kind[0], "kind": kind[1]}
    desired = {**head, "metadata": {"name": "x", "labels": labels}, "spec": wanted, "data": wanted}
    found = {**head, "metadata": {"name": "x", "labels": present}, "spec": live, "data": live}
    drift = repaired(desired, found, "fleetlog")
    assert bool(drift) == needs_update(desired, found)
    assert len(drift) <= MOST
    assert all(item.field.startswith(".") for item in drift)
