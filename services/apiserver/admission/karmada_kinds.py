"""Admission of Karmada's kinds in a control plane: their defaults and rules, and protection from deletion.

A refusal reads as the answer of the webhook that Karmada registers for the kind; Cluster and ResourceRegistry are
refused as by the servers of their own that they have there.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import cast

from msgspec import structs

from schemas.manifest import Manifest
from services._rules.admission import Admitted, Context, Denied, Operation
from services._rules.admission.webhook_table import COMPARED, DELETION, OWN_SERVERS, PLACES, webhook_name
from services._rules.admission.write_steps import Guard, Write, check, mutate, refusal
from services.apiserver.admission.admission_webhooks import denied
from services.apiserver.admission.chain import Attributes, nothing
from services.apiserver.core import status_errors as status
from services.apiserver.core.request_context import stamp
from services.apiserver.store.store_port import Store


class KarmadaKinds:
    """Defaults and validates objects of Karmada's kinds; the last plugin that changes objects.

    The defaults include the finalizer of a PropagationPolicy and a ClusterPropagationPolicy: the detector removes it
    from a deleted policy once the claims of the policy on its templates are released. `guard` is asked about writes and
    deletions of policies that the rules admit: as the last plugin, this one measures nothing that is refused anyway.
    """

    resources = frozenset(place.resource for place in PLACES.values())
    operations = frozenset({"CREATE", "UPDATE", "DELETE"})

    def __init__(
        self, store: Store, gates: Mapping[str, bool], *, no_execute: bool, guard: Guard | None = None
    ) -> None:
        self._store = store
        self._gates = gates
        self._no_execute = no_execute
        self._guard = guard

    async def mutate(self, attributes: Attributes) -> None:
        """Fill in what the writer left open; raises ApiError for a field of the wrong type."""
        kind, new = attributes.kind.resource, attributes.new
        if new is None or not _write(attributes).concerned:
            return
        if kind.namespaced:
            new = new | {"metadata": new["metadata"] | {"namespace": attributes.namespace}}
        decision = mutate(structs.replace(_write(attributes), new=new), self._context(attributes))
        if isinstance(decision, Denied) and decision.code == 400 and (errors := attributes.kind.check(new)):
            # The schema refuses the type of the field with its place and what it may be.
            raise status.invalid(attributes.kind.group_kind, attributes.name, errors)
        attributes.new = _admitted(attributes, decision)

    async def validate(self, attributes: Attributes) -> None:
        """Check the object as it will be stored, or its deletion; raises ApiError with each rule that it breaks."""
        write = _write(attributes)
        if write.concerned:
            _admitted(attributes, check(write, self._context(attributes)))
        if self._guard is not None and write.guarded and (refused := await self._guard(write)) is not None:
            _admitted(attributes, refused)

    def _context(self, attributes: Attributes) -> Context:
        kind = attributes.kind.resource.kind
        place = PLACES[kind]
        compared = self._store.list(place.group, place.plural) if kind == COMPARED else ()
        return Context(
            namespace=attributes.namespace,
            identity=str(uuid.uuid4()),
            now=stamp(),
            existing=[entry.obj for entry in compared],
            multiple_pod_templates=self._gates["MultiplePodTemplatesScheduling"],
            resource_models=self._gates["CustomizedClusterResourceModeling"],
            allow_no_execute_taint_policy=self._no_execute,
            keeps_faults=True,
        )


class DeletionProtection:
    """Refuses the deletion of objects of any kind that a label protects."""

    operations = frozenset({"DELETE"})

    mutate = nothing

    async def validate(self, attributes: Attributes) -> None:
        """Raises ApiError 403 that names the label."""
        write, resource = _write(attributes), attributes.kind.resource
        decision = check(write, Context())
        if isinstance(decision, Denied):
            raise denied(webhook_name(DELETION), refusal(write, decision, resource.group, resource.plural))


def _write(attributes: Attributes) -> Write:
    resource = attributes.kind.resource
    return Write(
        kind=resource.kind,
        version=resource.version,
        operation=cast("Operation", attributes.operation),
        namespace=attributes.namespace,
        name=attributes.name,
        subresource=attributes.subresource,
        new=attributes.new,
        old=attributes.old,
        dry_run=attributes.call.dry_run,
    )


def _admitted(attributes: Attributes, decision: Admitted | Denied) -> Manifest:
    """The object of a decision; raises ApiError where it is a denial."""
    if isinstance(decision, Admitted):
        return decision.object
    resource = attributes.kind.resource
    if resource.kind in OWN_SERVERS:
        if decision.causes:
            raise status.invalid(attributes.kind.group_kind, attributes.name, list(decision.causes))
        raise status.bad_request(decision.message)
    raise denied(webhook_name(resource.kind), refusal(_write(attributes), decision, resource.group, resource.plural))
