"""Settings of the detector: the control plane it watches and what it leaves alone."""

from __future__ import annotations

from msgspec.structs import replace

from services._kit.base.settings import SettingsError, gates_of
from services._kit.content.master_keys import KeyedSettings
from services._rules.absence.absence_guard import Limits
from services.detector.binding_request import DetectorOptions, options_of


class DetectorSettings(KeyedSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`control_kubeconfig` is the control plane's kubeconfig; the others are Karmada's flags of these names."""

    control_kubeconfig: str
    skipped_propagating_apis: str = ""
    skipped_propagating_namespaces: tuple[str, ...] = ("kube-.*",)
    discovery_period: float = 30.0
    """Seconds between discoveries of new kinds; a new CustomResourceDefinition triggers one at once."""
    concurrent_writes: int = 32
    held_share: float = 0.2
    """Share of a kind's objects that may be missing from one list; see docs/held-withdrawals.md."""
    held_count: int = 5
    """Fewer objects than that are never held, whatever share they are."""
    controllers: tuple[str, ...] = ("*",)
    """`-namespace` turns off that namespaces go to every cluster by themselves; copies that exist stay."""
    feature_gates: tuple[str, ...] = ()
    """Entries such as `WorkloadAffinity=true`."""

    def __post_init__(self) -> None:
        """Refuse a gate that does not exist, and limits that make no sense."""
        self.options()
        self.limits()

    def limits(self) -> Limits:
        """How much may be missing from one list; raises SettingsError."""
        try:
            return Limits(share=self.held_share, count=self.held_count)
        except ValueError as error:
            raise SettingsError(f"FLEETLOG_HELD_SHARE, FLEETLOG_HELD_COUNT: {error}") from None

    def options(self) -> DetectorOptions:
        """What the gates add to bindings; raises SettingsError for one that does not exist."""
        return replace(options_of(gates_of(self.feature_gates)), namespaces=self._synchronises_namespaces())

    def _synchronises_namespaces(self) -> bool:
        unknown = [name for name in self.controllers if name not in ("*", "namespace", "-namespace")]
        if unknown:
            raise SettingsError(f"FLEETLOG_CONTROLLERS: {unknown[0]!r} cannot be turned on or off; use -namespace")
        return "-namespace" not in self.controllers
