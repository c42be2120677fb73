"""What is never propagated: API groups, kinds, namespaces, by constant and by setting (docs/sources.md#policies)."""

from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct

from services._rules.kubernetes.patterns import PatternError, whole_matcher
from services._rules.names import is_reserved_namespace
from services._rules.policies.matching import Template

SKIPPED_GROUPS: Final = frozenset(
    {
        "apps.karmada.io",
        "autoscaling.karmada.io",
        "cluster.karmada.io",
        "config.karmada.io",
        "events.k8s.io",
        "networking.karmada.io",
        "policy.karmada.io",
        "remedy.karmada.io",
        "work.karmada.io",
    }
)
SKIPPED_GROUP_VERSIONS: Final = frozenset({"coordination.k8s.io/v1"})
SKIPPED_KINDS: Final = frozenset({"v1/Event"})
DEFAULT_SKIPPED_NAMESPACES: Final = ("kube-.*",)
ROOT_CA: Final = "kube-root-ca.crt"
DEFAULT_ACCOUNT: Final = "default"
STANDING_LABEL: Final = "fleetlog.io/standing"
"""On the default ServiceAccount that the API server made, for as long as it is as it was made."""
_OF_THE_SERVER: Final = ("kube-system", "extension-apiserver-authentication")


class SkipRuleError(ValueError):
    """A setting that names what is not propagated cannot be read; the message names the part."""


class SkipRules(Struct, frozen=True):
    """What is never propagated, compiled from the two settings of the same names in Karmada."""

    groups: frozenset[str]
    group_versions: frozenset[str]
    kinds: frozenset[str]
    namespaces: tuple[Callable[[str], object], ...]

    def skips_kind(self, api_version: str, kind: str) -> bool:
        """Whether objects of a kind are never propagated."""
        group = api_version.rpartition("/")[0]
        return group in self.groups or api_version in self.group_versions or f"{api_version}/{kind}" in self.kinds

    def skips_object(self, template: Template) -> bool:
        """Whether an object is left alone because of its kind, namespace or name."""
        namespace = template.namespace
        if self.skips_kind(template.api_version, template.kind) or is_reserved_namespace(namespace):
            return True
        if namespace and any(match(namespace) for match in self.namespaces):
            return True
        if template.api_version != "v1":
            return False
        if template.kind == "ConfigMap":
            return template.name == ROOT_CA or (namespace, template.name) == _OF_THE_SERVER
        # Each cluster has its own.
        standing = template.kind == "ServiceAccount" and template.name == DEFAULT_ACCOUNT
        return standing and STANDING_LABEL in template.labels


def compile_skip_rules(
    skipped_apis: str = "", skipped_namespaces: Sequence[str] = DEFAULT_SKIPPED_NAMESPACES
) -> SkipRules:
    """Compile `skipped-propagating-apis` (`;` between entries) and `skipped-propagating-namespaces` (expressions).

    Raises SkipRuleError.
    """
    groups, versions, kinds = set(SKIPPED_GROUPS), set(SKIPPED_GROUP_VERSIONS), set(SKIPPED_KINDS)
    for entry in filter(None, (part.strip() for part in skipped_apis.split(";"))):
        parts = entry.split("/")
        match parts:
            case [group]:
                groups.add(group)
            case [version, names] if version.startswith("v1"):
                kinds.update(f"{version}/{name.strip()}" for name in names.split(","))
            case [_, _]:
                versions.add(entry)
            case [group, version, names]:
                kinds.update(f"{group}/{version}/{name.strip()}" for name in names.split(","))
            case _:
                raise SkipRuleError(f"skipped API {entry!r} has too many parts: write group, group/version or a kind")
    return SkipRules(
        frozenset(groups),
        frozenset(versions),
        frozenset(kinds),
        tuple(_namespace_matcher(expression) for expression in skipped_namespaces),
    )


def _namespace_matcher(expression: str) -> Callable[[str], object]:
    try:
        return whole_matcher(expression)
    except PatternError as problem:
        raise SkipRuleError(f"skipped namespace {expression!r} is no regular expression: {problem}") from problem
