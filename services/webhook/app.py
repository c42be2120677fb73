"""Runs the webhook: serves reviews with a certificate that it watches. Every instance does; none leads."""

from __future__ import annotations

import asyncio
import datetime as dt
from typing import Any

import structlog

from services._kit.base.clock import Clock
from services._kit.base.settings import SettingsError, gates_of, log_environment
from services._kit.credentials.serving_certificate import CertificateWatch, ServingCertificate, ServingFiles
from services._kit.runtime.policy_guard import PolicyGuard
from services._kit.runtime.standalone import Surroundings
from services._rules.admission import Context
from services._rules.admission.write_steps import Guard
from services.webhook.certificate_events import ENDS, REFUSED, CertificateEvents
from services.webhook.metrics import WebhookMetrics
from services.webhook.review_server import ReviewServer
from services.webhook.settings import WebhookSettings
from services.webhook.stored_objects import StoredObjects


class Webhook:
    """Reviews in, answers out. `guard` is asked about policies that the rules have admitted; None: as settings say."""

    name = "webhook"

    def __init__(self, settings: WebhookSettings, clock: Clock, guard: Guard | None = None) -> None:
        """Raises SettingsError for a certificate that cannot be used."""
        self._settings = settings
        self._clock = clock
        self._certificate = _certificate(settings, clock)
        self._stored = StoredObjects(settings.control_kubeconfig)
        self._events = CertificateEvents(self._stored.opened, clock.now)
        gates = gates_of(settings.feature_gates)
        standing = Context(
            allow_no_execute_taint_policy=settings.no_execute_policies,
            multiple_pod_templates=gates["MultiplePodTemplatesScheduling"],
            resource_models=gates["CustomizedClusterResourceModeling"],
            keeps_faults=True,
        )
        self.server = ReviewServer(
            self._stored,
            standing,
            self._stamp,
            quotas=gates["FederatedQuotaEnforcement"],
            guard=guard or PolicyGuard(settings.guard_seconds, _known(settings)),
            max_body_bytes=settings.max_body_bytes,
            max_requests=settings.max_requests,
        )
        self._looking: CertificateWatch | None = None
        self._stopping = False
        self._log: Any = structlog.get_logger(__name__)

    async def start(self, surroundings: Surroundings) -> None:
        """Listen; raises OSError when the port is taken."""
        health, settings, certificate = surroundings.health, self._settings, self._certificate
        health.check("stopping", lambda: "asked to stop" if self._stopping else "")
        # Most reviews are answered without it.
        health.fact("control_plane", lambda: self._stored.trouble)
        self.server.metrics = WebhookMetrics(surroundings.metrics, lambda: self.server.running)
        reads, seconds = surroundings.metrics.reads, settings.certificate_check_seconds
        self._looking = CertificateWatch(certificate, seconds, health, reads, self._tell)
        self._looking.start()
        await self.server.start(settings.api_host, settings.api_port, certificate.context)
        health.fact("api", lambda: f"https://{settings.api_host}:{self.server.port}")
        self._log.info("reviews", host=settings.api_host, port=self.server.port)

    async def stop(self) -> None:
        """Answer for as long as callers still come, then end."""
        self._stopping = True
        if self._settings.drain_seconds > 0:
            await asyncio.sleep(self._settings.drain_seconds)
        await self.server.stop()
        if self._looking is not None:
            await self._looking.stop()
        await self._events.close()
        await self._stored.close()

    async def _tell(self, text: str) -> None:
        await self._events.tell(REFUSED if self._certificate.trouble else ENDS, text)

    def _stamp(self) -> str:
        return dt.datetime.fromtimestamp(self._clock.now(), dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _certificate(settings: WebhookSettings, clock: Clock) -> ServingCertificate:
    try:
        return ServingCertificate(
            ServingFiles(settings.serving_cert, settings.serving_key, settings.client_ca, required=True),
            minimum=settings.tls_min_version,
            refused="API servers refuse every write that they ask about",
            warning_seconds=settings.certificate_warning_seconds,
            now=clock.now,
        )
    except OSError as error:
        raise SettingsError(f"FLEETLOG_SERVING_CERT, FLEETLOG_SERVING_KEY, FLEETLOG_CLIENT_CA: {error}") from error


def _known(settings: WebhookSettings) -> dict[str, str]:
    """What the process that measures for guards knows of the settings."""
    return {**log_environment(settings), "FLEETLOG_FEATURE_GATES": ",".join(settings.feature_gates)}
