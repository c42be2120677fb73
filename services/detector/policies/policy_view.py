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
_FINALIZERS: Final = {
    "PropagationPolicy": const.PROPAGATION_POLICY_FINALIZER,
    "ClusterPropagationPolicy": const.CLUSTER_PROPAGATION_POLICY_FINALIZER,
}


class PolicyView(Struct, frozen=True):
    """A policy as it stands in the control plane; `match` is None for all but propagation policies."""

    key: PolicyKey
    manifest: Manifest
    uid: str
    generation: int
    match: Policy | None

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
        ours = _FINALIZERS.get(self.key.kind, "")
        return ours if ours in (self.manifest["metadata"].get("finalizers") or ()) else ""

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
    return PolicyView(key, manifest, str(metadata.get("uid", "")), int(metadata.get("generation", 0)), match)


def id_label(key: PolicyKey) -> str:
    if key.kind == "ClusterPropagationPolicy":
        return const.CLUSTER_PROPAGATION_POLICY_ID_LABEL
    return const.PROPAGATION_POLICY_ID_LABEL
