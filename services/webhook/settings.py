"""Settings of the webhook: its address and certificate, the control plane, bounds, and what its rules depend on."""

from __future__ import annotations

from typing import Final

from services._kit.base.settings import Settings, SettingsError, gates_of
from services._rules.admission.webhook_table import SECONDS_GUARDED

_TLS: Final = ("1.2", "1.3")


class WebhookSettings(Settings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`control_kubeconfig` is the kubeconfig of the control plane that asks. Only guards read the log."""

    control_kubeconfig: str
    serving_cert: str
    """File of the serving certificate and its chain; read again when it changes."""
    serving_key: str
    """File of its key."""
    api_host: str = "127.0.0.1"
    api_port: int = 8443
    """Port of the reviews; 0: any free port."""
    tls_min_version: str = "1.3"
    """The oldest version of TLS that is spoken: 1.2 or 1.3."""
    client_ca: str = ""
    """File with the authority of client certificates; with it, callers have to show one."""
    certificate_check_seconds: float = 10.0
    """How often the certificate's files are looked at."""
    certificate_warning_seconds: float = 30 * 86400.0
    """How long before the certificate expires that is reported."""
    max_body_bytes: int = 16 << 20
    """Bytes of one review: it holds the object twice."""
    max_requests: int = 128
    """Reviews that are answered at once; more are turned away with 429."""
    guard_seconds: int = 10
    """Seconds that the radius of an edit of a guarded policy may be measured."""
    drain_seconds: float = 0.0
    """How long it goes on answering after it was asked to stop, while callers learn that it goes."""
    feature_gates: tuple[str, ...] = ()
    """Entries such as `FederatedQuotaEnforcement=true`."""
    allow_no_execute_taint_policy: bool = False
    """Whether a ClusterTaintPolicy may have the effect NoExecute, which evicts."""
    enable_no_execute_taint_eviction: bool = False
    """The same, by the name of the setting that makes failover evict."""

    @property
    def no_execute_policies(self) -> bool:
        """Whether a ClusterTaintPolicy may have the effect NoExecute."""
        return self.allow_no_execute_taint_policy or self.enable_no_execute_taint_eviction

    def __post_init__(self) -> None:
        """Refuse what could not be obeyed."""
        gates_of(self.feature_gates)
        if self.tls_min_version not in _TLS:
            raise SettingsError(f"FLEETLOG_TLS_MIN_VERSION is {self.tls_min_version!r}: use 1.2 or 1.3")
        if not 0 < self.guard_seconds < SECONDS_GUARDED:
            raise SettingsError(
                f"FLEETLOG_GUARD_SECONDS is {self.guard_seconds}: use 1 to {SECONDS_GUARDED - 1}, as API servers wait "
                f"for {SECONDS_GUARDED} seconds"
            )
        for name in ("max_body_bytes", "max_requests", "certificate_check_seconds"):
            if getattr(self, name) <= 0:
                raise SettingsError(f"FLEETLOG_{name.upper()} is {getattr(self, name)}: use more than 0")
