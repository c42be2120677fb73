"""Settings of the agent: the cluster it serves, how it reaches it, and where it keeps what it knows."""

from __future__ import annotations

from services._kit.base.settings import Settings


class AgentSettings(Settings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`agent_kubeconfig` is the member's; times in seconds."""

    agent_cluster: str
    """Name of the Cluster object in the control plane."""
    agent_kubeconfig: str
    agent_data_dir: str
    """Directory that survives a restart: works, their manifests, what was reported."""
    cluster_concurrency: int = 24
    """Objects under way at once."""
    longest_backoff: float = 30.0
    agent_lease: bool = True
    """Whether a Lease object in the member keeps a second agent of the same cluster from acting."""
    agent_lease_namespace: str = "kube-system"
    agent_lease_seconds: float = 15.0
    """How long a silent agent keeps its place."""
    agent_requests: str = ""
    """Which requests of the hub's callers are answered: `read`, `all`, or a file with a list of what is permitted;
    empty: none."""
