"""A policy as read from the control plane."""

from __future__ import annotations

from msgspec import Struct

from schemas.envelope import named_id
from schemas.keys import PolicyKey
from schemas.manifest import Manifest
from services._rules import constants as const
from services._rules.policies.matching import Policy


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
        return str(labels.get(label) or named_id(f"policy/{self.uid}"))

    @property
    def lazy(self) -> bool:
        """Whether changes of the policy wait for a change of the template."""
        return self.spec.get("activationPreference") == "Lazy"


def id_label(key: PolicyKey) -> str:
    if key.kind == "ClusterPropagationPolicy":
        return const.CLUSTER_PROPAGATION_POLICY_ID_LABEL
    return const.PROPAGATION_POLICY_ID_LABEL
