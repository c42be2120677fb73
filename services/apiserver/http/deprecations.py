"""Deprecated built-in versions, and the texts of their Warning headers."""

from services.apiserver.kinds.kind_model import Kind

_GONE = "v1.22+"
_SINCE = {
    ("admissionregistration.k8s.io", "v1beta1"): "v1.16+",
    ("apiextensions.k8s.io", "v1beta1"): "v1.16+",
    ("apiregistration.k8s.io", "v1beta1"): "v1.19+",
    ("authentication.k8s.io", "v1beta1"): "v1.19+",
    ("authorization.k8s.io", "v1beta1"): "v1.19+",
    ("certificates.k8s.io", "v1beta1"): "v1.19+",
    ("coordination.k8s.io", "v1beta1"): "v1.19+",
    ("networking.k8s.io", "v1beta1"): "v1.19+",
    ("rbac.authorization.k8s.io", "v1beta1"): "v1.17+",
    ("scheduling.k8s.io", "v1beta1"): "v1.14+",
    ("storage.k8s.io", "v1beta1"): "v1.19+",
}


def deprecation(kind: Kind) -> str:
    """The text of the warning that requests of this kind and version carry; empty when it is not deprecated."""
    own = getattr(kind, "deprecation", "")
    if own:
        return str(own)
    resource = kind.resource
    since = _SINCE.get((resource.group, resource.version))
    if since is None:
        return ""
    return (
        f"{resource.api_version} {resource.kind} is deprecated in {since}, unavailable in {_GONE}; "
        f"use {resource.group}/v1 {resource.kind}"
    )
