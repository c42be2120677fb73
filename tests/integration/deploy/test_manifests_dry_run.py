"""An API server accepts what kustomize and the charts render."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from services.apiserver.kinds.kind_catalog import builtin_registry
from services.apiserver.server import ApiServer
from services.apiserver.settings import Settings
from services.apiserver.store.memory_store import MemoryStore
from services.cli.installation.certificate_files import NAMESPACE
from tests.e2e.kubectls import current_kubectl
from tests.support import helm

K8S = Path(__file__).parents[3] / "k8s"


@pytest.fixture
async def kubeconfig(tmp_path: Path) -> AsyncIterator[Path]:
    """The administrator's kubeconfig of a fresh API server."""
    if not current_kubectl():
        pytest.skip("kubectl is not installed and Debian's package cannot be fetched")
    path = tmp_path / "admin.kubeconfig"
    settings = Settings(data_dir=tmp_path / "data", kubeconfig=path)
    server = ApiServer(MemoryStore(), builtin_registry(), settings)
    await server.start()
    yield path
    await server.stop()


async def _kubectl(kubeconfig: Path, *arguments: str) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        current_kubectl(),
        f"--cache-dir={kubeconfig.parent / 'cache'}",
        *arguments,
        env={**os.environ, "KUBECONFIG": str(kubeconfig)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    return process.returncode or 0, out.decode() + err.decode()


@pytest.mark.parametrize("directory", ["base", "overlays/stock", "overlays/node-ports", "control-plane"])
async def test_an_api_server_accepts_what_is_rendered(kubeconfig: Path, directory: str) -> None:
    code, rendered = await _kubectl(kubeconfig, "kustomize", str(K8S / directory))
    assert code == 0, rendered
    await _accepted(kubeconfig, rendered)


@pytest.mark.parametrize("chart", ["fleetlog", "fleetlog-agent"])
async def test_an_api_server_accepts_what_a_chart_renders(kubeconfig: Path, chart: str) -> None:
    values = {"cluster": "m3", "url": "tls://nats:4222", "identity": "SEED"} if chart == "fleetlog-agent" else {}
    code, rendered, errors = helm.run(
        "template", "one", str(helm.CHARTS / chart), "--namespace", NAMESPACE, values=values
    )
    assert code == 0, errors
    await _accepted(kubeconfig, rendered)


async def _accepted(kubeconfig: Path, rendered: str) -> None:
    # A dry run stores nothing, and nothing can be created in a namespace that is not there.
    for name in (NAMESPACE, "karmada-cluster"):
        code, said = await _kubectl(kubeconfig, "create", "namespace", name)
        assert code == 0, said
    path = kubeconfig.parent / "rendered.yaml"
    path.write_text(rendered)
    code, said = await _kubectl(
        kubeconfig, "apply", "--server-side", "--dry-run=server", "--force-conflicts", "-f", str(path)
    )
    assert code == 0, said
    kinds = [line for line in rendered.splitlines() if line.startswith("kind:")]
    assert len([line for line in said.splitlines() if "(server dry run)" in line]) == len(kinds)
    assert "Warning" not in said
