"""Settings of the gateway: its listen address, its certificate, and the credentials it accepts."""

from __future__ import annotations

from services._kit.proxying.front_identity import FrontSettings


class GatewaySettings(FrontSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Beside its address and identity, the control plane that it stands in front of."""

    upstream_url: str = ""
    """URL of a control plane that does not proxy here: requests for other kinds than the gateway's are proxied to it,
    with the client's credentials."""
    upstream_ca: str = ""
    """File with its authority."""
    upstream_insecure: bool = False
    """Whether its certificate is not verified."""
    upstream_cert: str = ""
    upstream_key: str = ""
    """Client certificate files: a bearer of a token of `token_file` acts upstream as its user; empty: is refused."""
    control_kubeconfig: str = ""
    """Kubeconfig of the control plane, for Clusters and the credentials of members; without it none is reached."""
    member_requests: int = 256
    """Requests for members that one caller may have under way, besides those that may run for long."""
    member_streams: int = 128
    """Requests of one caller that may run for long: watches, logs, connections to containers."""
    member_requests_altogether: int = 4096
    """Requests for members of all callers under way."""
    member_body_bytes: int = 64 << 20
    """Bytes that the body of a request for a member may have."""
    member_answer_seconds: float = 60.0
    """Until a member's answer begins, and between two parts of it; not for what may run for long."""
    member_metrics_seconds: float = 5.0
    """For a member to answer a question about metrics; an answer goes without those that take longer."""
    member_metrics_bytes: int = 32 << 20
    """Bytes of such an answer of one member; a larger one is left out."""
    search_url: str = ""
    """URL of the service search, where the control plane does not send requests there itself."""
    search_ca: str = ""
    """File with its authority."""
    search_cert: str = ""
    search_key: str = ""
    """Client certificate files that search trusts to name callers."""
    watch_changes: int = 4096
    """Changes per kind that are kept for watches that come back."""
