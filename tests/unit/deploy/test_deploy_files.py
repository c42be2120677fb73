"""compose.yaml and the manifests: generated, complete for every service, with settings and files that exist."""

from __future__ import annotations

import importlib
from pathlib import Path

import msgspec
import pytest
import yaml

from k8s import generate
from k8s.compose import MEMBERS, PULL
from k8s.manifests import control_plane, manifests, secrets
from k8s.shared import HTTP, RUN, apiserver_flags, etcd_flags
from schemas.topology import OPTIONAL, SERVICES, WITHOUT_LOG
from services._kit.base.settings import Settings, load, tls_context
from services._kit.content.master_keys import load_master_keys
from services._rules.kubernetes.rbac.service_roles import RULES, dns
from services.agent.settings import AgentSettings
from services.cli.common.running import Failed
from services.cli.containers.prepared_files import prepare
from services.cli.installation import certificate_files as certificates
from services.cli.installation.certificate_files import AGENTS, WITH_CONTROL
from services.cli.secrets.secret_keys import APISERVER, READERS, create
from services.member_sim.settings import from_environment as member_settings
from tests.support.compositions import COMPOSE, LOCAL, ROOT, filled, settings_of

COMMON = {"embedded", "agent", "join", "fleetlog", "grafana", "opensearch", "prometheus", *MEMBERS}
INFRASTRUCTURE = {"nats-1", "nats-2", "nats-3", "etcd", "kube-apiserver"} | COMMON
OURS = {name: entry for part in (COMPOSE, LOCAL) for name, entry in part.items() if "fleetlog" in entry["image"]}


def test_committed_files_match_the_generator() -> None:
    for path, text in generate.documents().items():
        assert (ROOT / path).read_text() == text, f"{path}: run python -m k8s.generate"


@pytest.mark.parametrize("service", SERVICES)
def test_a_service_has_all_that_belongs_to_it_in_kubernetes(service: str) -> None:
    found = {manifest["kind"]: manifest for manifest in manifests(service)}
    assert {"Deployment", "ServiceAccount", "NetworkPolicy", "PodDisruptionBudget"} <= set(found)
    pod = found["Deployment"]["spec"]["template"]
    container = pod["spec"]["containers"][0]
    assert container["args"] == [f"services.{service}"]
    assert {"livenessProbe", "readinessProbe", "startupProbe", "resources"} <= set(container)
    assert pod["spec"]["serviceAccountName"] == found["ServiceAccount"]["metadata"]["name"]
    assert pod["spec"]["automountServiceAccountToken"] is False
    assert pod["spec"]["securityContext"]["runAsNonRoot"] is True
    for kind, path in (("NetworkPolicy", "podSelector"), ("PodDisruptionBudget", "selector")):
        assert found[kind]["spec"][path]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    assert f"{dns(service)}.yaml" in yaml.safe_load((ROOT / "k8s/base/kustomization.yaml").read_text())["resources"]


def test_compose_has_every_service_and_known_settings() -> None:
    assert set(COMPOSE) == INFRASTRUCTURE | {dns(service) for service in SERVICES}
    assert set(LOCAL) == COMMON | {"setup", "nats"} | {dns(service) for service in set(SERVICES) - WITHOUT_LOG}
    for part in (COMPOSE, LOCAL):
        for name, entry in part.items():
            assert set(entry.get("depends_on", {})) <= set(part), name
            assert "image" in entry, name


def test_every_container_of_ours_writes_to_volumes_and_tmp_only() -> None:
    assert len(OURS) > len(SERVICES)
    for part in (COMPOSE, LOCAL):
        for name, entry in part.items():
            if "fleetlog" in entry["image"] or "nats" in entry["image"]:
                assert entry["read_only"] is True, name
                assert any(place.startswith("/tmp") for place in entry["tmpfs"]), name
                assert entry["cap_drop"] == ["ALL"], name
                assert entry["user"] not in ("", "0", "root"), name


def test_two_of_each_service_run_where_the_log_has_three_servers() -> None:
    for service in SERVICES:
        assert COMPOSE[dns(service)]["scale"] == 2
        assert "ports" not in COMPOSE[dns(service)], "two instances cannot have one port of this machine"
    told = COMPOSE["detector"]["environment"], LOCAL["detector"]["environment"]
    assert [each["FLEETLOG_TOPOLOGY_REPLICAS"] for each in told] == ["3", "1"]
    assert COMPOSE["embedded"]["environment"]["FLEETLOG_APISERVER_REPLICAS"] == "3"


