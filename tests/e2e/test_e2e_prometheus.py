"""A real Prometheus scrapes an installation with the configuration it wrote, and every panel has something to show."""

from __future__ import annotations

import json
import math
import re
import shutil
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
import yaml

from k8s.dashboards import generate
from k8s.slo import MONTH, WINDOWS
from services.cli.installation.prometheus_config import config_file
from services.cli.installation.up import services_of
from tests.e2e.fleet import EXAMPLES, Failed, Fleet, until, until_equal
from tests.e2e.installations import installation
from tests.support.ending import ends_with_us
from tests.support.ports import Reserved
from tests.support.waiting import end_of

ROOT = Path(__file__).parents[2]
CATALOGUE = ROOT / "docs" / "metrics.md"
RULES = [ROOT / "k8s/monitoring" / name for name in ("alerts.yml", "rules.yml", "slo.yml")]


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
    """A server that scrapes the installation often, gives each process as long to answer, and evaluates all rules."""
    program = shutil.which("prometheus")
    if program is None:
        pytest.skip("prometheus is not installed (Debian: apt-get install prometheus)")
    directory = fleet.layout.directory / "prometheus"
    directory.mkdir()
    config = yaml.safe_load(config_file(fleet.layout).read_text())
    config["global"] = {"scrape_interval": "3s", "evaluation_interval": "5s"}
    config["rule_files"] = [str(path) for path in RULES]
    (directory / "prometheus.yml").write_text(yaml.safe_dump(config))
    reserved = Reserved()
    port = reserved.number
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
    ends_with_us(process)
    try:
        server = Prometheus(f"http://127.0.0.1:{port}")
        until(
            "an answer of Prometheus",
            lambda: server.get("/api/v1/status/buildinfo"),
            end=end_of(process, directory / "log"),
        )
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


@pytest.fixture(scope="module")
def stir(fleet: Fleet, prometheus: Prometheus) -> Callable[[], None]:
    """Has something happen: rates and quantiles need changes while they are scraped."""
    control = fleet.kubectl()
    control.apply(EXAMPLES / "nginx-demo.yaml")
    control.apply(EXAMPLES / "nginx-propagation.yaml")
    for manifest in AUTOSCALERS:
        control.apply(manifest)
    replicas = cycle(range(2, 7))

    def scale() -> None:
        control.run("scale", "deployment/nginx", f"--replicas={next(replicas)}")

    return scale


def test_every_panel_has_something_to_show(prometheus: Prometheus, stir: Callable[[], None]) -> None:
    panels = {
        f"{uid}: {panel.title}: {query.legend}": generate.filled(query.expr, "1m")
        for uid, board in generate.DASHBOARDS.items()
        for panel in board.panels
        for query in panel.queries
    }

    def empty() -> list[str]:
        stir()
        return [title for title, query in panels.items() if not prometheus.values(query)]

    until_equal("panels without data", empty, [], seconds=120)


def test_every_rule_is_evaluated(prometheus: Prometheus, stir: Callable[[], None]) -> None:
    def rules() -> list[dict[str, Any]]:
        return [rule for group in prometheus.get("/api/v1/rules")["groups"] for rule in group["rules"]]

    written = [
        rule for path in RULES for group in yaml.safe_load(path.read_text())["groups"] for rule in group["rules"]
    ]
    until_equal("rules that fail", lambda: [rule["name"] for rule in rules() if rule["health"] != "ok"], [])
    assert sorted(rule["name"] for rule in rules()) == sorted(rule.get("record") or rule["alert"] for rule in written)

    recorded = {rule["record"] for rule in written if "record" in rule}
    assert {f"slo:sli_error:ratio_rate{window}" for window in (*WINDOWS, MONTH)} <= recorded

    def silent() -> list[str]:
        """Recorded series without a value, those of each objective for themselves."""
        stir()
        names = [(rule["record"], rule.get("labels", {}).get("sloth_slo", "")) for rule in written if "record" in rule]
        wanted = [f'{name}{{sloth_slo="{objective}"}}' for name, objective in names]
        return [series for series in wanted if not prometheus.values(series)]

    until_equal("rules that record nothing", silent, [], seconds=120)


def test_rules_ask_for_series_that_are_offered(prometheus: Prometheus, stir: Callable[[], None]) -> None:
    # Every label that a rule names is one of its metric; values that stand for failures need not have been seen.
    asked: set[str] = set()
    listed = set(re.findall(r"^\| `(\w+)`", CATALOGUE.read_text(), re.MULTILINE))
    for path in RULES:
        for group in yaml.safe_load(path.read_text())["groups"]:
            for rule in group["rules"]:
                found = re.findall(r"\b([a-z_]\w+)(?=\{|\[)", rule["expr"])
                for name in found:
                    base = re.sub(r"_(bucket|count|sum)$", "", name)
                    known = {name, base} & listed or name.startswith(("fleetlog_apiserver_", "slo:", "ratio_rate"))
                    assert known, f"{rule.get('alert') or rule['record']} asks for {name}"
                for matchers in re.findall(r"\{([^}]*)\}", rule["expr"]):
                    asked.update(re.findall(r"(\w+)[!=]", matchers))

    def strange() -> list[str]:
        stir()
        return sorted(asked.difference(prometheus.get("/api/v1/labels")))

    until_equal("labels of no series", strange, [], seconds=120)


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
