"""Settings of the registrar: how much one agent may ask for; whatever is above waits, and only that agent."""

from __future__ import annotations

from schemas.agent import HEARTBEAT_SECONDS
from services._kit.content.master_keys import KeyedSettings
from services.registrar.decide import KEPT_BYTES


class RegistrarSettings(KeyedSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Bounds per cluster; rates per second."""

    agent_heartbeat: float = HEARTBEAT_SECONDS
    """Seconds between an agent's heartbeats."""
    hellos_per_second: float = 5.0
    reports_per_second: float = 5000.0
    report_bytes_per_second: float = 1e6
    """Bytes of reports that are stored for one cluster; of what is reported faster, the newest of each object."""
    report_bytes_burst: float = 16e6
    """Bytes of reports that may come at once: those of a cluster whose agent is new."""
    status_bytes: int = KEPT_BYTES
    """Bytes that the statuses of one cluster's objects may have together."""
    blob_bytes_per_second: float = 64e6
    waiting_requests: int = 32
    """Requests of one cluster that wait; more are dropped, and asked again."""
    waiting_bytes: int = 16 << 20
    """Size of the requests of one cluster that wait."""
    room_answer_seconds: float = 3.0
    """How long after a question an agent's answer counts."""
