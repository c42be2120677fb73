"""Roles, ClusterRoles and their bindings."""

from __future__ import annotations

from schemas.manifest import Manifest
from services._rules.kubernetes.validation import name_formats as names
from services._rules.kubernetes.validation.field_errors import FieldError, invalid, not_supported, required
from services.apiserver.kinds.builtin import BuiltinKind
from services.apiserver.kinds.checks import affinities as affinity_checks

GROUP = "rbac.authorization.k8s.io"


class _Named(BuiltinKind):
    create_on_update = True

    def check_name(self, name: str) -> list[str]:
        """Names need only fit into a path."""
        return names.path_segment(name)


class Role(_Named):
    """Role and ClusterRole."""

    def check(self, obj: Manifest) -> list[FieldError]:
        """Check the rules."""
        found: list[FieldError] = []
        for index, rule in enumerate(obj.get("rules") or ()):
            found += _rule(rule, f"rules[{index}]", namespaced=self.resource.namespaced)
        aggregation = obj.get("aggregationRule")
        if aggregation is not None:
            selectors = aggregation.get("clusterRoleSelectors") or []
            if not selectors:
                text = "at least one clusterRoleSelector required if aggregationRule is non-nil"
                found.append(required("aggregationRule.clusterRoleSelectors", text))
            for index, selector in enumerate(selectors):
                found += affinity_checks.label_selector(selector, f"aggregationRule.clusterRoleSelectors[{index}]")
        return found


def _rule(rule: Manifest, field: str, *, namespaced: bool) -> list[FieldError]:
    found: list[FieldError] = []
    if not rule.get("verbs"):
        found.append(required(f"{field}.verbs", "verbs must contain at least one value"))
    urls = rule.get("nonResourceURLs") or []
    if urls:
        if namespaced:
            text = "namespaced rules cannot apply to non-resource URLs"
            found.append(invalid(f"{field}.nonResourceURLs", urls, text))
        if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
            text = "rules cannot apply to both regular resources and non-resource URLs"
            found.append(invalid(f"{field}.nonResourceURLs", urls, text))
        return found
    if not rule.get("apiGroups"):
        found.append(required(f"{field}.apiGroups", "resource rules must supply at least one api group"))
    if not rule.get("resources"):
        found.append(required(f"{field}.resources", "resource rules must supply at least one resource"))
    return found


class RoleBinding(_Named):
    """RoleBinding and ClusterRoleBinding."""

    def default(self, obj: Manifest) -> None:
        """Fill in API groups."""
        role = obj.setdefault("roleRef", {"apiGroup": "", "kind": "", "name": ""})
        role["apiGroup"] = role.get("apiGroup") or GROUP
        for subject in obj.get("subjects") or ():
            if not subject.get("apiGroup") and subject.get("kind") in ("User", "Group"):
                subject["apiGroup"] = GROUP

    def check(self, obj: Manifest) -> list[FieldError]:
        """Check the role reference and the subjects."""
        role = obj.get("roleRef") or {}
        found: list[FieldError] = []
        if role.get("apiGroup") != GROUP:
            found.append(not_supported("roleRef.apiGroup", role.get("apiGroup", ""), (GROUP,)))
        kinds = ("Role", "ClusterRole") if self.resource.namespaced else ("ClusterRole",)
        if role.get("kind") not in kinds:
            found.append(not_supported("roleRef.kind", role.get("kind", ""), kinds))
        name = role.get("name", "")
        if not name:
            found.append(required("roleRef.name"))
        else:
            found += [invalid("roleRef.name", name, text) for text in names.path_segment(name)]
        for index, subject in enumerate(obj.get("subjects") or ()):
            found += self._subject(subject, f"subjects[{index}]")
        return found

    def _subject(self, subject: Manifest, field: str) -> list[FieldError]:
        found: list[FieldError] = []
        kind, name, group = subject.get("kind", ""), subject.get("name", ""), subject.get("apiGroup", "")
        if not name:
            found.append(required(f"{field}.name"))
        if kind == "ServiceAccount":
            if name:
                found += [invalid(f"{field}.name", name, text) for text in names.subdomain(name)]
            if group:
                found.append(not_supported(f"{field}.apiGroup", group, ("",)))
            if not self.resource.namespaced and not subject.get("namespace"):
                found.append(required(f"{field}.namespace"))
        elif kind in ("User", "Group"):
            if group != GROUP:
                found.append(not_supported(f"{field}.apiGroup", group, (GROUP,)))
        else:
            found.append(not_supported(f"{field}.kind", kind, ("ServiceAccount", "User", "Group")))
        return found

    def check_update(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """The role reference may not change."""
        found = self.check(new)
        if new.get("roleRef") != old.get("roleRef"):
            found.append(invalid("roleRef", new.get("roleRef"), "cannot change roleRef"))
        return found
