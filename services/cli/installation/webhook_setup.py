"""Gives the webhook of a laptop installation its certificate, and makes the control plane ask it."""

from __future__ import annotations

import base64
import shutil
from pathlib import Path
from typing import Final

from services._kit.kube.client import KubeClient
from services._rules.admission.webhook_configurations import Target
from services.cli.common.layout import Installation, Layout
from services.cli.common.waiting import opened
from services.cli.installation.install_crds import apply_webhooks, remove_webhooks

_NAME: Final = "webhook"
PORT: Final = "webhook_api"
_LOOPBACK: Final = ("localhost", "127.0.0.1")


def environment(layout: Layout, installation: Installation) -> dict[str, str]:
    """Settings of the webhook: where it listens, and its certificate for the host under which it is asked."""
    from services.apiserver.auth.certificate_authority import Authority

    host = installation.webhook
    authority = Authority(layout.data(_NAME), "fleetlog-webhook-ca")
    authority.load()
    cert, key = authority.server((host, "localhost", "127.0.0.1"))
    return {
        "FLEETLOG_API_HOST": "127.0.0.1" if host in _LOOPBACK else "0.0.0.0",
        "FLEETLOG_API_PORT": str(installation.port(PORT)),
        "FLEETLOG_SERVING_CERT": str(cert),
        "FLEETLOG_SERVING_KEY": str(key),
    }


async def register(control: Path, layout: Layout, installation: Installation) -> str:
    """Make the control plane ask about policies here; says at which URL."""
    url = f"https://{installation.webhook}:{installation.port(PORT)}"
    bundle = base64.b64encode((layout.data(_NAME) / "ca.crt").read_bytes()).decode()
    async with opened(control) as client:
        await apply_webhooks(client, Target(bundle, url=url))
    return f"asked at {url}"


async def unregister(client: KubeClient, layout: Layout) -> None:
    """Make a control plane that asked here ask no more; one that never did is left alone."""
    directory = layout.data(_NAME)
    if (directory / "ca.crt").exists():
        await remove_webhooks(client)
        # An authority without its certificate would be made again, beside what the former one has signed.
        shutil.rmtree(directory)
