"""Settings of the scheduler; names as Karmada's flags where the meaning is the same (docs/sources.md#flags)."""

from __future__ import annotations

from services._kit.base.settings import Settings, SettingsError, gates_of
from services._rules.scheduling.plugin_set import PluginError, PluginSet
from services._rules.scheduling.scheduling_views import SchedulingOptions
from services.scheduler.decide import Rules
from services.scheduler.plugins import load_plugins
from services.scheduler.queue.retry_backoff import Limits

DEFAULT_NAME = "default-scheduler"


class SchedulerSettings(Settings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`scheduler_name`: bindings that name another scheduler are left alone."""

    scheduler_name: str = DEFAULT_NAME
    """Bindings with this spec.schedulerName are placed; schedulers with other names may run beside this one."""
    plugins: tuple[str, ...] = ("*",)
    """Plugins by name, `*` for all there are, `-Name` for all but that one (docs/scheduler-plugins.md)."""
    feature_gates: tuple[str, ...] = ()
    """Entries such as `PriorityBasedScheduling=true`."""
    enable_scheduler_estimator: bool = True
    """Whether estimates count; where no estimator ever ran nothing is waited for either way."""
    disable_scheduler_estimator_in_pull_mode: bool = False
    """Whether estimates of pull members are left out."""
    scheduler_estimator_timeout: float = 3.0
    """Seconds a decision waits for an estimate before the members' summaries alone have to do."""
    enable_empty_workload_propagation: bool = False
    """Whether clusters that were selected and get no replica hold the object nevertheless."""
    rate_limiter_base_delay: float = 0.005
    """Seconds until the first retry after an error; each further one comes after twice as long."""
    rate_limiter_max_delay: float = 1000.0
    """Longest time between two retries, in seconds."""
    rate_limiter_qps: float = 10.0
    """Retries per second, of all objects together."""
    rate_limiter_bucket_size: int = 100
    """Retries that may come at once."""

    def __post_init__(self) -> None:
        """Refuse what could not be obeyed."""
        if not self.scheduler_name:
            raise SettingsError("FLEETLOG_SCHEDULER_NAME is empty: name the scheduler as bindings do")
        if self.scheduler_estimator_timeout < 0:
            raise SettingsError("FLEETLOG_SCHEDULER_ESTIMATOR_TIMEOUT is negative: use 0 or more seconds")
        self.gates()

    @property
    def service_name(self) -> str:
        """Under which name instances of this scheduler compete for one lease."""
        return "scheduler" if self.scheduler_name == DEFAULT_NAME else f"scheduler-{self.scheduler_name}"

    def gates(self) -> dict[str, bool]:
        """Every feature gate; raises SettingsError for one that does not exist."""
        return gates_of(self.feature_gates)

    def rules(self) -> Rules:
        """What gates and flags mean for decisions."""
        gates = self.gates()
        return Rules(
            options=SchedulingOptions(
                resource_models=gates["CustomizedClusterResourceModeling"],
                several_templates=gates["MultiplePodTemplatesScheduling"],
                empty_workload_propagation=self.enable_empty_workload_propagation,
                plugins=self._loaded(gates),
            ),
            pull_estimates=not self.disable_scheduler_estimator_in_pull_mode,
        )

    def _loaded(self, gates: dict[str, bool]) -> PluginSet:
        try:
            return load_plugins(self.plugins, gates)
        except PluginError as error:
            raise SettingsError(f"FLEETLOG_PLUGINS: {error}") from error

    def limits(self) -> Limits:
        """How errors are retried; what is not positive counts as unset (docs/sources.md#flags)."""
        unset = Limits()
        return Limits(
            self.rate_limiter_base_delay if self.rate_limiter_base_delay > 0 else unset.base_delay,
            self.rate_limiter_max_delay if self.rate_limiter_max_delay > 0 else unset.max_delay,
            self.rate_limiter_qps if self.rate_limiter_qps > 0 else unset.qps,
            self.rate_limiter_bucket_size if self.rate_limiter_bucket_size > 0 else unset.bucket_size,
        )
