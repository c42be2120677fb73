"""The certificate of the webhook: reported before and when it expires, and replaced while the webhook runs."""

from __future__ import annotations

import asyncio
import datetime as dt
import re
import shutil
import ssl
from pathlib import Path
from typing import Any, Final

import aiohttp
import pytest

from services._kit.base.settings import SettingsError
from services._kit.kube.client import KubeClient
from services._rules.admission.webhook_configurations import Target
from services.cli.installation.install_crds import apply_webhooks
from services.webhook.app import Webhook
from tests.integration.webhook.running import DAY, make_pair, running, settings
from tests.integration.webhook.test_webhook_same_answers import front
from tests.support.manual_clock import ManualClock

CATALOGUE: Final = Path(__file__).parents[3] / "docs" / "metrics.md"
METRIC: Final = re.compile(r"^\| `(fleetlog_\w+)`", re.MULTILINE)
NOW: Final = dt.datetime(2026, 6, 1, tzinfo=dt.UTC)


async def test_an_expiring_certificate_is_reported_and_replaced(tmp_path: Path) -> None:
    first = make_pair(tmp_path, NOW - DAY, NOW + 10 * DAY)
    clock = ManualClock(NOW.timestamp())
    async with running(tmp_path, clock) as shown:
        assert await shown.served() == first
        line = await shown.until_logged("in 10.0 days: replace it before")
        assert line["log_level"] == "warning"
        document = await shown.ready()
        assert document["ready"] is True
        assert "in 10.0 days" in document["certificate_warning"]
        assert 'fleetlog_serving_certificate_expire_seconds{component="webhook"} 864000.0' in await shown.get(
            "/metrics"
        )

        clock.set((NOW + 11 * DAY).timestamp())
        line = await shown.until_logged("expired on 2026-06-11")
        assert line["log_level"] == "error"
        document = await shown.ready()
        assert document["ready"] is False
        assert (
            "refuse every write that they ask about: replace certificate and key" in document["reasons"]["certificate"]
        )

        second = make_pair(tmp_path, NOW, NOW + 400 * DAY)
        await shown.until_logged("certificate loaded")
        assert await shown.served() == second
        assert (await shown.ready())["reasons"] == {}


async def test_events_on_the_configurations_tell_of_it(tmp_path: Path) -> None:
    make_pair(tmp_path, NOW - DAY, NOW + 10 * DAY)
    clock = ManualClock((NOW + 11 * DAY).timestamp())
    async with front(tmp_path / "api", admission=False) as plane:
        client = await KubeClient.from_kubeconfig(plane.kubeconfig)
        await apply_webhooks(client, Target("", url="https://127.0.0.1:1"))
        await client.close()
        async with running(tmp_path, clock, control_kubeconfig=str(plane.kubeconfig)):
            told: set[tuple[str, str, str, bool]] = set()
            async with asyncio.timeout(60):
                while len(told) < 2:
                    _, found = await plane("GET", "/api/v1/namespaces/default/events")
                    told = {
                        (about["kind"], about["name"], event["reason"], "expired on 2026-06-11" in event["message"])
                        for event in found["items"]
                        for about in (event["involvedObject"],)
                    }
            kinds = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
            assert told == {(kind, "fleetlog", "ServingCertificateRefused", True) for kind in kinds}


async def test_files_that_do_not_fit_leave_the_former_pair(tmp_path: Path) -> None:
    first = make_pair(tmp_path, NOW - DAY, NOW + 100 * DAY)
    (tmp_path / "other").mkdir()
    async with running(tmp_path, ManualClock(NOW.timestamp())) as shown:
        second = make_pair(tmp_path / "other", NOW - DAY, NOW + 200 * DAY)
        shutil.copy(tmp_path / "other" / "tls.crt", tmp_path / "tls.crt")
        async with asyncio.timeout(60):
            while "the former stay" not in (await shown.ready())["certificate_warning"]:
                continue
        assert await shown.served() == first
        shutil.copy(tmp_path / "other" / "tls.key", tmp_path / "tls.key")
        await shown.until_logged("certificate loaded")
        assert await shown.served() == second
        assert (await shown.ready())["certificate_warning"] == ""


async def test_older_tls_is_spoken_only_where_it_is_asked_for(tmp_path: Path) -> None:
    made = make_pair(tmp_path, NOW - DAY, NOW + 100 * DAY)
    async with running(tmp_path, ManualClock(NOW.timestamp())) as shown:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await shown.served(maximum_version=ssl.TLSVersion.TLSv1_2)
    async with running(tmp_path, ManualClock(NOW.timestamp()), tls_min_version="1.2") as shown:
        assert await shown.served(maximum_version=ssl.TLSVersion.TLSv1_2) == made


async def test_callers_without_a_certificate_are_turned_away(tmp_path: Path) -> None:
    make_pair(tmp_path, NOW - DAY, NOW + 3000 * DAY)
    async with running(tmp_path, ManualClock(NOW.timestamp()), client_ca=str(tmp_path / "tls.crt")) as shown:
        url = f"https://127.0.0.1:{shown.port}/convert"
        own = ssl.create_default_context(cafile=str(tmp_path / "tls.crt"))
        own.load_cert_chain(tmp_path / "tls.crt", tmp_path / "tls.key")
        async with aiohttp.ClientSession() as session:
            with pytest.raises(aiohttp.ClientError):
                await session.post(url, data=b"{}", ssl=False)
            async with session.post(url, data=b"{}", ssl=own) as response:
                assert response.status == 400


async def test_reviews_are_counted_by_kind_verb_and_outcome(tmp_path: Path) -> None:
    make_pair(tmp_path, NOW - DAY, NOW + 100 * DAY)
    async with running(tmp_path, ManualClock(NOW.timestamp())) as shown, aiohttp.ClientSession() as session:
        url = f"https://127.0.0.1:{shown.port}/validate-clustertaintpolicy"
        async with session.post(url, data=b"{}", ssl=False) as response:
            assert response.status == 400
        metrics = await shown.get("/metrics")
        assert 'reviews_total{kind="ClusterTaintPolicy",outcome="malformed",verb=""} 1.0' in metrics
        assert 'fleetlog_webhook_review_seconds_count{kind="ClusterTaintPolicy"} 1.0' in metrics
        documented = {name for name in METRIC.findall(CATALOGUE.read_text()) if "webhook" in name}
        served = {line.split()[2] for line in metrics.splitlines() if line.startswith("# TYPE fleetlog_webhook")}
        assert {name for name in served if not name.endswith("_created")} == documented


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({}, "FLEETLOG_SERVING_CERT, FLEETLOG_SERVING_KEY"),
        ({"tls_min_version": "1.1"}, "FLEETLOG_TLS_MIN_VERSION is '1.1': use 1.2 or 1.3"),
        ({"feature_gates": ("Nope=true",)}, "FLEETLOG_FEATURE_GATES"),
        ({"max_requests": 0}, "FLEETLOG_MAX_REQUESTS is 0: use more than 0"),
    ],
)
def test_settings_that_cannot_be_obeyed_are_named(tmp_path: Path, more: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        Webhook(settings(tmp_path, **more), ManualClock(NOW.timestamp()))
