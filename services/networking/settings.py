"""Settings of the networking service."""

from __future__ import annotations

from services._kit.base.settings import Settings, SettingsError


class NetworkingSettings(Settings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`control_kubeconfig` is the control plane's kubeconfig; times in seconds, or as `2m`."""

    control_kubeconfig: str
    silent_endpoints_after: float = 300.0
    """How long a cluster may be other than ready before its endpoints leave the clusters that import them."""

    def __post_init__(self) -> None:
        """Refuse what could not be obeyed."""
        if self.silent_endpoints_after <= 0:
            raise SettingsError("FLEETLOG_SILENT_ENDPOINTS_AFTER has to be more than 0: use a time such as 5m")
