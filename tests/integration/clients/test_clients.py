"""Clients that people use with Kubernetes do with the API server what they do with any other."""

from __future__ import annotations

import shutil

import pytest

from tests.integration.clients.conftest import Run

KUBECTLS = sorted({path for path in (shutil.which("kubectl"), "/usr/bin/kubectl") if path and shutil.which(path)})

CLIENTS = (
    "official",
    "asyncio_client",
    "lightkube_client",
    *(pytest.param(name, marks=pytest.mark.long) for name in ("kr8s_client", "kopf_operator")),
)
MANIFEST = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: "nginx:1.27"}]}
"""


@pytest.mark.parametrize("name", CLIENTS)
async def test_client_works_as_with_any_cluster(program: Run, name: str) -> None:
    assert (await program(name)).strip().endswith("done")


@pytest.mark.parametrize("kubectl", KUBECTLS)
async def test_kubectl_works_as_with_any_cluster(run: Run, kubectl: str, tmp_path: object) -> None:
    file = f"{tmp_path}/web.yaml"
    with open(file, "w", encoding="utf-8") as out:  # noqa: ASYNC230 - a small file
        out.write(MANIFEST)
    assert "deployment.apps/web created" in await run(kubectl, "apply", "-f", file)
    assert "deployment.apps/web unchanged" in await run(kubectl, "apply", "-f", file)
    assert "image updated" in await run(kubectl, "set", "image", "deploy/web", "web=nginx:1.28")
    assert "scaled" in await run(kubectl, "scale", "deploy/web", "--replicas=3")
    await run(kubectl, "diff", "-f", file, expected=1)
    assert "nginx:1.28" in await run(kubectl, "get", "deploy", "web", "-o", "yaml")
    assert "<integer>" in await run(kubectl, "explain", "deploy.spec.replicas")
    assert "deployments" in await run(kubectl, "api-resources")
    assert "yes" in await run(kubectl, "auth", "can-i", "create", "deployments")
    assert "no" in await run(kubectl, "auth", "can-i", "list", "secrets", "--as=jane", expected=1)
    assert "*.*" in await run(kubectl, "auth", "can-i", "--list")
    assert await run(kubectl, "get", "deploy", "web", "-o", "jsonpath={.spec.replicas}") == "3"
    assert 'deployment.apps "web" deleted' in await run(kubectl, "delete", "-f", file)
