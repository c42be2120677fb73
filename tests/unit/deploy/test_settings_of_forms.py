"""Every form of installation gives a service the same settings, but for what a form cannot or need not have."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest
import yaml

from k8s.shared import ROOT
from schemas.manifest import Manifest
from schemas.topology import SERVICES
from services._rules.kubernetes.rbac.service_roles import dns
from services.apiserver.auth.certificate_authority import Authority
from services.apiserver.auth.kubeconfig_files import write
from services.cli.common.layout import Installation, Layout
from services.cli.hosting.host_manifests import host_objects
from services.cli.hosting.init_options import InitOptions
from services.cli.hosting.wanted_installation import checked, of_options
from services.cli.installation.up import Installer, services_of
from tests.support import helm

DOOR: Final = {
    *("FLEETLOG_UPSTREAM_URL", "FLEETLOG_UPSTREAM_CA", "FLEETLOG_UPSTREAM_CERT", "FLEETLOG_UPSTREAM_KEY"),
    *("FLEETLOG_SEARCH_URL", "FLEETLOG_SEARCH_CA", "FLEETLOG_SEARCH_CERT", "FLEETLOG_SEARCH_KEY"),
    "FLEETLOG_UPSTREAM_INSECURE",
}
"""Of a gateway that stands in front of a control plane which sends it nothing."""
AGGREGATED: Final = {"FLEETLOG_FRONT_PROXY_CA", "FLEETLOG_FRONT_PROXY_NAMES"}
"""Of a gateway that a control plane sends requests to, in the name of their callers."""
LOOPBACK: Final = {"FLEETLOG_HTTP_HOST", "FLEETLOG_API_HOST", "FLEETLOG_TLS_CA"}
"""Of services, and of a log, that are reached from other machines."""
TOPOLOGY: Final = {"FLEETLOG_APPLY_TOPOLOGY", "FLEETLOG_TOPOLOGY_REPLICAS"}
"""Of the service that makes the streams where no command does it before."""
OPERATOR: Final = {"FLEETLOG_NATS_CREDS"}
"""Of a service whose account at the log an operator signed."""
UP: Final = {*LOOPBACK, *TOPOLOGY}
EXCUSED: Final[dict[str, set[str]]] = {
    "up": {*UP, *DOOR},
    # Its webhook is asked until the process ends: nothing takes its address away before.
    "up with a control plane": {*UP, *AGGREGATED, "FLEETLOG_DRAIN_SECONDS"},
    # The name of a container is that of the instance; all services of this composition have one identity at the log.
    "compose": {*OPERATOR, *DOOR, "FLEETLOG_INSTANCE", "FLEETLOG_NATS_INBOX_PREFIX"},
    "compose.ha": {*OPERATOR, *DOOR, "FLEETLOG_INSTANCE"},
    "kustomize": {*OPERATOR, *DOOR},
    "chart": {*OPERATOR, *DOOR},
    "init": {*OPERATOR, *DOOR},
}
"""What services of a form lack that those of another one have, and why."""


def variables(entries: list[Manifest] | dict[str, str]) -> set[str]:
    """Names of our variables in a mapping, or in a list of a container's."""
    names = [one["name"] for one in entries] if isinstance(entries, list) else entries
    return {name for name in names if name.startswith("FLEETLOG_")}


def of_up(place: Path, *, outside: bool = False) -> dict[str, set[str]]:
    place.mkdir()
    layout = Layout(place)
    installation = Installation(members=[], ports={}, token="t", descheduler=True)
    if outside:
        authority = Authority(place / "authority")
        authority.load()
        cert, key = authority.issue("admin", (), None)
        write(layout.control_access, server="https://cp:6443", name="cp", ca=authority.ca_pem, cert=cert, key=key)
        installation.control_kubeconfig, installation.webhook = "cp.yaml", "10.0.0.5"
    made = Installer(layout, installation, known=False)
    return {name: variables(made.environment_of(name)) for name in services_of(installation)}


def of_compose(file: str) -> dict[str, set[str]]:
    services = yaml.safe_load((ROOT / file).read_text(encoding="utf-8"))["services"]
    return {name: variables(services[dns(name)]["environment"]) for name in SERVICES if dns(name) in services}


def of_objects(objects: list[Manifest]) -> dict[str, set[str]]:
    pods = {one["metadata"]["name"]: one["spec"] for one in objects if one["kind"] == "Deployment"}
    return {name: variables(pods[dns(name)]["template"]["spec"]["containers"][0]["env"]) for name in SERVICES}


@pytest.fixture(scope="module")
def forms(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, set[str]]]:
    place = tmp_path_factory.mktemp("forms")
    kustomized = yaml.safe_load_all("---\n".join((ROOT / f"k8s/base/{dns(n)}.yaml").read_text() for n in SERVICES))
    objects: list[Manifest] = list(kustomized)
    return {
        "up": of_up(place / "up"),
        "up with a control plane": of_up(place / "outside", outside=True),
        "compose": of_compose("compose.yaml"),
        "compose.ha": of_compose("compose.ha.yaml"),
        "kustomize": of_objects(objects),
        "chart": of_objects(helm.template("fleetlog", "fleetlog-system", {})),
        "init": of_objects(host_objects(checked(of_options(InitOptions())))),
    }


def test_no_form_lacks_a_setting_that_another_has(forms: dict[str, dict[str, set[str]]]) -> None:
    assert forms.keys() == EXCUSED.keys()
    used: dict[str, set[str]] = {form: set() for form in forms}
    wrong = {}
    for service in SERVICES:
        whole = {name for form in forms.values() for name in form.get(service, ())}
        for form, services in forms.items():
            lacking = whole - services[service] if service in services else set()
            used[form] |= lacking
            if missing := lacking - EXCUSED[form]:
                wrong[f"{service} of {form}"] = missing
    assert not wrong
    assert used == EXCUSED, "an excuse that nothing needs"


def test_every_form_runs_every_service(forms: dict[str, dict[str, set[str]]]) -> None:
    missing = {form: set(SERVICES) - services.keys() for form, services in forms.items()}
    # The embedded control plane does by itself what others ask a webhook for.
    assert {form: names for form, names in missing.items() if names} == {"up": {"webhook"}, "compose": {"webhook"}}
