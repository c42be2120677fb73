"""Settings of the failover service; names and defaults as Karmada's flags (docs/sources.md#flags)."""

from __future__ import annotations

from typing import Final

from services._kit.base.settings import Settings, SettingsError, gates_of
from services._rules.failover.application_failover import Gates
from services.failover.decide import Rules

_PURGE_MODES: Final = ("Gracefully", "Directly")


class FailoverSettings(Settings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """By default nothing is evicted: gate `Failover` and `enable_no_execute_taint_eviction` have to be turned on."""

    feature_gates: tuple[str, ...] = ()
    """Entries such as `Failover=true`."""
    enable_taint_manager: bool = True
    enable_no_execute_taint_eviction: bool = False
    no_execute_taint_eviction_purge_mode: str = "Gracefully"
    """`Gracefully` or `Directly`; for objects whose policy has no failover.cluster."""
    graceful_eviction_timeout: float = 600.0
    """Seconds after which a cluster's copy goes although its replacement is not healthy."""
    resource_eviction_rate: float | None = None
    """Objects that leave tainted clusters per second; unset: as many as there are, 0: one every 30 minutes."""

    def __post_init__(self) -> None:
        """Refuse what could not be obeyed."""
        mode, rate = self.no_execute_taint_eviction_purge_mode, self.resource_eviction_rate
        if mode not in _PURGE_MODES:
            raise SettingsError(
                f"FLEETLOG_NO_EXECUTE_TAINT_EVICTION_PURGE_MODE is {mode!r}: use Gracefully or Directly"
            )
        if rate is not None and rate < 0:
            raise SettingsError(f"FLEETLOG_RESOURCE_EVICTION_RATE is {rate:g}: use 0 or more objects per second")
        if self.graceful_eviction_timeout < 0:
            raise SettingsError("FLEETLOG_GRACEFUL_EVICTION_TIMEOUT is negative: use 0 or more seconds")
        self.rules()

    def rules(self) -> Rules:
        """What the settings mean for decisions; raises SettingsError for a feature gate that does not exist."""
        gates = gates_of(self.feature_gates)
        return Rules(
            taint_eviction=gates["Failover"] and self.enable_taint_manager and self.enable_no_execute_taint_eviction,
            purge_mode=self.no_execute_taint_eviction_purge_mode,
            timeout=self.graceful_eviction_timeout,
            gates=Gates(gates["GracefulEviction"], gates["StatefulFailoverInjection"]),
        )
