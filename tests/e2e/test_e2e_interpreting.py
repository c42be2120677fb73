"""Scripts are tried out before they are used: every operation prints what it results in (journey 17)."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from textwrap import dedent

import pytest

from tests.e2e.fleet import MANIFESTS
from tests.support.commands import run_command

FILES = {
    "desired.yaml": """\
        apiVersion: example.io/v1
        kind: Widget
        metadata: {name: w, namespace: default}
        spec: {replicas: 3, secret: key}
        """,
    "observed.yaml": """\
        apiVersion: example.io/v1
        kind: Widget
        metadata: {name: w, namespace: default}
        spec: {replicas: 3, secret: key, paused: true}
        status: {ready: 2}
        """,
    "items.yaml": """\
        applied: true
        clusterName: member1
        status: {ready: 2}
        ---
        applied: true
        clusterName: member3
        status: {ready: 1}
        """,
}
WIDGET = """\
        apiVersion: example.io/v1
        kind: Widget
        metadata:
          name: w
          namespace: default
        spec:
        """
DESIRED, OBSERVED, STATUS = ("--desired-file", "--observed-file", "--status-file")
# Operation, its inputs, the name of each result, and what is printed of it.
OPERATIONS = [
    (
        "interpretreplica",
        {OBSERVED: "observed.yaml"},
        [("replica", "3\n"), ("requires", "resourceRequest:\n  cpu: 500m\n")],
    ),
    (
        "ReviseReplica",
        {OBSERVED: "observed.yaml", "--desired-replica": "5"},
        [("revised", dedent(WIDGET) + "  paused: true\n  replicas: 5\n  secret: key\nstatus:\n  ready: 2\n")],
    ),
    (
        "Retain",
        {DESIRED: "desired.yaml", OBSERVED: "observed.yaml"},
        [("retained", dedent(WIDGET) + "  paused: true\n  replicas: 3\n  secret: key\n")],
    ),
    ("InterpretStatus", {OBSERVED: "observed.yaml"}, [("status", "ready: 2\n")]),
    (
        "AggregateStatus",
        {DESIRED: "desired.yaml", STATUS: "items.yaml"},
        [("aggregatedStatus", dedent(WIDGET) + "  replicas: 3\n  secret: key\nstatus:\n  ready: 3\n")],
    ),
    ("InterpretHealth", {OBSERVED: "observed.yaml"}, [("healthy", "false\n")]),
    (
        "InterpretDependency",
        {DESIRED: "desired.yaml"},
        [("dependencies", "- apiVersion: v1\n  kind: Secret\n  name: key\n  namespace: default\n")],
    ),
]


@pytest.fixture
def scripts(tmp_path: Path) -> Path:
    """A customization, with objects beside it."""
    for name, text in FILES.items():
        (tmp_path / name).write_text(dedent(text))
    return Path(shutil.copy(MANIFESTS / "widgets.yaml", tmp_path))


def interpret(scripts: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return run_command("karmadactl", "interpret", "-f", str(scripts), *words, **variables)


def test_every_operation_prints_what_it_results_in(scripts: Path) -> None:
    for operation, inputs, results in OPERATIONS:
        given = [
            str(scripts.parent / value) if value.endswith("yaml") else value
            for item in inputs.items()
            for value in item
        ]
        done = interpret(scripts, "--operation", operation, *given)
        count = len(results)
        shown = [f"---\n# [{number}/{count}] {name}:\n{text}" for number, (name, text) in enumerate(results, 1)]
        assert (done.returncode, done.stdout) == (0, "".join(shown)), (operation, done.stderr)
    unset = interpret(
        scripts, "--operation", "InterpretComponent", "--observed-file", str(scripts.parent / "desired.yaml")
    )
    assert (unset.returncode, unset.stdout) == (1, "")
    assert "no customization defines InterpretComponent for example.io/v1 Widget" in unset.stderr
