"""Settings of the cluster monitor; names as Karmada's flags where the meaning is the same.

Source: docs/sources.md#clusters, #flags.
"""

from __future__ import annotations

from services._kit.base.settings import Settings, SettingsError, gates_of
from services._rules.absence.absence_guard import Limits


class MonitorSettings(Settings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`control_kubeconfig` is the control plane's kubeconfig; times in seconds."""

    control_kubeconfig: str
    cluster_status_update_frequency: float = 10.0
    cluster_success_threshold: float = 30.0
    cluster_failure_threshold: float = 30.0
    cluster_monitor_grace_period: float = 40.0
    """How long the agent of a pull cluster may be silent before its readiness is unknown."""
    cluster_startup_grace_period: float = 60.0
    """The same, before its first report."""
    held_share: float = 0.2
    """Share of the clusters that may be missing from one list; see docs/held-withdrawals.md."""
    held_count: int = 5
    """Fewer clusters than that are not held, unless they are all."""
    feature_gates: tuple[str, ...] = ()
    """Entries such as `Failover=true`: with that gate ClusterTaintPolicies taint clusters."""

    def __post_init__(self) -> None:
        """Refuse gates that do not exist, and limits that make no sense."""
        self.gates()
        self.limits()

    def limits(self) -> Limits:
        """How many clusters may be missing from one list; raises SettingsError."""
        try:
            return Limits(share=self.held_share, count=self.held_count)
        except ValueError as error:
            raise SettingsError(f"FLEETLOG_HELD_SHARE, FLEETLOG_HELD_COUNT: {error}") from None

    def gates(self) -> dict[str, bool]:
        """Every feature gate; raises SettingsError for one that does not exist."""
        return gates_of(self.feature_gates)
