"""Compiles override policies once into selectors, cluster tests and steps (reference 03 §2.1–2.4)."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from schemas.manifest import Manifest
from services._rules.overrides.container_overriders import command_step, image_step
from services._rules.overrides.fields import field_step, plaintext_step
from services._rules.overrides.metadata_overriders import metadata_step
from services._rules.policies import matching as policy_match
from services._rules.policies.cluster_affinity import ClusterMatcher, affinity_of, compile_affinity
from services._rules.policies.matching import Rank, ResourceSelector, Template

Step = Callable[[Manifest], Manifest]


class Rule(Struct, frozen=True):
    """One rule: the clusters it is for (none means all) and its steps in order, beside the overriders as written."""

    clusters: ClusterMatcher | None
    steps: tuple[Step, ...]
    overriders: Mapping[str, Any]


class OverridePolicy(Struct, frozen=True):
    """A compiled override policy; the namespace is empty for a cluster-wide one."""

    name: str
    namespace: str
    selectors: tuple[ResourceSelector, ...]
    rules: tuple[Rule, ...]

    @property
    def title(self) -> str:
        """Kind and name, for messages."""
        if self.namespace:
            return f"OverridePolicy {self.namespace}/{self.name}"
        return f"ClusterOverridePolicy {self.name}"

    def rank(self, template: Template) -> Rank:
        """How exactly the policy matches an object; without selectors it matches every one."""
        if not self.selectors:
            return Rank.ALL
        return policy_match.best_rank(self.selectors, template)


def compile_policy(manifest: Mapping[str, Any]) -> OverridePolicy:
    """Compile an OverridePolicy or ClusterOverridePolicy.

    The deprecated single rule counts only where there are no overrideRules.
    """
    metadata, spec = manifest.get("metadata") or {}, manifest.get("spec") or {}
    rules = spec.get("overrideRules") or (
        {"targetCluster": spec.get("targetCluster"), "overriders": spec.get("overriders")},
    )
    return OverridePolicy(
        name=metadata.get("name") or "",
        namespace=metadata.get("namespace") or "",
        selectors=tuple(policy_match.compile_selector(item) for item in spec.get("resourceSelectors") or ()),
        rules=tuple(_compile_rule(rule) for rule in rules),
    )


def _compile_rule(rule: Mapping[str, Any]) -> Rule:
    overriders = rule.get("overriders") or {}
    return Rule(_compile_clusters(rule.get("targetCluster")), tuple(_steps(overriders)), overriders)


def _compile_clusters(affinity: Mapping[str, Any] | None) -> ClusterMatcher | None:
    if affinity is None:
        return None
    try:
        return compile_affinity(affinity_of(affinity))
    except msgspec.ValidationError:
        # As with a selector that cannot be evaluated: it matches no cluster.
        return lambda _: False


def _steps(overriders: Mapping[str, Any]) -> list[Step]:
    steps = [image_step(item) for item in overriders.get("imageOverrider") or ()]
    steps += [command_step(item, "command") for item in overriders.get("commandOverrider") or ()]
    steps += [command_step(item, "args") for item in overriders.get("argsOverrider") or ()]
    steps += [metadata_step(item, "labels") for item in overriders.get("labelsOverrider") or ()]
    steps += [metadata_step(item, "annotations") for item in overriders.get("annotationsOverrider") or ()]
    steps += [field_step(item) for item in overriders.get("fieldOverrider") or ()]
    plaintext = overriders.get("plaintext")
    return [*steps, plaintext_step(plaintext)] if plaintext else steps
