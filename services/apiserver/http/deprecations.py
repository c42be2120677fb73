"""Deprecated built-in versions, and the texts of their Warning headers."""

from functools import lru_cache
from typing import Final, NamedTuple

from services.apiserver.kinds.builtin import BuiltinKind
from services.apiserver.kinds.kind_model import Kind


class _End(NamedTuple):
    """The minor releases that first deprecate a version and first lack it; the version and the kind that replace it."""

    deprecated: int
    gone: int = 0
    instead: str = ""
    kind: str = ""


_END: Final[dict[tuple[str, str], _End]] = {
    ("v1", "ComponentStatus"): _End(19),
    ("v1", "Endpoints"): _End(33, instead="discovery.k8s.io/v1", kind="EndpointSlice"),
    ("admissionregistration.k8s.io/v1beta1", ""): _End(16, 22, "admissionregistration.k8s.io/v1"),
    ("apiextensions.k8s.io/v1beta1", ""): _End(16, 22, "apiextensions.k8s.io/v1"),
    ("apiregistration.k8s.io/v1beta1", ""): _End(19, 22, "apiregistration.k8s.io/v1"),
    ("authentication.k8s.io/v1beta1", ""): _End(19, 22, "authentication.k8s.io/v1"),
    ("authorization.k8s.io/v1beta1", ""): _End(19, 22, "authorization.k8s.io/v1"),
    ("autoscaling/v2beta1", ""): _End(22, 25, "autoscaling/v2"),
    ("autoscaling/v2beta2", ""): _End(23, 26, "autoscaling/v2"),
    ("batch/v1beta1", ""): _End(21, 25, "batch/v1"),
    ("certificates.k8s.io/v1beta1", ""): _End(19, 22, "certificates.k8s.io/v1"),
    ("coordination.k8s.io/v1beta1", ""): _End(19, 22, "coordination.k8s.io/v1"),
    ("discovery.k8s.io/v1beta1", ""): _End(21, 25, "discovery.k8s.io/v1"),
    ("events.k8s.io/v1beta1", ""): _End(22, 25),
    ("extensions/v1beta1", ""): _End(14, 22, "networking.k8s.io/v1"),
    ("flowcontrol.apiserver.k8s.io/v1beta1", ""): _End(23, 26, "flowcontrol.apiserver.k8s.io/v1beta2"),
    ("networking.k8s.io/v1beta1", ""): _End(19, 22, "networking.k8s.io/v1"),
    ("node.k8s.io/v1beta1", ""): _End(22, 25),
    ("policy/v1beta1", "PodDisruptionBudget"): _End(21, 25, "policy/v1"),
    ("policy/v1beta1", "PodSecurityPolicy"): _End(21, 25),
    ("rbac.authorization.k8s.io/v1beta1", ""): _End(17, 22, "rbac.authorization.k8s.io/v1"),
    ("scheduling.k8s.io/v1beta1", ""): _End(14, 22, "scheduling.k8s.io/v1"),
    ("storage.k8s.io/v1beta1", "CSINode"): _End(17, 22, "storage.k8s.io/v1"),
    ("storage.k8s.io/v1beta1", ""): _End(19, 22, "storage.k8s.io/v1"),
}
"""By API version and kind; without a kind for all other kinds of the version."""


@lru_cache(maxsize=4096)
def deprecation(kind: Kind) -> str:
    """The text of the warning that requests of this kind and version carry; empty when it is not deprecated."""
    own = getattr(kind, "deprecation", "")
    if own:
        return str(own)
    if not isinstance(kind, BuiltinKind):
        return ""
    version, name = kind.resource.api_version, kind.resource.kind
    end = _END.get((version, name)) or _END.get((version, ""))
    if end is None or end.deprecated > kind.release:
        return ""
    text = f"{version} {name} is deprecated in v1.{end.deprecated}+"
    if end.gone:
        text += f", unavailable in v1.{end.gone}+"
    return f"{text}; use {end.instead} {end.kind or name}" if end.instead else text
