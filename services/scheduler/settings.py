"""Settings of the scheduler; names as Karmada's flags where the meaning is the same (reference 02 §9.1)."""

from __future__ import annotations

from services._kit.settings import Settings


class SchedulerSettings(Settings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`scheduler_name`: bindings that name another scheduler are left alone."""

    scheduler_name: str = "default-scheduler"
