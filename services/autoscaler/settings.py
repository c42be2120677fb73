"""Settings of the autoscaler; names and defaults as Karmada's flags where it has them (docs/sources.md#flags)."""

from __future__ import annotations

from services._kit.base.settings import Settings, SettingsError


class AutoscalerSettings(Settings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`control_kubeconfig` is the control plane's kubeconfig; times in seconds, or as `2m`."""

    control_kubeconfig: str
    horizontal_pod_autoscaler_sync_period: float = 15.0
    """Between two rounds, in each of which every FederatedHPA is decided."""
    horizontal_pod_autoscaler_downscale_stabilization: float = 300.0
    """For how long a higher recommendation keeps replicas from going down, where no behavior says otherwise."""
    horizontal_pod_autoscaler_tolerance: float = 0.1
    """Share of a target by which a metric may differ without replicas being changed."""
    horizontal_pod_autoscaler_cpu_initialization_period: float = 300.0
    """How long after the start of a pod its processor samples may be those of the start."""
    horizontal_pod_autoscaler_initial_readiness_delay: float = 30.0
    """How long after the start of a pod a change of its readiness counts as its first one."""
    metrics_timeout: float = 5.0
    """How long a member, or the control plane, has to answer for its metrics."""
    metrics_at_once: int = 32
    """Members that are asked for samples at the same time."""
    hpa_scale_target_marker: bool = False
    """Whether targets of propagated HorizontalPodAutoscalers get the label by which members keep their replicas."""
    deployment_replicas_syncer: bool = False
    """Whether templates with that label take over the replicas that members have."""

    def __post_init__(self) -> None:
        """Refuse what could not be obeyed."""
        for name in ("sync_period", "downscale_stabilization", "tolerance"):
            if getattr(self, f"horizontal_pod_autoscaler_{name}") < 0:
                raise SettingsError(f"FLEETLOG_HORIZONTAL_POD_AUTOSCALER_{name.upper()} is negative: use 0 or more")
        if not 0 < self.metrics_timeout <= 60:
            raise SettingsError("FLEETLOG_METRICS_TIMEOUT is out of range: use more than 0 and at most 60 seconds")
        if not 1 <= self.metrics_at_once <= 1024:
            raise SettingsError("FLEETLOG_METRICS_AT_ONCE is out of range: use 1 to 1024")
