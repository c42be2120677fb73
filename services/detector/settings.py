"""Settings of the detector: the control plane it watches and what it leaves alone."""

from __future__ import annotations

from services._kit.keys import KeyedSettings


class DetectorSettings(KeyedSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`control_kubeconfig` is the control plane's kubeconfig; the others are Karmada's flags of these names."""

    control_kubeconfig: str
    skipped_propagating_apis: str = ""
    skipped_propagating_namespaces: tuple[str, ...] = ("kube-.*",)
    discovery_period: float = 30.0
    """Seconds between looks for new kinds; a new CustomResourceDefinition is looked for at once."""
    concurrent_writes: int = 32