def test_files_of_the_local_composition_are_made_by_its_setup(tmp_path: Path) -> None:
    assert prepare(tmp_path / "shared", [PULL], 7443) == 0
    made_later = {f"{RUN}/{AGENTS}/{PULL}/kubeconfig"} | {f"{RUN}/members/{name}.kubeconfig" for name in MEMBERS}
    for name, entry in LOCAL.items():
        values = {value for value in entry.get("environment", {}).values() if value.startswith(RUN)}
        for value in values - made_later:
            assert (tmp_path / "shared" / value.removeprefix(f"{RUN}/")).exists(), f"{name}: {value}"
    kubeconfig = tmp_path / "shared" / "control.kubeconfig"
    assert "https://127.0.0.1:7443" in kubeconfig.read_text()
    before = (tmp_path / "shared" / "hub.password").read_text()
    assert prepare(tmp_path / "shared", [PULL], 6443) == 0
    assert (tmp_path / "shared" / "hub.password").read_text() == before
    assert "https://127.0.0.1:6443" in kubeconfig.read_text()


def test_mounted_code_runs_everywhere_in_development() -> None:
    mounted = yaml.safe_load((ROOT / "compose.dev.yaml").read_text())["services"]
    assert set(mounted) == {name for name, entry in LOCAL.items() if "fleetlog" in entry["image"]}
    for entry in mounted.values():
        sources = {volume.split(":")[0] for volume in entry["volumes"]}
        assert all((ROOT / source).is_dir() for source in sources)


def test_simulated_members_understand_their_settings() -> None:
    for part in (COMPOSE, LOCAL):
        for name in MEMBERS:
            settings = member_settings({key: str(value) for key, value in part[name]["environment"].items()})
            assert (settings.name, settings.public_host) == (name, name)


@pytest.mark.parametrize("service", SERVICES)
def test_a_service_understands_the_settings_it_is_given(service: str) -> None:
    importlib.import_module(f"services.{service}.__main__")
    container = next(m for m in manifests(service) if m["kind"] == "Deployment")["spec"]["template"]["spec"]
    in_pod = {entry["name"]: entry.get("value", "pod-0") for entry in container["containers"][0]["env"]}
    local = LOCAL[dns(service)]["environment"] if service not in WITHOUT_LOG else in_pod
    for environment in (in_pod, COMPOSE[dns(service)]["environment"], local):
        settings = load(settings_of(service), environment)
        assert settings.http_port == HTTP
        assert settings.nats_url.startswith("tls://") or service in WITHOUT_LOG


@pytest.mark.parametrize("service", SERVICES)
def test_files_of_a_service_are_mounted_at_their_settings(service: str) -> None:
    entry = COMPOSE[dns(service)]
    mounted = {volume.split(":")[1] for volume in entry["volumes"]}
    wanted = {value for value in entry["environment"].values() if value.startswith(RUN)}
    assert wanted == mounted
    assert {path.split("/")[3] for path in wanted} == set(secrets(service))


@pytest.mark.parametrize("service", SERVICES)
def test_an_optional_service_does_not_run_until_it_is_asked_for(service: str) -> None:
    (deployment,) = (manifest for manifest in manifests(service) if manifest["kind"] == "Deployment")
    assert (deployment["spec"]["replicas"] == 0) is (service in OPTIONAL)
    profiles = [dns(service)] if service in OPTIONAL else ["stock"] if service in WITHOUT_LOG else []
    assert COMPOSE[dns(service)].get("profiles", []) == profiles


def test_every_file_that_compose_mounts_is_made_or_kept(made: Path) -> None:
    sources = {filled(volume).split(":")[0] for entry in COMPOSE.values() for volume in entry.get("volumes", ())}
    sources |= {f"./{name}" for entry in COMPOSE.values() for name in entry.get("env_file", ())}
    for source in sources:
        inside = source.removeprefix("./deploy/")
        if source == "./deploy":
            assert made.is_dir()
        elif inside == source:
            assert (ROOT / source).exists(), source
        elif not inside.startswith("data/"):
            assert (made / inside).exists(), source


