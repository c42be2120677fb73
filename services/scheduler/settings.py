"""Settings of the scheduler; names as Karmada's flags where the meaning is the same (reference 02 §9.1)."""

from __future__ import annotations

from services._kit.settings import Settings


class SchedulerSettings(Settings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`scheduler_name`: bindings that name another scheduler are left alone."""

    scheduler_name: str = "default-scheduler"
    enable_scheduler_estimator: bool = True
    """Whether estimates count; where no estimator ever ran nothing is waited for either way."""
    scheduler_estimator_timeout: float = 3.0
    """Seconds a decision waits for an estimate before the members' summaries alone have to do."""
