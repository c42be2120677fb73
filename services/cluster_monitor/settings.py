"""Settings of the cluster monitor; names as Karmada's flags where the meaning is the same (reference 03 §6.5, §9.1)."""

from __future__ import annotations

from services._kit.settings import Settings


class MonitorSettings(Settings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`control_kubeconfig` is the control plane's kubeconfig; times in seconds."""

    control_kubeconfig: str
    cluster_status_update_frequency: float = 10.0
    cluster_success_threshold: float = 30.0
    cluster_failure_threshold: float = 30.0
