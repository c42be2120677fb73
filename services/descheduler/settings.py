"""Settings of the descheduler; names and defaults as Karmada's flags (docs/sources.md#flags)."""

from __future__ import annotations

from services._kit.base.settings import Settings, SettingsError


class DeschedulerSettings(Settings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Times in seconds, or as `2m`."""

    descheduling_interval: float = 120.0
    """Seconds between two checks of a Deployment that lacks ready replicas; at least one second."""
    unschedulable_threshold: float = 300.0
    """How long a pod has to be without a node before its replica is taken back."""
    scheduler_estimator_timeout: float = 3.0
    """How long the estimator has to answer for all clusters of a Deployment; without all answers nothing is taken."""

    def __post_init__(self) -> None:
        """Refuse what could not be obeyed."""
        for name in ("descheduling_interval", "unschedulable_threshold", "scheduler_estimator_timeout"):
            if getattr(self, name) < 0:
                raise SettingsError(f"FLEETLOG_{name.upper()} is negative: use 0 or more seconds")
