"""The command lines themselves: help, usage errors, and that asking for help loads nothing heavy."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from services.cli.common.running import Failed
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
    ["listing.get", "queries.object_history", "queries.explain", "queries.event_list", "overview.status_command"],
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
def test_usage_errors_are_one_line_and_exit_with_1(arguments: tuple[str, ...]) -> None:
    ended = run_command("karmadactl", *arguments)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.startswith("error: ")
    assert "--help' for usage." in ended.stderr


@pytest.mark.parametrize("program", ["fleetlog", "karmadactl"])
def test_help_and_version_in_every_spelling(program: str) -> None:
    first = run_command(program)
    assert first.returncode == 0
    assert first.stdout == run_command(program, "-h").stdout == run_command(program, "--help").stdout
    assert "Commands:" in first.stdout
    version = run_command(program, "version").stdout
    assert version == run_command(program, "--version").stdout
    assert version.startswith(f"{program} version: ")
    assert json.loads(run_command(program, "version", "-o", "json").stdout)["clientVersion"]["gitVersion"] in version


@pytest.mark.parametrize(("program", "words"), [("fleetlog", ()), ("karmadactl", ()), ("fleetlog", ("log",))])
def test_summaries_are_whole_at_every_width(program: str, words: tuple[str, ...]) -> None:
    narrow = run_command(program, *words, "-h", COLUMNS="60").stdout
    wide = run_command(program, *words, "-h", COLUMNS="190").stdout
    assert "..." not in wide.replace("[ARGS]...", "")
    assert "".join(narrow.split()) == "".join(wide.split())
    assert max(map(len, narrow.splitlines())) <= 60 < max(map(len, wide.splitlines()))


@pytest.mark.parametrize("program", ["fleetlog", "karmadactl"])
def test_summaries_fit_into_one_line(program: str) -> None:
    _, _, commands = run_command(program, "-h", COLUMNS="200").stdout.partition("Commands:")
    assert max(map(len, commands.splitlines())) <= 90


def test_commands_are_grouped_as_those_of_karmada() -> None:
    shown = run_command("karmadactl", "-h").stdout
    basic, _, rest = shown.partition("Cluster Registration Commands:")
    assert "  get " in basic.partition("Basic Commands:")[2]
    assert "  join " in rest.partition("Cluster Management Commands:")[0]
    assert "  version " in shown.partition("Other Commands:")[2]


def test_examples_can_be_copied_from_a_narrow_terminal() -> None:
    shown = run_command("fleetlog", "up", "-h", COLUMNS="50").stdout
    line = "  fleetlog up --control-kubeconfig cp.yaml --member m1=m1.yaml --member m2=m2.yaml"
    assert line in shown.splitlines()


def test_unknown_commands_are_met_with_similar_ones() -> None:
    said = run_command("karmadactl", "unjoim").stderr
    assert said.startswith('error: unknown command "unjoim" for "karmadactl"')
    assert "Did you mean this?\n\tunjoin" in said


def test_the_control_plane_may_be_named_before_the_verb(tmp_path: Path) -> None:
    ended = run_command("karmadactl", "--kubeconfig", str(tmp_path / "none"), "get", "pods")
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.startswith("error: ")


@pytest.mark.parametrize(
    "words",
    [
        ("-n", "shop"),
        ("--namespace=shop",),
        ("--kubeconfig", "NONE", "-n", "shop"),
        ("-n", "shop", "--kubeconfig=NONE"),
    ],
)
def test_options_of_a_command_may_stand_before_it(words: tuple[str, ...], tmp_path: Path) -> None:
    given = [word.replace("NONE", str(tmp_path / "none")) for word in words]
    ended = run_command("karmadactl", *given, "get", "pods", KUBECONFIG=str(tmp_path / "none"))
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "none" in ended.stderr, "it looked for the kubeconfig"
    assert run_command("karmadactl", "-n", "get").stderr.startswith("error: unknown shorthand flag: -n")


def test_topology_shows_streams_and_their_subjects() -> None:
    shown = run_command("fleetlog", "topology")
    assert shown.returncode == 0
    lines = [line.split() for line in shown.stdout.splitlines()]
    assert ["placement.<shard>.<key>", "FACTS", "scheduler"] in [line[:3] for line in lines]
    assert any(line[:1] == ["OBSERVED"] for line in lines)
    assert lines[-1][-1] == "webhook"


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
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(Failed, match="is no YAML"):
        read_manifests(path)
    with pytest.raises(Failed, match="none: No such file"):
        read_manifests(tmp_path / "none")
    path.write_text("---\n---\n{apiVersion: v1, kind: Pod, metadata: {name: a}}")
    assert len(read_manifests(path)) == 1
