"""Settings of the estimator: the control plane that holds the members' credentials, and its patience."""

from __future__ import annotations

from services._kit.base.settings import Settings


class EstimatorSettings(Settings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`control_kubeconfig` is the control plane's kubeconfig; times in seconds."""

    control_kubeconfig: str
    member_sync_timeout: float = 2.0
    """How long a question waits for the first lists of a member before it is answered without an opinion of it."""
    member_quiet_period: float = 0.5
    """How long a member must be quiet before what could not be placed is estimated again."""
    estimate_quotas: bool = True
    """Whether ResourceQuotas of members limit estimates."""
    agent_answer_timeout: float = 2.0
    """How long the agent of a pull member has to answer; one that does not has no opinion until it does again."""
