"""Settings of the status aggregator: the control plane it writes statuses and Events to."""

from __future__ import annotations

from services._kit.base.settings import Settings, gates_of


class AggregatorSettings(Settings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`control_kubeconfig` is the control plane's kubeconfig."""

    control_kubeconfig: str
    concurrent_writes: int = 16
    rollup_gather: float = 0.03
    """How long in seconds a report waits for those of other members, to be summed with them."""
    rollup_settle: float = 0.06
    """How long in seconds a report waits while another copy was not reported on or not handled yet by its cluster."""
    rollup_patience: float = 1.0
    """How long in seconds no sum is recorded for an object that no member has reported on yet."""
    rollup_interval: float = 0.02
    """Shortest time in seconds between two sums of one object."""
    events: bool = True
    """Whether Kubernetes Events are written."""
    events_per_second: float = 25.0
    """How many of them in a burst, when a hundred and more come up in a second; else four times as many."""
    events_at_once: float = 50.0
    """How many after a pause, before that rate counts."""
    events_waiting: int = 10_000
    """How many wait at most; beyond that, those about single copies are dropped first."""
    feature_gates: tuple[str, ...] = ()
    """Entries such as `FederatedQuotaEnforcement=true`."""

    def __post_init__(self) -> None:
        """Refuse what could not be obeyed."""
        self.gates()

    def gates(self) -> dict[str, bool]:
        """Every feature gate; raises SettingsError for one that does not exist."""
        return gates_of(self.feature_gates)
