"""Reads of a pod what its room is counted from: a member has thousands, and most of each says nothing about that."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import Raw, Struct, to_builtins

from services._kit.kube_api import Manifest
from services._kit.kube_watch import Decoded


class _Resources(Struct, omit_defaults=True, gc=False):
    requests: dict[str, Any] | None = None


class _Container(Struct, omit_defaults=True, gc=False):
    resources: _Resources | None = None


class _Spec(Struct, rename="camel", omit_defaults=True, gc=False):
    node_name: str | None = None
    containers: list[_Container] | None = None
    init_containers: list[_Container] | None = None
    overhead: dict[str, Any] | None = None


class _Status(Struct, omit_defaults=True, gc=False):
    phase: str | None = None


class _Metadata(Struct, rename="camel", omit_defaults=True, gc=False):
    name: str = ""
    namespace: str = ""
    resource_version: str = ""


class _Pod(Struct, omit_defaults=True, gc=False):
    metadata: _Metadata
    spec: _Spec | None = None
    status: _Status | None = None


class _ListMeta(Struct, frozen=True, rename={"following": "continue"}):
    following: str = ""


class _Page(Struct, gc=False):
    metadata: _ListMeta = _ListMeta()
    items: list[_Pod] | None = None


_pod: Final = msgspec.json.Decoder(_Pod)
_page: Final = msgspec.json.Decoder(_Page)


def pods_of(page: bytes) -> tuple[list[Manifest], str]:
    """The pods of a list, and where it goes on; raises msgspec.MsgspecError."""
    found = _page.decode(page)
    pods: list[Manifest] = to_builtins(found.items or [])
    return pods, found.metadata.following


class PodsOnNodes(Decoded):
    """Pods for those who count what is taken; one that waits for a node is read whole, because why it waits counts."""

    def read(self, raw: Raw, api_version: str, kind: str) -> Manifest:
        """What counts of a pod."""
        found = _pod.decode(raw)
        if found.spec is None or not found.spec.node_name:
            return super().read(raw, api_version, kind)
        pod: Manifest = to_builtins(found)
        return pod
