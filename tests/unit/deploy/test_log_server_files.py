"""The log's servers: accepted configurations, accounts and ports, and bounds that fit into what they are given."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from k8s.manifests import secrets
from schemas.topology import SERVICES, STREAMS, WITHOUT_LOG
from services._kit.base.settings import load
from services._kit.log.connection import Connection
from services._rules.kubernetes.quantity import parse
from services._rules.kubernetes.rbac.service_roles import dns
from services.cli.common.running import Failed
from services.cli.installation import certificate_files as certificates
from services.cli.nats.server_identities import connect_agent
from tests.natsserver import ProcessServer, find_binary
from tests.support.compositions import COMPOSE, ROOT, filled, settings_of


def test_the_servers_of_the_log_accept_their_configuration(made: Path, tmp_path: Path) -> None:
    binary = find_binary()
    if binary is None:
        pytest.skip("no nats-server here")
    config = next(
        document
        for document in yaml.safe_load_all((ROOT / "k8s/base/nats.yaml").read_text())
        if document["kind"] == "ConfigMap"
    )["data"]["nats.conf"]
    environment = {**os.environ, "POD_NAME": "nats-0", **COMPOSE["nats-1"]["environment"]}
    for name, part in (("ca.crt", "ca.crt"), ("tls.crt", "tls/nats.crt"), ("tls.key", "tls/nats.key")):
        shutil.copy(made / part, tmp_path / name)
    shutil.copytree(made / "nats", tmp_path / "accounts")
    shutil.copy(made / "nats/accounts.conf", tmp_path)
    for text in (config, (ROOT / "k8s/nats.compose.conf").read_text()):
        path = tmp_path / "nats.conf"
        path.write_text(text.replace('"/tls/', f'"{tmp_path}/').replace('"/data"', f'"{tmp_path}/data"'))
        done = subprocess.run(
            [binary, "-t", "-c", str(path)], env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr


def test_each_service_has_an_identity_of_its_own_on_the_log(made: Path) -> None:
    accounts = (made / "nats/accounts.conf").read_text()
    passwords = {path.name: path.read_text() for path in (made / "passwords").iterdir()}
    assert set(passwords) == {service for service in SERVICES if service not in WITHOUT_LOG}
    assert len(set(passwords.values())) == len(passwords)
    for service, password in passwords.items():
        assert f'user: "{service}", password: "{password}", permissions' in accounts
        settings = load(settings_of(service), COMPOSE[dns(service)]["environment"])
        assert (settings.nats_user, settings.nats_inbox_prefix) == (service, f"_INBOX_{service}")
        mounted = dict(reversed(volume.split(":")[:2]) for volume in COMPOSE[dns(service)]["volumes"])
        assert mounted[settings.nats_password_file] == f"./deploy/passwords/{service}"
        assert secrets(service)["log"] == f"fleetlog-log-{dns(service)}"
        assert not any("hub.password" in source for source in mounted.values())


def test_servers_of_the_log_read_accounts_from_a_secret() -> None:
    by_kind = {one["kind"]: one for one in yaml.safe_load_all((ROOT / "k8s/base/nats.yaml").read_text())}
    pod = by_kind["StatefulSet"]["spec"]["template"]["spec"]
    (config,) = (volume for volume in pod["volumes"] if volume["name"] == "config")
    assert {"secret": {"name": "fleetlog-nats-accounts"}} in config["projected"]["sources"]
    assert 'include "accounts.conf"' in by_kind["ConfigMap"]["data"]["nats.conf"]
    assert "password:" not in by_kind["ConfigMap"]["data"]["nats.conf"]


def test_monitoring_port_of_the_log_server_is_local() -> None:
    documents = list(yaml.safe_load_all((ROOT / "k8s/base/nats.yaml").read_text()))
    by_kind = {document["kind"]: document for document in documents}
    config = by_kind["ConfigMap"]["data"]["nats.conf"]
    assert re.findall(r"^ *https?(?:_port)?: *(.*)$", config, re.MULTILINE) == ['"127.0.0.1:8222"']
    for name in ("compose", "local"):
        text = (ROOT / f"k8s/nats.{name}.conf").read_text()
        assert "monitor" not in text
        assert not re.search(r"^ *https?(?:_port)?:", text, re.MULTILINE)
    server, reloader = by_kind["StatefulSet"]["spec"]["template"]["spec"]["containers"]
    assert "ports" not in reloader
    assert {port["containerPort"] for port in server["ports"]} == {4222, 6222}
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        command = server[probe]["exec"]["command"]
        assert command[0] == "wget"
        assert command[-1].startswith("http://127.0.0.1:8222/healthz")
    rules = by_kind["NetworkPolicy"]["spec"]["ingress"]
    opened = {port["port"]: rule["from"] for rule in rules for port in rule["ports"]}
    assert set(opened) == {4222, 6222}
    assert all(peers and all("podSelector" in peer for peer in peers) for peers in opened.values())
    for name in ("nats-1", "nats-2", "nats-3"):
        assert {filled(port) for port in COMPOSE[name].get("ports", ())} <= {"127.0.0.1:4222:4222"}


def test_bounds_of_the_streams_fit_into_the_volume() -> None:
    documents = list(yaml.safe_load_all((ROOT / "k8s/base/nats.yaml").read_text()))
    by_kind = {document["kind"]: document for document in documents}
    (claim,) = by_kind["StatefulSet"]["spec"]["volumeClaimTemplates"]
    volume = parse(claim["spec"]["resources"]["requests"]["storage"]).value()
    found = re.search(r"max_file_store: (\d+)GB", by_kind["ConfigMap"]["data"]["nats.conf"])
    assert found is not None
    store = int(found[1]) << 30
    assert sum(stream.max_bytes for stream in STREAMS) <= store < 0.9 * volume
    assert "max_file_store: 20GB" in (ROOT / "k8s/nats.compose.conf").read_text()


def test_memory_limit_of_the_log_server_is_below_its_container() -> None:
    documents = yaml.safe_load_all((ROOT / "k8s/base/nats.yaml").read_text())
    (pods,) = (document["spec"]["template"]["spec"] for document in documents if document["kind"] == "StatefulSet")
    server = pods["containers"][0]
    told = next(variable["value"] for variable in server["env"] if variable["name"] == "GOMEMLIMIT")
    mebibytes, allowed = int(told.removesuffix("MiB")), int(server["resources"]["limits"]["memory"].removesuffix("Gi"))
    assert 0.7 < mebibytes / (allowed * 1024) < 0.9


async def test_server_admits_agents_with_a_key_only(tmp_path: Path) -> None:
    binary = find_binary()
    if binary is None:
        pytest.skip("no nats-server here")
    directory = tmp_path / "deploy"
    certificates.make(directory)
    certificates.admit(directory, ["one", "two"])
    seeds = {name: (directory / "agents" / name / "nkey.seed").read_text() for name in ("one", "two")}
    certificates.admit(directory, ["two", "three"])
    assert (directory / "agents/two/nkey.seed").read_text() == seeds["two"], "a key stays"
    certificates.shut_out(directory, ["one"])
    with pytest.raises(Failed, match="no agent of 'one'"):
        certificates.shut_out(directory, ["one"])
    certificates.admit(directory, [])
    server = ProcessServer(binary, tmp_path)
    with (tmp_path / "nats.conf").open("a") as config:
        config.write('\ninclude "deploy/nats/accounts.conf"\n')
    server.start()
    try:
        password = (directory / "hub.password").read_text()
        await (await Connection.open(server.url, user="hub", password=password)).close()
        answer = await connect_agent(server.url, seeds["two"])
        assert isinstance(answer, Connection), answer
        await answer.close()
        answer = await connect_agent(server.url, seeds["one"])
        assert isinstance(answer, str)
        assert "authorization" in answer.lower()
    finally:
        server.stop()
    with pytest.raises(Failed, match="no name of a cluster"):
        certificates.admit(directory, ["../elsewhere"])
    with pytest.raises(Failed, match="make them first"):
        certificates.admit(tmp_path / "nowhere", ["one"])
