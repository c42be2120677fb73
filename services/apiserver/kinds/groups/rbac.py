"""Roles, ClusterRoles and their bindings."""

from __future__ import annotations

from schemas.manifest import Manifest
from services._rules.kubernetes.validation import name_formats as names
from services._rules.kubernetes.validation.field_errors import FieldError, invalid, not_supported
from services._rules.kubernetes.validation.field_rules import Check, Rules, apply, choice, each, inside, needed, text
from services.apiserver.kinds.builtin import BuiltinKind
from services.apiserver.kinds.checks.affinities import is_usable, label_selector
from services.apiserver.kinds.kind_model import Resource

GROUP = "rbac.authorization.k8s.io"
_SELECTORS = "at least one clusterRoleSelector required if aggregationRule is non-nil"


def _usable(selector: Manifest, path: str) -> list[FieldError]:
    found = label_selector(selector, path)
    return [*found, invalid(path, selector, "invalid label selector.")] if not is_usable(selector) else found


_AGGREGATION = (needed("clusterRoleSelectors", detail=_SELECTORS), each("clusterRoleSelectors", _usable))
_OF_RESOURCES = (
    needed("apiGroups", detail="resource rules must supply at least one api group"),
    needed("resources", detail="resource rules must supply at least one resource"),
)


class _Named(BuiltinKind):
    create_on_update = True

    def check_name(self, name: str) -> list[str]:
        """Names need only fit into a path."""
        return names.path_segment(name)


def _urls_or_resources(*, namespaced: bool) -> Check:
    def check(rule: Manifest, path: str) -> list[FieldError]:
        urls, field, found = rule.get("nonResourceURLs") or [], f"{path}.nonResourceURLs", []
        if not urls:
            return apply(_OF_RESOURCES, rule, path)
        if namespaced:
            found.append(invalid(field, urls, "namespaced rules cannot apply to non-resource URLs"))
        if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
            message = "rules cannot apply to both regular resources and non-resource URLs"
            found.append(invalid(field, urls, message))
        return found

    return check


class Role(_Named):
    """Role and ClusterRole."""

    @classmethod
    def rules_of(cls, resource: Resource) -> Rules:
        """Return the rules: paths outside of resources are for cluster roles only."""
        some_verb = needed("verbs", detail="verbs must contain at least one value")
        rule = each("rules", some_verb, _urls_or_resources(namespaced=resource.namespaced))
        return (rule, inside("aggregationRule", *_AGGREGATION))


_ACCOUNT = (text("name", names.subdomain), choice("apiGroup", ("",)))


def _subject(*, namespaced: bool) -> Rules:
    account = _ACCOUNT if namespaced else (*_ACCOUNT, needed("namespace"))

    def check(subject: Manifest, field: str) -> list[FieldError]:
        kind, group = subject.get("kind", ""), subject.get("apiGroup", "")
        if kind == "ServiceAccount":
            return apply(account, subject, field)
        if kind not in ("User", "Group"):
            return [not_supported(f"{field}.kind", kind, ("ServiceAccount", "User", "Group"))]
        return [] if group == GROUP else [not_supported(f"{field}.apiGroup", group, (GROUP,))]

    return (needed("name"), check)


def _group(holder: Manifest) -> None:
    holder["apiGroup"] = holder.get("apiGroup") or GROUP


def _subject_group(subject: Manifest) -> None:
    if subject.get("kind") in ("User", "Group"):
        _group(subject)


class RoleBinding(_Named):
    """RoleBinding and ClusterRoleBinding."""

    defaults = {"roleRef": {"": _group, "kind": "", "name": ""}, "subjects[]": _subject_group}

    @classmethod
    def rules_of(cls, resource: Resource) -> Rules:
        """Return the rules: cluster role bindings are to cluster roles only."""
        kinds = ("Role", "ClusterRole") if resource.namespaced else ("ClusterRole",)
        role = (
            choice("apiGroup", (GROUP,), blank=True),
            choice("kind", kinds, blank=True),
            text("name", names.path_segment, need=""),
        )
        return (inside("roleRef", *role, absent={}), each("subjects", *_subject(namespaced=resource.namespaced)))

    def check_update(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """The role reference may not change."""
        found = super().check_update(new, old)
        if new.get("roleRef") != old.get("roleRef"):
            found.append(invalid("roleRef", new.get("roleRef"), "cannot change roleRef"))
        return found
