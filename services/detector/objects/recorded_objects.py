"""The recorded objects of the control plane; a list is compared with them before anything counts as deleted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from schemas.events.binding import BindingRequested
from schemas.events.policy import PolicyChanged
from schemas.events.template import TemplateChanged
from schemas.keys import ObjectKey, PolicyKey
from services._rules.absence import absence_guard as absence

if TYPE_CHECKING:
    from services.detector.state import DetectorState


def recorded(state: DetectorState, group_resource: str) -> set[ObjectKey]:
    """The objects of a kind that are on record and not ended there."""
    return {
        key
        for key, fact in state.template_facts.items()
        if key.group_resource == group_resource and isinstance(fact, TemplateChanged)
    } | {
        key
        for key, fact in state.binding_facts.items()
        if key.group_resource == group_resource and isinstance(fact, BindingRequested)
    }


def recorded_policies(state: DetectorState, kind: str) -> set[PolicyKey]:
    """The policies of a kind that are on record and not ended there."""
    return {key for key, fact in state.policy_facts.items() if key.kind == kind and isinstance(fact, PolicyChanged)}


def on_its_way_out(state: DetectorState, key: ObjectKey) -> bool:
    """Whether an object, or its namespace, was being deleted when it was last seen."""
    keys = (key, ObjectKey("", "namespaces", "", key.namespace)) if key.namespace else (key,)
    seen = (state.templates.get(place) for place in keys)
    return any(manifest is not None and "deletionTimestamp" in manifest["metadata"] for manifest in seen)


def recorded_kinds(state: DetectorState) -> set[str]:
    """Kinds of which anything is on record and not ended there."""
    kinds = {key.group_resource for key, fact in state.template_facts.items() if isinstance(fact, TemplateChanged)}
    return kinds | {key.kind for key, fact in state.policy_facts.items() if isinstance(fact, PolicyChanged)}


def refuse_list(state: DetectorState, group_resource: str, found: Mapping[ObjectKey, object]) -> None:
    """Take in what a list of another control plane lacks; nothing of it counts."""
    absence.refused(state.guard, group_resource, recorded(state, group_resource) - found.keys())


def refuse_policy_list(state: DetectorState, kind: str, found: Mapping[PolicyKey, object]) -> None:
    """The same for policies."""
    absence.refused(state.guard, kind, recorded_policies(state, kind) - found.keys())
