"""The table of built-in kinds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from services.apiserver.kinds.model import Kind, Resource, Subresource

if TYPE_CHECKING:
    from services.apiserver.kinds.registry import Registry


def fill(registry: Registry, profile: str) -> None:
    """Add the built-in kinds of the profile."""
    resource = Resource(group="", version="v1", kind="ConfigMap", plural="configmaps", short_names=("cm",))
    registry.add_kind(Kind(resource), group_priority=18000, version_priority=1)
    resource = Resource(
        group="",
        version="v1",
        kind="Namespace",
        plural="namespaces",
        short_names=("ns",),
        namespaced=False,
        subresources=(Subresource("status"), Subresource("finalize", ("update",))),
    )
    registry.add_kind(Kind(resource), group_priority=18000, version_priority=1)
