"""Compiles override policies once into selectors, cluster tests and steps (docs/sources.md#overrides, 2.7, 2.8)."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from schemas.manifest import Manifest
from services._rules.kubernetes.manifest_checks import is_readable, map_of_text
from services._rules.kubernetes.patch.json_patch import PatchError, json_patch
from services._rules.overrides import embedded_json, embedded_yaml, pointer
from services._rules.overrides.container_overriders import command_step, image_step
from services._rules.overrides.override_errors import StepError
from services._rules.overrides.pointer import PointerError
from services._rules.policies import matching as policy_match
from services._rules.policies.cluster_affinity import ClusterMatcher, affinity_of, compile_affinity
from services._rules.policies.matching import Rank, ResourceSelector, Template

Step = Callable[[Manifest], Manifest]

_WHOLE = ("add", "replace")
_REASONS = {
    "add": "the object or list that it goes into does not exist, or the position is outside of the list",
    "remove": "there is nothing at this path to remove",
    "replace": "there is nothing at this path to replace",
}


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


def metadata_step(item: Mapping[str, Any], field: str) -> Step:
    """Step of one labelsOverrider or annotationsOverrider; `field` is `labels` or `annotations`."""
    operator, values = item.get("operator", ""), item.get("value") or {}

    def apply(manifest: Manifest) -> Manifest:
        metadata = manifest.get("metadata")
        if not isinstance(metadata, dict):
            raise StepError(f"{field}Overrider at /metadata", "the object has no metadata")
        # A value of a wrong type reads as none, and adding puts a map in its place.
        present = map_of_text(metadata.get(field))
        changed = _changed(present, operator, values)
        if changed == present:
            return manifest
        return manifest | {"metadata": metadata | {field: changed}}

    return apply


def _changed(current: Mapping[str, str], operator: str, values: Mapping[str, str]) -> dict[str, str]:
    match operator:
        case "add":
            return {**current, **values}
        case "replace":
            return {key: values.get(key, value) for key, value in current.items()}
        case "remove":
            return {key: value for key, value in current.items() if key not in values}
        case _:
            return dict(current)


def plaintext_step(items: Sequence[Mapping[str, Any]]) -> Step:
    """Step of all plaintext overriders of a rule: they form one patch, applied whole or not at all."""
    operations = [_operation(item, "path") for item in items]

    def apply(manifest: Manifest) -> Manifest:
        changed: Any = manifest
        for operation in operations:
            changed = _patched(changed, operation, f"plaintext {operation['op']} at {operation['path']}")
        if not is_readable(changed):
            raise StepError("plaintext", "what is left is no object: apiVersion and kind have to stay")
        if not isinstance(changed.get("metadata") or {}, dict):
            raise StepError("plaintext", "what is left has metadata that is no object")
        return changed  # type: ignore[no-any-return]

    return apply


def field_step(item: Mapping[str, Any]) -> Step:
    """Step of one fieldOverrider: the text at fieldPath is parsed, patched and written back."""
    path = item.get("fieldPath") or ""
    where = f"fieldOverrider at {path}"
    yaml_items, json_items = item.get("yaml") or (), item.get("json") or ()
    operations = [_operation(one, "subPath") for one in yaml_items or json_items]

    def patched(document: Any) -> Any:
        for operation in operations:
            inside = f"{where}, {operation['op']} at {operation['path']}"
            document = _patched(embedded_json.expanded(document, operation["path"]), operation, inside)
        return document

    def apply(manifest: Manifest) -> Manifest:
        try:
            steps = pointer.tokens(path)
            text = pointer.get(manifest, steps)
            if not isinstance(text, str):
                raise StepError(where, "the value is no text that holds JSON or YAML")
            if not operations:
                changed = ""
            elif yaml_items:
                changed = embedded_yaml.changed(text, patched)
            else:
                changed = embedded_json.changed(text, patched)
            return pointer.replace(manifest, steps, changed)  # type: ignore[no-any-return]
        except (PointerError, embedded_json.EmbeddedTextError) as problem:
            raise StepError(where, str(problem)) from None

    return apply


def _operation(item: Mapping[str, Any], path_field: str) -> dict[str, Any]:
    return {"op": item.get("operator", ""), "path": item.get(path_field) or "", "value": item.get("value")}


def _patched(document: Any, operation: dict[str, Any], where: str) -> Any:
    # The empty path is the document itself.
    if not operation["path"] and operation["op"] in _WHOLE and not isinstance(operation["value"], dict | list):
        raise StepError(where, "the whole document can only become an object or a list")
    try:
        return json_patch(document, [operation])
    except PatchError:
        raise StepError(where, _REASONS.get(operation["op"], "this is no known operator")) from None
