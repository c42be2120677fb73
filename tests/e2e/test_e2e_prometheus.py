"""A real Prometheus scrapes an installation with the configuration it wrote, and every panel has something to show."""

from __future__ import annotations

import importlib.util
import json
import math
import shutil
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from services.cli.installation.prometheus_config import config_file
from services.cli.installation.up import services_of
from tests.e2e.fleet import EXAMPLES, Failed, Fleet, until, until_equal
from tests.e2e.installations import installation
from tests.natsserver import free_port

ROOT = Path(__file__).parents[2]
CATALOGUE = ROOT / "docs" / "metrics.md"


AUTOSCALERS: list[dict[str, Any]] = [
    {
        "apiVersion": "autoscaling.karmada.io/v1alpha1",
        "kind": "FederatedHPA",
        "metadata": {"name": "nginx", "namespace": "default"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "nginx"},
            "minReplicas": 1,
            "maxReplicas": 20,
            "metrics": [
                {
                    "type": "Resource",
                    "resource": {"name": "cpu", "target": {"type": "AverageValue", "averageValue": "1000"}},
                },
            ],
        },
    },
    {
        "apiVersion": "autoscaling.karmada.io/v1alpha1",
        "kind": "CronFederatedHPA",
        "metadata": {"name": "office", "namespace": "default"},
        "spec": {
            "scaleTargetRef": {
                "apiVersion": "autoscaling.karmada.io/v1alpha1",
                "kind": "FederatedHPA",
                "name": "nginx",
            },
            "rules": [{"name": "up", "schedule": "* * * * *", "targetMaxReplicas": 19}],
        },
    },
]
"""An autoscaler that asks for fewer replicas and lowers none within its window, and a schedule of its limits."""


def _generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("dashboards", ROOT / "k8s/dashboards/generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Prometheus:
    """One server over the API."""

    def __init__(self, url: str) -> None:
        self.url = url

    def get(self, path: str, **parameters: str) -> Any:
        """The data of an answer; raises Failed without one."""
        try:
            with urllib.request.urlopen(f"{self.url}{path}?{urllib.parse.urlencode(parameters)}", timeout=30) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            with error:
                raise Failed(f"Prometheus: {error}") from None
        except OSError as error:
            raise Failed(f"Prometheus: {error}") from None

    def values(self, query: str) -> list[float]:
        """The present values of a query that are numbers."""
        found = [float(item["value"][1]) for item in self.get("/api/v1/query", query=query)["result"]]
        return [value for value in found if not math.isnan(value)]


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """An installation with every optional service: what they offer is in the catalogue, too."""
    with installation(tmp_path_factory, "scraped", ["--descheduler"]) as made:
        yield made


@pytest.fixture(scope="module")
def prometheus(fleet: Fleet) -> Iterator[Prometheus]:
    """A server that scrapes the installation often, and gives each process as long to answer."""
    program = shutil.which("prometheus")
    if program is None:
        pytest.skip("prometheus is not installed (Debian: apt-get install prometheus)")
    directory = fleet.layout.directory / "prometheus"
    directory.mkdir()
    config = yaml.safe_load(config_file(fleet.layout).read_text())
    config["global"]["scrape_interval"] = "3s"
    (directory / "prometheus.yml").write_text(yaml.safe_dump(config))
    port = free_port()
    with (directory / "log").open("ab") as log:
        process = subprocess.Popen(
            [
                program,
                f"--config.file={directory / 'prometheus.yml'}",
                f"--storage.tsdb.path={directory / 'data'}",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            stdout=log,
            stderr=log,
        )
    try:
        server = Prometheus(f"http://127.0.0.1:{port}")
        until("an answer of Prometheus", lambda: server.get("/api/v1/status/buildinfo"))
        yield server
    finally:
        process.terminate()
        process.wait(60)


def test_every_process_is_scraped(fleet: Fleet, prometheus: Prometheus) -> None:
    def health() -> dict[str, str]:
        targets = prometheus.get("/api/v1/targets", state="active")["activeTargets"]
        return {target["labels"]["job"]: target["health"] + target["lastError"] for target in targets}

    agents = [f"agent-{member.name}" for member in fleet.installation.pull_members]
    until_equal(
        "health of the targets", health, dict.fromkeys(("control", *services_of(fleet.installation), *agents), "up")
    )


def test_every_panel_has_something_to_show(fleet: Fleet, prometheus: Prometheus) -> None:
    control = fleet.kubectl()
    control.apply(EXAMPLES / "nginx-demo.yaml")
    control.apply(EXAMPLES / "nginx-propagation.yaml")
    for manifest in AUTOSCALERS:
        control.apply(manifest)
    generator = _generator()
    panels = {
        f"{uid}: {title}": generator.filled(query, "1m")
        for uid, (_, panels) in generator.DASHBOARDS.items()
        for title, query, _, _ in panels
    }
    replicas = iter(range(2, 1000))

    def empty() -> list[str]:
        # Quantiles need something that happens while it is scraped.
        control.run("scale", "deployment/nginx", f"--replicas={2 + next(replicas) % 5}")
        return [title for title, query in panels.items() if not prometheus.values(query)]

    until_equal("panels without data", empty, [], seconds=120)


def test_every_metric_is_documented(prometheus: Prometheus) -> None:
    listed = {line.split("`")[1] for line in CATALOGUE.read_text().splitlines() if line.startswith("| `")}
    # An installation with a control plane of its own runs no webhook.
    documented = {name for name in listed if not name.startswith("fleetlog_webhook_")}
    skipped = ("process_", "python_", "fleetlog_apiserver_")

    def served() -> set[str]:
        return {
            name
            for name in prometheus.get("/api/v1/metadata")
            if not name.startswith(skipped) and not name.endswith("_created")
        }

    def unserved() -> list[str]:
        # Client libraries tell a counter's name without its suffix to some readers and with it to others.
        names = served()
        return sorted(name for name in documented if name not in names and f"{name}_total" not in names)

    until_equal("documented metrics that nobody serves", unserved, [])
    assert served() - documented == set(), "metrics that docs/metrics.md does not list"
