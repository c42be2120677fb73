"""Tells the configurations of the webhooks, as Kubernetes Events, what is wrong with the certificate they rely on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from schemas.keys import ObjectKey
from services._kit.base.late_logger import LateLogger
from services._kit.kube.client import ApiError, KubeClient, Unreachable, resource_path
from services._kit.kube.event_recorder import EventRecorder
from services._rules.admission.webhook_configurations import KINDS, NAME
from services._rules.kubernetes.event_objects import Involved, note_about

REFUSED: Final = "ServingCertificateRefused"
"""The reason while API servers refuse the certificate."""
ENDS: Final = "ServingCertificateEnds"
"""The reason while it has to be replaced soon."""
_GROUP: Final = "admissionregistration.k8s.io"
_VERSION: Final = "v1"

log = LateLogger("certificate")


class CertificateEvents:
    """Warnings about the certificate on both configurations of a control plane that is opened when it is needed."""

    def __init__(self, opened: Callable[[], Awaitable[KubeClient]], now: Callable[[], float]) -> None:
        self._opened = opened
        self._now = now
        self._recorder: EventRecorder | None = None

    async def tell(self, reason: str, message: str) -> None:
        """Write a Warning; where the control plane cannot be asked, the log of this service holds it alone."""
        try:
            client = await self._opened()
            if self._recorder is None:
                self._recorder = EventRecorder(client, self._now)
            for kind in KINDS.values():
                resource = f"{kind.lower()}s"
                found = await client.get(f"{resource_path(_GROUP, _VERSION, resource, '')}/{NAME}")
                uid = str((found.get("metadata") or {}).get("uid") or "")
                about = Involved(ObjectKey(_GROUP, resource, "", NAME), uid, f"{_GROUP}/{_VERSION}", kind)
                self._recorder.tell(note_about(about, reason, message, "fleetlog-webhook", warning=True))
        except (ApiError, Unreachable, OSError, ValueError) as error:
            log.warning("certificate_event_not_written", reason=str(error)[:1000])

    async def close(self) -> None:
        """Write what waits no more."""
        if self._recorder is not None:
            await self._recorder.drop()
            self._recorder = None
