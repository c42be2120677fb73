"""A policy as read from the control plane."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from schemas.keys import PolicyKey
from schemas.manifest import Manifest
from services._rules import constants as const
from services._rules.identities import policy_id
from services._rules.policies.matching import Policy, compile_policy

PROPAGATION_KINDS: Final = ("PropagationPolicy", "ClusterPropagationPolicy")
IDENTIFIED_KINDS: Final = (*PROPAGATION_KINDS, const.MULTI_CLUSTER_SERVICE)
"""Kinds that claim templates, by a permanent id in a label of theirs."""
_FINALIZERS: Final = {
    const.MULTI_CLUSTER_SERVICE: const.MULTI_CLUSTER_SERVICE_FINALIZER,
    "PropagationPolicy": const.PROPAGATION_POLICY_FINALIZER,
    "ClusterPropagationPolicy": const.CLUSTER_PROPAGATION_POLICY_FINALIZER,
}


class PolicyView(Struct, frozen=True):
    """A policy as it stands in the control plane; `match` is None for all but propagation policies.

    `since` is the resource version with which its generation was seen first; 0 where that is not a number.
    """

    key: PolicyKey
    manifest: Manifest
    uid: str
    generation: int
    match: Policy | None
    since: int = 0

    @property
    def spec(self) -> Manifest:
        """The policy's spec."""
        spec: Manifest = self.manifest.get("spec") or {}
        return spec

    @property
    def permanent_id(self) -> str:
        """The id in the policy's label, or the one it will get: it is drawn from the uid."""
        label = id_label(self.key)
        labels = self.manifest["metadata"].get("labels") or {}
        return str(labels.get(label) or policy_id(self.uid))

    @property
    def finalizer(self) -> str:
        """The finalizer that keeps the policy until it claims nothing; empty where the policy does not bear it."""
        ours = self.due_finalizer
        return ours if ours in (self.manifest["metadata"].get("finalizers") or ()) else ""

    @property
    def due_finalizer(self) -> str:
        """The finalizer of its kind; empty where there is none."""
        return _FINALIZERS.get(self.key.kind, "")

    @property
    def terminating(self) -> bool:
        """Whether it is being deleted."""
        return "deletionTimestamp" in self.manifest["metadata"]

    @property
    def awaits_release(self) -> bool:
        """Whether it matters that it claims nothing any more: its finalizer may go, at its end or with its gate."""
        return bool(self.finalizer) and (self.terminating or self.key.kind == const.MULTI_CLUSTER_SERVICE)

    @property
    def lazy(self) -> bool:
        """Whether changes of the policy wait for a change of the template."""
        return self.spec.get("activationPreference") == "Lazy"


def viewed(key: PolicyKey, manifest: Manifest, before: PolicyView | None) -> PolicyView:
    """The policy as it stands; selectors that are as before are not compiled again."""
    match = None
    if key.kind in PROPAGATION_KINDS:
        selected = (manifest.get("spec") or {}).get("resourceSelectors")
        known = None
        if before is not None and before.match is not None and before.spec.get("resourceSelectors") == selected:
            known = before.match.selectors
        match = compile_policy(manifest, known)
    metadata = manifest["metadata"]
    uid, generation = str(metadata.get("uid", "")), int(metadata.get("generation", 0))
    since = version_of(manifest)
    if before is not None and (before.uid, before.generation) == (uid, generation):
        since = before.since
    return PolicyView(key, manifest, uid, generation, match, since)


def version_of(manifest: Manifest) -> int:
    """The resource version of an object; 0 where it is not a number."""
    version = str(manifest["metadata"].get("resourceVersion") or "")
    return int(version) if version.isascii() and version.isdigit() else 0


def id_label(key: PolicyKey) -> str:
    if key.kind == const.MULTI_CLUSTER_SERVICE:
        return const.MULTI_CLUSTER_SERVICE_ID_LABEL
    if key.kind == "ClusterPropagationPolicy":
        return const.CLUSTER_PROPAGATION_POLICY_ID_LABEL
    return const.PROPAGATION_POLICY_ID_LABEL
