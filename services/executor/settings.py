"""Settings of the executor: the control plane that holds the members' credentials, and the pace of delivery."""

from __future__ import annotations

from services._kit.content.master_keys import KeyedSettings


class ExecutorSettings(KeyedSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`control_kubeconfig` is the control plane's kubeconfig; times in seconds."""

    control_kubeconfig: str
    cluster_concurrency: int = 24
    """Objects of one cluster under way at once."""
    longest_backoff: float = 30.0
