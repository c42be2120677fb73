"""Guards of policies: which edits are measured, what refuses them, and what confirms one edit and no other."""

from __future__ import annotations

from typing import Any

import pytest

from schemas.manifest import Manifest
from services._rules.admission.radius_guard import (
    CONFIRM_RADIUS,
    MAX_RADIUS,
    confirmed_any,
    guarded,
    malformed,
    refusal,
    spent,
    unmeasured,
)


def policy(spec: str = "a", *, limit: str | None = "5", confirm: str | None = None, **metadata: Any) -> Manifest:
    """A policy with a guard."""
    found = {MAX_RADIUS: limit, CONFIRM_RADIUS: confirm}
    annotations = {name: value for name, value in found.items() if value is not None}
    return {
        "kind": "PropagationPolicy",
        "metadata": {"name": "web", "namespace": "shop", "annotations": annotations, **metadata},
        "spec": {"placement": spec},
    }


def test_only_edits_of_a_guarded_spec_are_measured() -> None:
    assert guarded(policy(), policy("b"))
    assert guarded(policy(), None)
    assert guarded(policy(), policy("b", limit=None)), "the edit cannot take its own guard away"
    assert not guarded(policy(), policy(confirm="7"))
    assert not guarded(policy(limit=None), policy("b"))
    assert not guarded(policy(deletionTimestamp="2026-01-01T00:00:00Z"), None)


@pytest.mark.parametrize(
    ("limit", "radius", "passes"),
    [("5", 5, True), ("5", 6, False), ("0", 0, True), ("10%", 4, True), ("10%", 5, False), ("rubbish", 1, False)],
)
def test_radius_is_compared_with_the_limit(limit: str, radius: int, passes: bool) -> None:
    why = refusal(policy(limit=limit), policy("b", limit=limit), radius, 49)
    assert (not why) is passes
    if why:
        assert f"{radius} workload" in why
        assert f'{CONFIRM_RADIUS}: "{radius}" in the same edit' in why


def test_confirmation_covers_what_it_names() -> None:
    assert not refusal(policy(), policy("b", confirm="12"), 12, 20)
    assert refusal(policy(), policy("b", confirm="11"), 12, 20)
    assert not refusal(policy(), policy("b", confirm="any"), 12, 20)
    assert confirmed_any(policy(), policy("b", confirm="any"))


def test_confirmation_is_spent_by_its_edit() -> None:
    first = spent(policy(), policy("b", confirm="12"))
    assert not refusal(policy(), first, 12, 20)
    kept = first["metadata"]["annotations"][CONFIRM_RADIUS]
    assert kept.startswith("12 spent on ")
    assert not malformed(first)
    patched = policy("c", confirm=kept)
    assert refusal(first, spent(first, patched), 12, 20), "an edit that leaves the annotation as it was"
    assert refusal(patched, spent(patched, policy("b", confirm=kept)), 12, 20), "back again"
    assert refusal(first, None, 12, 20), "a deletion"
    again = spent(first, policy("c", confirm="12"))
    assert not refusal(first, again, 12, 20), "confirmed once more"


def test_confirmation_written_beforehand_lets_a_deletion_pass() -> None:
    assert "kubectl annotate propagationpolicy -n shop web" in refusal(policy(), None, 6, 20)
    confirmed = spent(policy(), policy(confirm="6"))
    assert confirmed["metadata"]["annotations"][CONFIRM_RADIUS] == "6"
    assert not refusal(confirmed, None, 6, 20)
    assert refusal(confirmed, None, 7, 20)


def test_what_is_not_measured_names_a_way_on() -> None:
    why = unmeasured(policy(), policy("b"), "it took longer than 10 s")
    assert "it took longer than 10 s" in why
    assert f'{CONFIRM_RADIUS}: "any"' in why


@pytest.mark.parametrize(("limit", "confirm"), [("many", None), ("-1", None), ("5", "some"), ("5.5", None)])
def test_malformed_annotations_are_named(limit: str, confirm: str | None) -> None:
    assert "Invalid value" in malformed(policy(limit=limit, confirm=confirm))
    assert not malformed(policy(confirm="any"))
