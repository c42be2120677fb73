"""Says why no policy has taken up an object: what a policy that selects it waits for, or by what others miss it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from schemas.manifest import Manifest
from services._rules.policies.matching import Template, compile_policy, compile_selector, match_policy, template_of
from services._rules.policies.skip_rules import compile_skip_rules

_SHOWN: Final = 3
"""Policies that are named at most."""
_OTHERS: Final = "its selector is for other objects"

Name = tuple[str, str, str]
"""Kind, namespace (empty for none) and name of a policy."""


def why_unclaimed(obj: Manifest, policies: Sequence[Manifest], overrides: Collection[Name]) -> list[str]:
    """Sentences about an object of the control plane; `policies` are all propagation policies, each with its kind.

    `overrides` are the override policies that exist. What is never propagated is that of the default settings.
    """
    template = template_of(obj)
    if compile_skip_rules().skips_object(template):
        place = f" in namespace {template.namespace}" if template.namespace else ""
        return [f"{template.kind} {template.name}{place} is never propagated: it belongs to the system"]
    compiled = {_name_of(policy): compile_policy(policy) for policy in policies}
    manifests = {_name_of(policy): policy for policy in policies}
    wide = [found for name, found in compiled.items() if not name[1]]
    chosen = match_policy(template, [found for name, found in compiled.items() if name[1]], wide)
    if chosen is not None:
        name = next(name for name, found in compiled.items() if found is chosen)
        return [_waiting(name, manifests[name], overrides)]
    near = [text for policy in policies if (text := _miss(policy, template))]
    if near:
        more = [f"and {len(near) - _SHOWN} more policies miss it by as little"] if len(near) > _SHOWN else []
        return [*near[:_SHOWN], *more]
    return ["no policy selects it (kubectl get propagationpolicies,clusterpropagationpolicies)"]


def _name_of(policy: Manifest) -> Name:
    metadata = policy.get("metadata") or {}
    return policy["kind"], metadata.get("namespace") or "", metadata.get("name") or ""


def _shown(name: Name) -> str:
    kind, namespace, plain = name
    return f"{kind} {namespace}/{plain}" if namespace else f"{kind} {plain}"


def _waiting(name: Name, policy: Manifest, overrides: Collection[Name]) -> str:
    """What a policy that selects the object waits for."""
    spec = policy.get("spec") or {}
    kind = "OverridePolicy" if name[1] else "ClusterOverridePolicy"
    missing = [one for one in spec.get("dependentOverrides") or () if (kind, name[1], one) not in overrides]
    if missing:
        return (
            f"{_shown(name)} selects it and waits for what spec.dependentOverrides names: "
            f"{kind} {', '.join(missing)} {'does' if len(missing) == 1 else 'do'} not exist; create it, or take it out"
        )
    if spec.get("activationPreference") == "Lazy":
        return f"{_shown(name)} selects it, but is lazy: it takes effect when the object itself changes"
    return f"{_shown(name)} selects it and has not taken it up yet; `fleetlog status` shows whether the detector runs"


def _miss(policy: Manifest, template: Template) -> str:
    """By what one thing a policy misses an object; empty where it is several, or none."""
    name = _name_of(policy)
    for selector in (policy.get("spec") or {}).get("resourceSelectors") or ():
        wrong = list(_differences(selector, template, name[1]))
        if len(wrong) == 1:
            return f"{_shown(name)} would select it, but {wrong[0]}"
    return ""


def _differences(selector: Mapping[str, Any], template: Template, policy_namespace: str) -> Iterable[str]:
    """What in a selector does not fit the object; two things for one that is for other objects altogether."""
    compiled = compile_selector(selector)
    named = bool(compiled.name) and compiled.name == template.name
    if compiled.api_version != template.api_version:
        yield f"its selector has apiVersion {compiled.api_version or '(none)'}, and the object {template.api_version}"
    if compiled.kind != template.kind:
        yield f"its selector has kind {compiled.kind or '(none)'}, and the object {template.kind}"
        if not named and compiled.kind.lower() != template.kind.lower():
            yield _OTHERS
    if policy_namespace and policy_namespace != template.namespace:
        where = f"this is in {template.namespace}" if template.namespace else "this has none"
        yield f"it is for objects of namespace {policy_namespace}, and {where}; use a ClusterPropagationPolicy"
    elif compiled.namespace and compiled.namespace != template.namespace:
        yield f"its selector has namespace {compiled.namespace}, and the object {template.namespace or 'none'}"
    if compiled.name and not named:
        yield f"its selector has name {compiled.name}, and the object {template.name}"
        if compiled.name.lower() != template.name.lower():
            yield _OTHERS
    elif compiled.labels is not None and not compiled.labels(template.labels):
        yield "the object lacks the labels of its selector"
