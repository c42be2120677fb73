"""Admission of Karmada's kinds in a control plane: their defaults and rules, and protection from deletion.

A refusal reads as the answer of the webhook that Karmada registers for the kind; Cluster and ResourceRegistry are
refused as by the servers of their own that they have there.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any, Final, cast

from schemas.manifest import Manifest
from services._rules import admission as rules
from services._rules import constants as const
from services._rules.admission import Admitted, Context, Denied
from services._rules.identities import policy_id
from services.apiserver.admission.admission_webhooks import denied
from services.apiserver.admission.chain import Attributes
from services.apiserver.core import status_errors as status
from services.apiserver.core.request_context import stamp
from services.apiserver.store.store_port import Store

_RESOURCES: Final = {
    "Cluster": "cluster.karmada.io/clusters",
    "ClusterOverridePolicy": "policy.karmada.io/clusteroverridepolicies",
    "ClusterPropagationPolicy": "policy.karmada.io/clusterpropagationpolicies",
    "ClusterResourceBinding": "work.karmada.io/clusterresourcebindings",
    "ClusterTaintPolicy": "policy.karmada.io/clustertaintpolicies",
    "CronFederatedHPA": "autoscaling.karmada.io/cronfederatedhpas",
    "FederatedHPA": "autoscaling.karmada.io/federatedhpas",
    "FederatedResourceQuota": "policy.karmada.io/federatedresourcequotas",
    "MultiClusterIngress": "networking.karmada.io/multiclusteringresses",
    "MultiClusterService": "networking.karmada.io/multiclusterservices",
    "OverridePolicy": "policy.karmada.io/overridepolicies",
    "PropagationPolicy": "policy.karmada.io/propagationpolicies",
    "ResourceBinding": "work.karmada.io/resourcebindings",
    "ResourceInterpreterCustomization": "config.karmada.io/resourceinterpretercustomizations",
    "ResourceInterpreterWebhookConfiguration": "config.karmada.io/resourceinterpreterwebhookconfigurations",
    "ResourceRegistry": "search.karmada.io/resourceregistries",
    "Work": "work.karmada.io/works",
}
"""Where the objects of each kind with rules are stored."""
_OWN_SERVERS: Final = ("Cluster", "ResourceRegistry")
_WEBHOOKS: Final = {"ResourceInterpreterWebhookConfiguration": "config.karmada.io"}
_PROTECTION: Final = "resourcedeletionprotection.karmada.io"
_COMPARED: Final = "ResourceInterpreterCustomization"
_ID_LABELS: Final = {
    "PropagationPolicy": const.PROPAGATION_POLICY_ID_LABEL,
    "ClusterPropagationPolicy": const.CLUSTER_PROPAGATION_POLICY_ID_LABEL,
}
# The rules are those of this version of a binding.
_VERSIONS: Final = {"ResourceBinding": "v1alpha2", "ClusterResourceBinding": "v1alpha2"}


class KarmadaKinds:
    """Defaults and validates objects of Karmada's kinds; the last plugin that changes objects.

    The defaults include the finalizer of a PropagationPolicy and a ClusterPropagationPolicy: the detector removes it
    from a deleted policy once the claims of the policy on its templates are released.
    """

    resources = frozenset(_RESOURCES.values())
    operations = frozenset({"CREATE", "UPDATE"})

    def __init__(self, store: Store, gates: Mapping[str, bool], *, no_execute: bool) -> None:
        self._store = store
        self._gates = gates
        self._no_execute = no_execute

    async def mutate(self, attributes: Attributes) -> None:
        """Fill in what the writer left open; raises ApiError for a field of the wrong type."""
        kind, new = attributes.kind.resource, attributes.new
        if new is None or not _concerned(attributes):
            return
        if kind.namespaced:
            new = new | {"metadata": new["metadata"] | {"namespace": attributes.namespace}}
        operation = cast("rules.Operation", attributes.operation)
        new = _identified(kind.kind, attributes.old, new)
        decision = rules.default(kind.kind, operation, new, attributes.old, self._context(attributes))
        if isinstance(decision, Denied) and decision.code == 400 and (errors := attributes.kind.check(new)):
            # The schema refuses the type of the field with its place and what it may be.
            raise status.invalid(attributes.kind.group_kind, attributes.name, errors)
        attributes.new = _admitted(attributes, decision)

    async def validate(self, attributes: Attributes) -> None:
        """Check the object as it will be stored; raises ApiError with each rule that it breaks."""
        kind, new = attributes.kind.resource, attributes.new
        if new is not None and _concerned(attributes):
            old = _before(kind.kind, attributes.old, new)
            _admitted(attributes, rules.validate(kind.kind, new, old, self._context(attributes)))

    def _context(self, attributes: Attributes) -> Context:
        kind = attributes.kind.resource.kind
        compared = self._store.list(*_RESOURCES[kind].split("/")) if kind == _COMPARED else ()
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

    async def mutate(self, attributes: Attributes) -> None:
        """Nothing to change in what is deleted."""

    async def validate(self, attributes: Attributes) -> None:
        """Raises ApiError 403 that names the label."""
        decision = rules.check_deletion(attributes.old or {})
        if isinstance(decision, Denied):
            raise denied(_PROTECTION, _answer(decision, _details(attributes)))


def _concerned(attributes: Attributes) -> bool:
    """Whether the rules apply: to main resources, in the version that they are written for.

    An object that is deleted has to meet them no longer: its finalizers must be removable whatever it holds.
    """
    resource = attributes.kind.resource
    deleted = attributes.old is not None and attributes.old["metadata"].get("deletionTimestamp")
    return (
        not attributes.subresource
        and not deleted
        and _VERSIONS.get(resource.kind, resource.version) == resource.version
    )


def _labels(obj: Manifest) -> dict[str, str]:
    return (obj.get("metadata") or {}).get("labels") or {}


def _identified(kind: str, old: Manifest | None, new: Manifest) -> Manifest:
    """The update of a policy that was stored without an id, with the id that the detector gives it."""
    label = _ID_LABELS.get(kind)
    if label is None or old is None or _labels(old).get(label) or _labels(new).get(label):
        return new
    return _labelled(new, label, policy_id(str(old["metadata"].get("uid", ""))))


def _before(kind: str, old: Manifest | None, new: Manifest) -> Manifest | None:
    """The stored object, with the id that a policy stored without one gets now: that is no change of its id."""
    label = _ID_LABELS.get(kind)
    if label is None or old is None or _labels(old).get(label):
        return old
    return _labelled(old, label, _labels(new).get(label, ""))


def _labelled(obj: Manifest, label: str, value: str) -> Manifest:
    return obj | {"metadata": obj["metadata"] | {"labels": _labels(obj) | {label: value}}}


def _admitted(attributes: Attributes, decision: Admitted | Denied) -> Manifest:
    """The object of a decision; raises ApiError where it is a denial."""
    if isinstance(decision, Admitted):
        return decision.object
    kind = attributes.kind.resource.kind
    if kind in _OWN_SERVERS:
        if decision.causes:
            raise status.invalid(attributes.kind.group_kind, attributes.name, list(decision.causes))
        raise status.bad_request(decision.message)
    raise denied(_WEBHOOKS.get(kind, f"{kind.lower()}.karmada.io"), _answer(decision, _details(attributes)))


def _answer(decision: Denied, details: dict[str, Any]) -> Manifest:
    """A denial as a webhook answers it."""
    reason = decision.reason or ("Forbidden" if decision.code == 403 else "")
    if decision.causes:
        details["causes"] = [cause.cause() for cause in decision.causes]
    return {"code": decision.code, "reason": reason, "message": decision.message, "details": details}


def _details(attributes: Attributes) -> dict[str, Any]:
    """The object that a refusal concerns."""
    resource = attributes.kind.resource
    found = {"name": attributes.name, "group": resource.group, "kind": resource.plural}
    return {name: value for name, value in found.items() if value}
