"""The command lines themselves: help, usage errors, and that asking for help loads nothing heavy."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from services.cli.common.running import Failed
from services.cli.installation.demo import EXAMPLES, FILES
from services.cli.objects.apply_manifests import read_manifests
from tests.support.commands import run_command

HEAVY = frozenset(
    (
        *("nats", "aiohttp", "kubernetes_asyncio", "yaml", "cryptography", "prometheus_client", "structlog", "lupa"),
        *("msgspec", "pydantic", "rich", "asyncio", "ssl", "uvloop", "schemas", "services._kit.kube.client"),
    )
)
"""What asking for help must not load."""
OF_SERVICES = frozenset(("aiohttp.web", "prometheus_client", "structlog", "rich", "pydantic", "lupa", "uvloop"))
"""What commands must not load that ask the control plane or the log."""
HELPS = [
    *(("fleetlog", words) for words in ((), ("up",), ("history",), ("log",), ("log", "verify"), ("secrets", "rotate"))),
    *(("karmadactl", words) for words in ((), ("get",), ("join",), ("interpret",), ("taint",))),
]


def run(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=60, check=False
    )


def alone(module: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A start that has imported nothing before."""
    return run(f"from services.cli.{module} import main; main()", *arguments)


@pytest.mark.parametrize("module", ["fleetlog", "karmadactl"])
def test_import_of_commands_loads_nothing_heavy(module: str) -> None:
    loaded = run(f"import sys, services.cli.{module}; print(*sys.modules)").stdout.split()
    assert f"services.cli.{module}" in loaded
    assert HEAVY.isdisjoint(loaded)


@pytest.mark.parametrize(("module", "words"), HELPS, ids=lambda part: part if isinstance(part, str) else " ".join(part))
def test_help_loads_nothing_heavy(module: str, words: tuple[str, ...]) -> None:
    code = f"""
import sys
from services.cli.{module} import main
try:
    main()
finally:
    print(*sys.modules, file=sys.stderr)
"""
    shown = run(code, *words, "--help")
    assert "Usage:" in shown.stdout
    assert HEAVY.isdisjoint(shown.stderr.split())


@pytest.mark.parametrize(
    "module",
    ["objects.get", "queries.object_history", "queries.explain", "queries.event_list", "overview.status_command"],
)
def test_queries_load_nothing_of_services(module: str) -> None:
    loaded = run(f"import sys, services.cli.{module}; print(*sys.modules)").stdout.split()
    assert f"services.cli.{module}" in loaded
    assert OF_SERVICES.isdisjoint(loaded)


@pytest.mark.parametrize(
    ("module", "words"),
    [
        ("fleetlog", ("up", "demo", "events", "history", "topology", "crds")),
        ("karmadactl", ("get", "join", "unjoin", "taint", "cordon", "uncordon", "version")),
    ],
)
def test_help_names_every_command_and_each_one_teaches(module: str, words: tuple[str, ...]) -> None:
    shown = run_command(module, "--help")
    assert shown.returncode == 0
    for word in words:
        assert f"  {word} " in shown.stdout
    assert "Example" in run_command(module, words[0], "--help").stdout


@pytest.mark.parametrize(
    "arguments", [("get",), ("join", "m1"), ("nope",), ("get", "pods", "--nope"), ("cordon", "a", "b")]
)
def test_usage_errors_end_with_2_on_stderr(arguments: tuple[str, ...]) -> None:
    ended = run_command("karmadactl", *arguments)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "Usage:" in ended.stderr


def test_other_errors_exit_with_1_and_a_remedy(tmp_path: Path) -> None:
    for start, module, arguments in (
        (alone, "karmadactl", ("get", "pods", "--kubeconfig", str(tmp_path / "none"))),
        (run_command, "karmadactl", ("--kubeconfig", str(tmp_path / "none"), "get", "pods")),
        (alone, "fleetlog", ("events", "--dir", str(tmp_path / "none"))),
        (run_command, "fleetlog", ("history", "deploy", "--dir", str(tmp_path / "none"))),
    ):
        ended = start(module, *arguments)
        assert (ended.returncode, ended.stdout) == (1, "")
        assert ended.stderr.startswith("error: ")


def test_topology_shows_streams_and_their_subjects() -> None:
    shown = run_command("fleetlog", "topology")
    assert shown.returncode == 0
    lines = [line.split() for line in shown.stdout.splitlines()]
    assert ["placement.<shard>.<key>", "FACTS", "scheduler"] in [line[:3] for line in lines]
    assert any(line[:1] == ["OBSERVED"] for line in lines)


def test_the_examples_are_whole() -> None:
    manifests = [manifest for name in FILES for manifest in read_manifests(EXAMPLES / name)]
    assert [manifest["kind"] for manifest in manifests] == ["Deployment", "PropagationPolicy"]
    assert manifests[0]["spec"]["replicas"] == 2


def test_files_without_objects_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    for text in (
        "a: [",
        "- 1",
        "kind: Pod",
        "kind: Pod\nmetadata: {}",
        "kind: Pod\nmetadata:",
        "{kind: Pod, metadata: {name: a}}",
    ):
        path.write_text(text)
        with pytest.raises(Failed, match=str(path)):
            read_manifests(path)
    path.write_text("---\n---\n{apiVersion: v1, kind: Pod, metadata: {name: a}}")
    assert len(read_manifests(path)) == 1
