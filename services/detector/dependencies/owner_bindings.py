"""Adds to the binding of an owner what it requires, and builds the bindings of what only owners ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import UNSET, Raw, Struct
from msgspec.structs import replace

from schemas.events.binding import BindingRequested, PolicyRef
from schemas.manifest import Manifest
from services._rules.dependencies.dependency_index import UNWANTED, Wanted
from services._rules.interpreter import InterpretError
from services._rules.kubernetes.event_objects import Note
from services.detector.binding_request import binding_spec, frozen_at
from services.detector.dependencies import dependency_events as say
from services.detector.dependencies.references import dependencies_of, references_in
from services.detector.dependencies.required_objects import TooManyDependencies, required_objects
from services.detector.policies.reschedule_requests import carried

if TYPE_CHECKING:
    from schemas.keys import ObjectKey
    from services.detector.policies.policy_view import PolicyView
    from services.detector.state import DetectorState


class Said(Struct, frozen=True):
    """A binding, and Kubernetes Events: of what changes with it, and of problems that last as long as they do."""

    binding: BindingRequested
    news: tuple[Note, ...] = ()
    problems: tuple[Note, ...] = ()


class _Spec(Struct, frozen=True, rename="camel"):
    propagate_deps: bool = False


_encoder: Final = msgspec.json.Encoder(order="deterministic")
_spec: Final = msgspec.json.Decoder(_Spec).decode


def asked_for(
    state: DetectorState,
    key: ObjectKey,
    manifest: Manifest,
    view: PolicyView | None,
    bound: BindingRequested | None,
    now: float,
    *,
    everywhere: bool = False,
) -> Said | None:
    """What is asked for: by a policy, with what the object requires; without one by owners, or `everywhere`.

    Raises what `binding_spec` raises, and ResultPending.
    """
    policy = view.spec if view is not None else None
    asked = binding_spec(manifest, policy, state.options, state.priority_of, state.interpreter)
    spec = carried(asked.spec, bound)
    wanted = BindingRequested(
        key=key,
        uid=str(manifest["metadata"].get("uid", "")),
        api_version=manifest["apiVersion"],
        kind=manifest["kind"],
        spec=Raw(_encoder.encode(spec)),
        policy=PolicyRef(view.key, view.permanent_id, view.generation) if view is not None else None,
        replicas=asked.replicas,
        workload=asked.workload,
        created_at=bound.created_at if bound is not None else now,
        frozen=frozen_at(bound) if bound is not None and view is not None else 0,
        reschedule=bound.reschedule if bound is not None else None,
    )
    if view is not None:
        return with_requirements(state, manifest, wanted, bound)
    if everywhere:
        return Said(replace(wanted, everywhere=True))
    owners = wanted_by_owners(state, key, bound)
    return attached(wanted, spec, owners, bound) if owners is not None else None


def left_standing(
    state: DetectorState, key: ObjectKey, manifest: Manifest, bound: BindingRequested | None, now: float
) -> Said | None:
    """What a lazy policy leaves in force: the request as it is, whose dependencies and owners may be others now."""
    if bound is None or bound.attached:
        return asked_for(state, key, manifest, None, bound, now)
    return with_requirements(state, manifest, bound, bound)


def with_requirements(
    state: DetectorState, manifest: Manifest, wanted: BindingRequested, bound: BindingRequested | None
) -> Said:
    """The binding of an object with what it requires; what cannot be told is as in the present one, `bound`.

    Raises ResultPending when an interpreter has to be asked first.
    """
    key = wanted.key
    asked = b'"propagateDeps"' in bytes(wanted.spec) and _spec(wanted.spec).propagate_deps
    if not asked or not key.namespace or not state.options.dependencies:
        return Said(replace(wanted, dependencies=UNSET, requires=()))
    standing = (bound.dependencies, bound.requires) if bound is not None else (UNSET, ())
    problems: list[Note] = []
    news: list[Note] = []
    dependencies, requires = standing
    try:
        found = dependencies_of(state.interpreter, manifest)
        if isinstance(found, Raw):
            dependencies = found
            requires = required_objects(state, key, references_in(found), standing[1])
    except InterpretError as error:
        problems.append(say.not_found(key, manifest, str(error)))
    except TooManyDependencies as error:
        problems.append(say.not_followed(wanted, str(error)))
    complete = replace(wanted, dependencies=dependencies, requires=requires)
    if dependencies != standing[0] and isinstance(dependencies, Raw):
        news.append(say.found(key, manifest, references_in(dependencies)))
    if requires and requires != standing[1]:
        news.append(say.followed(complete))
    return Said(complete, tuple(news), tuple(problems))


def wanted_by_owners(state: DetectorState, key: ObjectKey, bound: BindingRequested | None) -> Wanted | None:
    """What owners ask for of an object that no policy claims; None where it is no dependency and none it was."""
    if bound is not None and not bound.attached:
        return None
    wanted = state.dependencies.required.wanted(key) if state.options.dependencies else UNWANTED
    return wanted if wanted.required or bound is not None else None


def attached(binding: BindingRequested, spec: Manifest, wanted: Wanted, bound: BindingRequested | None) -> Said:
    """The binding of a dependency that no policy claims: its resource, and what its owners ask for together.

    Without an owner it has no cluster and asks for nothing; it ends with its object.
    """
    spec = {**spec, "conflictResolution": "Overwrite" if wanted.overwrite else "Abort"}
    if wanted.required:
        spec["preserveResourcesOnDeletion"] = wanted.preserve
    contradictions = wanted.contradictions
    complete = replace(binding, spec=Raw(_encoder.encode(spec)), attached=True, contradictions=contradictions)
    before = bound.contradictions if bound is not None else ()
    return Said(complete, (say.conflicting(complete),) if contradictions not in ((), before) else ())
