"""Writes the configuration with which a Prometheus scrapes an installation on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import yaml

from services._rules.kubernetes.rbac.service_roles import SCRAPER
from services.cli.common.layout import CONTROL, Installation, Layout, agent_process

INTERVAL: Final = "5s"


def config_file(layout: Layout) -> Path:
    """Where an installation keeps it."""
    return layout.directory / "prometheus.yml"


def write(layout: Layout, installation: Installation, services: Sequence[str]) -> None:
    """Write the configuration: one job per service and agent, and the embedded control plane with its own CA."""
    agents = [agent_process(member.name) for member in installation.pull_members]
    jobs: list[dict[str, object]] = [
        {"job_name": name, "static_configs": [{"targets": [f"127.0.0.1:{installation.port(name)}"]}]}
        for name in (*services, *agents)
    ]
    if not installation.control_kubeconfig:
        own = layout.identity(SCRAPER)
        jobs.append(
            {
                "job_name": CONTROL,
                "scheme": "https",
                "tls_config": {
                    "ca_file": str(layout.data(CONTROL) / "ca.crt"),
                    "cert_file": str(own.with_suffix(".crt")),
                    "key_file": str(own.with_suffix(".key")),
                },
                "static_configs": [{"targets": [f"127.0.0.1:{installation.port(CONTROL)}"]}],
            }
        )
    config = {"global": {"scrape_interval": INTERVAL}, "scrape_configs": jobs}
    config_file(layout).write_text(yaml.safe_dump(config, sort_keys=False), encoding="utf-8")
