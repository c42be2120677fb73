"""Finds the objects that references name, and remembers which owners a change elsewhere concerns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct, field

from schemas.events.binding import BindingEvent, BindingRequested
from schemas.keys import ObjectKey
from schemas.manifest import Manifest
from services._rules.dependencies.dependency_index import DependencyIndex, Requirement
from services._rules.policies.matching import Template
from services.detector.dependencies.references import MOST, Reference, references_in
from services.detector.indexes.selected_objects import KindName, SelectedObjects, Selection

if TYPE_CHECKING:
    from services.detector.state import DetectorState


class Served(Struct, frozen=True):
    """How the control plane serves a kind."""

    resource: str
    namespaced: bool


class TooManyDependencies(ValueError):
    """References name more objects than one owner may require; the message says how many."""


class _Spec(Struct, frozen=True, rename="camel"):
    conflict_resolution: str = ""
    preserve_resources_on_deletion: bool | None = None


_spec: Final = msgspec.json.Decoder(_Spec).decode


class Dependencies(Struct):
    """What owners require by the facts about them.

    `served` are the kinds that discovery found; `unserved` the owners that name a kind which it has not found yet.
    """

    required: DependencyIndex = field(default_factory=DependencyIndex)
    selected: SelectedObjects = field(default_factory=SelectedObjects)
    served: dict[KindName, Served] = field(default_factory=dict)
    unserved: dict[KindName, set[ObjectKey]] = field(default_factory=dict)

    def follow(self, event: BindingEvent, templates: Mapping[ObjectKey, Manifest]) -> list[ObjectKey]:
        """Take in a fact about a binding; the dependencies of whose owners another thing is true now."""
        key = event.key
        requested = event if isinstance(event, BindingRequested) else None
        references = references_in(requested.dependencies) if requested is not None else ()
        for reference in references:
            if reference.kind_name not in self.served:
                self.unserved.setdefault(reference.kind_name, set()).add(key)
        selections = [
            reference.selection(self._namespace(reference, key))
            for reference in references
            if not reference.name and reference.label_selector is not None
        ]
        for kind in self.selected.select(key, selections):
            self._fill(kind, templates)
        if requested is None or not requested.requires:
            return self.required.update(key, None) if key in self.required else []
        spec = _spec(requested.spec)
        overwrite, preserve = spec.conflict_resolution == "Overwrite", bool(spec.preserve_resources_on_deletion)
        return self.required.update(key, Requirement(requested.requires, (), overwrite, preserve))

    def _fill(self, kind: KindName, templates: Mapping[ObjectKey, Manifest]) -> None:
        served = self.served.get(kind)
        if served is None:
            return  # Objects of a kind that is not served are not known either.
        for key in templates:
            if (key.group, key.resource) == (kind[0], served.resource):
                self.selected.take(key, kind[1], labels_of(templates[key]))

    def serve(self, kinds: Iterable[tuple[KindName, Served]]) -> list[ObjectKey]:
        """Take in the kinds that discovery found; the owners that name one of which nothing was known."""
        waiting: set[ObjectKey] = set()
        for kind, served in kinds:
            self.served[kind] = served
            waiting |= self.unserved.pop(kind, set())
        return sorted(waiting)

    def seen(self, key: ObjectKey, manifest: Manifest | None) -> list[ObjectKey]:
        """Take in an object as it stands (None: it is gone); the owners of whose selections it came or went."""
        kind = str(manifest.get("kind")) if manifest is not None else ""
        return self.selected.take(key, kind, labels_of(manifest) if manifest is not None else None)

    def listed(self, group_resource: str) -> list[ObjectKey]:
        """Take in that a kind was listed; the owners that waited for that with what their selectors match."""
        return [
            owner
            for (group, kind), served in self.served.items()
            if group_resource == (f"{served.resource}.{group}" if group else served.resource)
            for owner in self.selected.owners((group, kind))
        ]

    def _namespace(self, reference: Reference, owner: ObjectKey) -> str:
        served = self.served.get(reference.kind_name)
        if served is not None and not served.namespaced:
            return ""
        return reference.namespace or owner.namespace


def labels_of(manifest: Manifest) -> dict[str, str]:
    """The labels of an object."""
    return manifest["metadata"].get("labels") or {}


def required_objects(
    state: DetectorState, owner: ObjectKey, references: Iterable[Reference], recorded: Iterable[ObjectKey]
) -> tuple[ObjectKey, ...]:
    """The objects that references of an owner name, sorted; raises TooManyDependencies.

    One that is named need not exist yet. What is `recorded` stays where it cannot be told yet whether it is named: its
    kind was not discovered, or not listed, since the start.
    """
    known = state.dependencies
    found: set[ObjectKey] = set()
    for reference in references:
        group, kind = reference.kind_name
        served = known.served.get((group, kind))
        if served is None:
            plurals = {(place[0], item.resource) for place, item in known.served.items()}
            found.update(key for key in recorded if key.group == group and (group, key.resource) not in plurals)
            continue
        namespace = (reference.namespace or owner.namespace) if served.namespaced else ""
        if state.skip.skips_object(Template(reference.api_version, kind, namespace, reference.name, {})):
            continue
        if reference.name:
            found.add(ObjectKey(group, served.resource, namespace, reference.name))
            continue
        place = ObjectKey(group, served.resource, namespace, "")
        if place.group_resource in state.listed:
            found.update(_selected(state, reference.selection(namespace), place))
        else:
            found.update(key for key in recorded if msgspec.structs.replace(key, name="") == place)
    found.discard(owner)
    if len(found) > MOST:
        raise TooManyDependencies(
            f"its references name {len(found)} objects, of which at most {MOST} are followed; "
            "select fewer by their labels"
        )
    return tuple(sorted(found))


def _selected(state: DetectorState, selection: Selection, place: ObjectKey) -> Iterable[ObjectKey]:
    known = state.dependencies.selected
    if known.follows((selection.place.group, selection.place.kind)):
        return known.matching(selection)
    # The first owner that looks for the kind: once that is on the log, an index answers.
    return [
        key
        for key in state.templates
        if (key.group, key.resource, key.namespace) == (place.group, place.resource, place.namespace)
        and selection.selector.matches(labels_of(state.templates[key]))
    ]
