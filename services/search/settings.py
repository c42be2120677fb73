"""Settings of search: its address and identity, the control plane, and how much of members it keeps."""

from __future__ import annotations

from services._kit.proxying.front_identity import FrontSettings


class SearchSettings(FrontSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`control_kubeconfig` is the kubeconfig of the control plane, with registries and the members' credentials."""

    control_kubeconfig: str
    kind_bytes: int = 256 << 20
    """Bytes that the objects of one kind of one member may take in the index."""
    kept_seconds: float = 600.0
    """How long the objects of a member that is not ready stay in answers."""
    max_requests: int = 64
    """Requests that are answered at once; more are turned away with 429."""
    proxy_requests: int = 64
    """Requests of one caller that the global proxy answers at once."""
    proxy_streams: int = 128
    """Watches, logs and connections to containers that one caller may have open in it."""
    proxy_requests_altogether: int = 4096
    """Requests of all callers that it answers at once."""
