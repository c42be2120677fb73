"""Settings of the gateway: its listen address, its certificate, and the credentials it accepts."""

from __future__ import annotations

from services._kit.base.settings import Settings


class GatewaySettings(Settings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The API's own address and identity; those of the log connection are the common ones."""

    api_host: str = "127.0.0.1"
    api_port: int = 0
    """0: any free port."""
    serving_cert: str = ""
    serving_key: str = ""
    """Files of the serving certificate; without them the API serves plain HTTP, on loopback only."""
    front_proxy_ca: str = ""
    """File with the authority of the API server's proxy client certificate: its X-Remote-* headers are believed."""
    front_proxy_names: tuple[str, ...] = ()
    """Common names such a certificate may have; empty: any."""
    token_file: str = ""
    """File with lines `token` or `token,user,uid,"group1,group2"` for direct use; read again when it changes."""
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
    watch_changes: int = 4096
    """Changes per kind that are kept for watches that come back."""
