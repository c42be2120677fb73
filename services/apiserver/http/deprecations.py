"""Deprecated built-in kinds, and the texts of their Warning headers."""

from typing import Final

from services.apiserver.kinds.kind_model import Kind

_DEPRECATED: Final = {
    ("v1", "ComponentStatus"): "v1 ComponentStatus is deprecated in v1.19+",
    ("v1", "Endpoints"): "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
}
"""By API version and kind."""


def deprecation(kind: Kind) -> str:
    """The text of the warning that requests of this kind and version carry; empty when it is not deprecated."""
    own = getattr(kind, "deprecation", "")
    return str(own) if own else _DEPRECATED.get((kind.resource.api_version, kind.resource.kind), "")
