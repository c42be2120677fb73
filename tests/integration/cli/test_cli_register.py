"""`karmadactl token` and `register`: a cluster becomes a pull member with a token, or is told why not."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import shlex
import signal
import ssl
import stat
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from services.cli.nats.authority import Authority
from services.cli.nats.nkeys import new_seed
from services.cli.registration.register import request_of
from tests.integration.cli.conftest import PATIENCE, Commands, eventually
from tests.integration.cli.test_cli_pull_signed import served, server  # noqa: F401  # a fixture
from tests.natsserver import ProcessServer

pytestmark = pytest.mark.xdist_group("commands")

PROGRAM = "from services.cli.fleetlog import main; main()"
TOKEN = "abcdef.0123456789abcdef"
QUICK = ("--discovery-timeout", "1s")
PATIENT = ("--discovery-timeout", "60s")


@pytest.fixture
def signer(commands: Commands, server: ProcessServer, tmp_path: Path) -> Iterator[Path]:  # noqa: F811
    """Someone with the operator's keys who answers requests; the keys' directory."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FLEETLOG_")}
    auth = tmp_path / "auth"
    arguments = ["nats", "sign", "--kubeconfig", str(commands.kubeconfig), "--out", str(auth)]
    process = subprocess.Popen([sys.executable, "-c", PROGRAM, *arguments], env=kept, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "ready\n"
        yield auth
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(PATIENCE)
        process.stdout.close()


@pytest.fixture
def token(commands: Commands) -> Iterator[list[str]]:
    """Arguments of `register` that a new token prints."""
    made = commands.karmadactl("token", "create", TOKEN, "--description", "a test", "--print-register-command")
    assert made.returncode == 0, made.stderr
    words = shlex.split(made.stdout)
    assert words[:2] == ["karmadactl", "register"]
    yield words[1:]
    commands.karmadactl("token", "delete", TOKEN)


@pytest.fixture
def member(commands: Commands, tmp_path: Path) -> Iterator[list[str]]:
    """Arguments that name a cluster that is no member: the installation's member3, after it left."""
    assert commands.karmadactl("unjoin", "member3").returncode == 0
    file = str(commands.directory / "member3.kubeconfig")
    yield ["--kubeconfig", file, "--cluster-name", "edge", "--agent-dir", str(tmp_path / "edge")]
    again = commands.karmadactl("join", "member3", "--mode", "pull", "--cluster-kubeconfig", file)
    assert again.returncode == 0, again.stderr


def call(commands: Commands, method: str, path: str, token: str = "", body: Any = None, **headers: str) -> int:
    """The status of a request to the control plane."""
    url = yaml.safe_load(commands.kubeconfig.read_text())["clusters"][0]["cluster"]["server"]
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    data = json.dumps(body).encode() if body is not None else None
    request = urllib.request.Request(f"{url}{path}", data=data, method=method, headers=headers)
    request.add_header("Content-Type", "application/json")
    if token:
        request.add_header("Authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(request, context=context, timeout=PATIENCE) as response:
            return int(response.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def test_a_cluster_registers_itself_and_its_key_stays_with_it(
    commands: Commands,
    server: ProcessServer,  # noqa: F811
    signer: Path,
    token: list[str],
    member: list[str],
    tmp_path: Path,
) -> None:
    done = commands.karmadactl(*token, *member, "--cluster-region", "eu", *PATIENT)
    assert done.returncode == 0, done.stderr
    assert "[preflight] the control plane is https://" in done.stdout
    assert "\ncluster(edge) is joined successfully\n" in done.stdout
    creds = tmp_path / "edge" / "agent.creds"
    assert f"FLEETLOG_NATS_CREDS={creds}" in done.stdout
    assert stat.S_IMODE(creds.stat().st_mode) == 0o600
    assert asyncio.run(served(server.url, signer / "hub.creds", creds, "edge"))
    found = json.loads(commands.karmadactl("get", "clusters", "edge", "-o", "json").stdout)
    assert (found["spec"]["syncMode"], found["spec"]["region"]) == ("Pull", "eu")
    seed = next(line for line in creds.read_text().splitlines() if line.startswith("SU"))
    requests = commands.karmadactl("get", "certificatesigningrequests", "-o", "json").stdout
    assert '"Approved"' in requests
    assert seed not in requests
    gone = commands.karmadactl("unregister", "edge", "--nats-auth", str(signer), "--wait", "1s", "--force")
    assert gone.returncode == 0, gone.stderr
    assert Authority(signer).book().agents == {}


def test_invalid_token_is_refused_without_changes(
    commands: Commands, token: list[str], member: list[str], tmp_path: Path
) -> None:
    endpoint, pin = token[1], token[4:]
    # Only what may come true later is waited for.
    for words, waiting, said in (
        (["register", endpoint, "--token", "nonsense", *pin], PATIENT, "is no token"),
        (["register", endpoint, "--token", "abcdef.ffffffffffffffff", *pin], PATIENT, "does not vouch"),
        (["register", endpoint, "--token", TOKEN], PATIENT, "--discovery-token-ca-cert-hash"),
        (["register", endpoint, "--token", TOKEN, pin[0], f"sha256:{'0' * 64}"], PATIENT, "none of those given"),
        (["register", endpoint, "--token", TOKEN, pin[0], "md5:00"], PATIENT, "is no hash"),
        (["register", endpoint, "--token", "zzzzzz.0123456789abcdef", *pin], QUICK, "wrong, deleted or expired"),
        (["register", "127.0.0.1:1", "--token", TOKEN, *pin], QUICK, "does not answer"),
        ([*token], QUICK, "no answer to the request"),
    ):
        done = commands.karmadactl(*words, *member, *waiting)
        assert done.returncode == 1, words
        assert said in done.stderr
        assert not (tmp_path / "edge").exists()
    assert commands.karmadactl("get", "clusters", "edge").returncode == 1
    listed = commands.karmadactl("token", "list").stdout
    assert "a test" in listed
    assert TOKEN in listed
    assert commands.karmadactl("token", "delete", "abcdef").stdout == 'bootstrap token "abcdef" deleted\n'
    done = commands.karmadactl(*token, *member, *QUICK)
    assert "wrong, deleted or expired" in done.stderr
    path = "/api/v1/namespaces/kube-public/configmaps/cluster-info"
    eventually(lambda: call(commands, "GET", path, TOKEN) == 401)


def test_expired_token_is_refused_and_removed(commands: Commands) -> None:
    made = commands.karmadactl("token", "create", "shorty.0123456789abcdef", "--ttl", "1s")
    assert made.returncode == 0, made.stderr
    path = "/api/v1/namespaces/kube-public/configmaps/cluster-info"
    eventually(lambda: call(commands, "GET", path, "shorty.0123456789abcdef") == 401)
    eventually(lambda: "shorty" not in commands.karmadactl("token", "list").stdout)


def test_bearer_of_a_token_may_only_request_an_identity(commands: Commands, token: list[str]) -> None:
    info = "/api/v1/namespaces/kube-public/configmaps/cluster-info"
    requests = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
    assert call(commands, "GET", info) == 200
    assert call(commands, "GET", info, TOKEN) == 200
    for method, path in (
        ("GET", "/api/v1/namespaces/kube-public/configmaps"),
        ("GET", "/api/v1/namespaces/kube-system/secrets"),
        ("GET", "/api/v1/namespaces/kube-system/secrets/bootstrap-token-abcdef"),
        ("GET", "/apis/cluster.karmada.io/v1alpha1/clusters"),
        ("GET", "/metrics"),
        ("GET", "/apis"),
        ("DELETE", info),
        ("PUT", info),
        ("POST", "/api/v1/namespaces/default/configmaps"),
        ("POST", "/apis/cluster.karmada.io/v1alpha1/clusters"),
        ("GET", requests),
        ("DELETE", requests),
        ("PUT", f"{requests}/x/approval"),
        ("PUT", f"{requests}/x/status"),
        ("PATCH", f"{requests}/x"),
    ):
        body = {} if method in ("POST", "PUT", "PATCH") else None
        assert call(commands, method, path, TOKEN, body) == 403, (method, path)
        assert call(commands, method, path, "", body) == 403, (method, path)
    assert call(commands, "GET", "/api/v1/namespaces", TOKEN, **{"Impersonate-User": "admin"}) == 403
    body = {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"generateName": "x-"},
        "spec": {
            "signerName": "kubernetes.io/kube-apiserver-client",
            "usages": ["client auth"],
            "request": base64.b64encode(request_of(new_seed("user"), "x")).decode(),
        },
    }
    assert call(commands, "POST", requests, TOKEN, body) == 403