def test_only_users_of_the_control_plane_get_rights() -> None:
    fields = {service: {field.name for field in msgspec.structs.fields(settings_of(service))} for service in SERVICES}
    assert {service for service in SERVICES if "control_kubeconfig" in fields[service]} == set(WITH_CONTROL)
    assert set(RULES) == set(WITH_CONTROL)
    everywhere = {one["roleRef"]["name"] for one in control_plane() if one["kind"] == "ClusterRoleBinding"}
    for manifest in control_plane():
        for rule in manifest.get("rules", ()):
            assert "*" not in rule["verbs"]
            assert "impersonate" not in rule["verbs"]
            if "secrets" in rule.get("resources", ()):
                # Of one namespace: the names that it holds are those that Clusters tell.
                assert manifest["kind"] == "Role" or manifest["metadata"]["name"] not in everywhere
                assert rule["verbs"] in (["get"], ["get", "list", "watch"])


def test_key_of_secrets_is_mounted_by_its_readers_only(made: Path, tmp_path: Path) -> None:
    variable = "FLEETLOG_SECRETS_KEY_FILE"
    readers = {
        service
        for service in SERVICES
        if "secrets_key_file" in {field.name for field in msgspec.structs.fields(settings_of(service))}
    }
    assert readers | {APISERVER} == READERS
    mounting = {
        name for name, entry in COMPOSE.items() if any("secrets" in volume for volume in entry.get("volumes", ()))
    }
    assert mounting == {dns(service) for service in readers} | {"embedded", "fleetlog"}
    for name, entry in COMPOSE.items():
        told = entry.get("environment", {}).get(variable)
        targets = {volume.split(":")[1] for volume in entry.get("volumes", ()) if "secrets-keys" in volume}
        if name == "fleetlog":
            # Commands are told with --key-file.
            continue
        assert targets == ({told} if name in mounting else set()), name
    for service in SERVICES:
        pod = next(m for m in manifests(service) if m["kind"] == "Deployment")["spec"]["template"]["spec"]
        environment = {entry["name"]: entry.get("value", "") for entry in pod["containers"][0]["env"]}
        named = {volume["secret"]["secretName"] for volume in pod["volumes"] if "secret" in volume}
        assert (variable in environment) is (service in readers), service
        assert ("fleetlog-secrets-keys" in named) is (service in readers), service
    # What the command makes has the form of what is mounted, and the name that settings look for.
    create(tmp_path / "secrets-keys.json")
    for path in (made / "secrets-keys.json", tmp_path / "secrets-keys.json"):
        assert load_master_keys(path).names
        assert COMPOSE["detector"]["environment"][variable].endswith(f"/{path.name}")


def test_flags_name_files_that_are_mounted(made: Path) -> None:
    places = {"/tls/ca/": made, "/tls/pairs/": made / "tls"}
    for flag in apiserver_flags("https://etcd:2379"):
        path = flag.partition("=")[2]
        for prefix, directory in places.items():
            if path.startswith(prefix):
                assert (directory / path.removeprefix(prefix)).exists(), flag
    mounted = {volume.split(":")[1] for volume in COMPOSE["etcd"]["volumes"]}
    assert {flag.partition("=")[2] for flag in etcd_flags("etcd") if "/tls/" in flag} <= mounted


def test_certificates_are_not_made_over(made: Path) -> None:
    with pytest.raises(Failed, match="holds certificates already"):
        certificates.make(made)


def test_agent_of_a_pull_member_finds_its_files(made: Path) -> None:
    entry = COMPOSE["agent"]
    settings = load(AgentSettings, {name: filled(value) for name, value in entry["environment"].items()})
    assert settings.agent_cluster == PULL
    mounted = {
        volume.split(":")[1]: source for volume in map(filled, entry["volumes"]) for source in [volume.split(":")[0]]
    }
    own = made / mounted[f"{RUN}/agent"].removeprefix("./deploy/")
    assert (own / Path(settings.nats_nkey_file).name).read_text().startswith("SU")
    assert Path(settings.agent_kubeconfig).parent == Path(f"{RUN}/agent")
    assert settings.agent_data_dir in mounted
    manifest = msgspec.json.decode((own / "cluster.json").read_bytes())
    assert (manifest["metadata"]["name"], manifest["spec"]) == (PULL, {"syncMode": "Pull"})
    assert not any("secrets" in volume for volume in entry["volumes"])


def test_a_service_trusts_the_authority_that_was_made(made: Path) -> None:
    context = tls_context(Settings(tls_ca=str(made / "ca.crt")))
    assert context is not None
    assert [entry["subject"] for entry in context.get_ca_certs()] != []
