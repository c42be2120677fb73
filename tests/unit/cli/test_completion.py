"""What comes next on unfinished command lines, and the scripts that ask for it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from services.cli.completion.completer import FILES, NO_FILES, Asked, Item, Table, complete
from services.cli.completion.completion_scripts import SHELLS, script_for
from services.cli.fleetlog import app as fleetlog
from services.cli.karmadactl import app as karmadactl
from tests.support.commands import run_command


def _members(_: Asked) -> Sequence[Item]:
    return [Item("m1"), Item("m2")]


def _objects(asked: Asked) -> Sequence[Item]:
    return [Item(f"{asked.given.get('namespace', 'default')}-{len(asked.words)}")]


def _passed(name: str, words: Sequence[str], incomplete: str, given: Mapping[str, Any]) -> Sequence[Item]:
    return [Item(f"{incomplete}{name}:{' '.join(words)}")]


TABLE = Table({"--clusters": _members, "--namespace": _members}, {"get": _objects, "explain": _objects}, _passed)


def offered(text: str, app: Any = karmadactl) -> list[str]:
    return [item.value for item in complete(app, "program", text.split(" "), TABLE)[0]]


@pytest.mark.parametrize(
    ("typed", "values"),
    [
        ("unj", ["unjoin"]),
        ("token ", ["create", "list", "delete"]),
        ("top p", ["pod"]),
        ("get --show-l", ["--show-labels"]),
        ("get x -o y", ["yaml"]),
        (
            "get x --output=js",
            ["--output=json", "--output=jsonpath=", "--output=jsonpath-as-json=", "--output=jsonpath-file="],
        ),
        ("get x -s ", ["karmada", "members", "all"]),
        ("get x -C ", ["m1", "m2"]),
        ("get x --clusters=m", ["--clusters=m1", "--clusters=m2"]),
        ("get x -C m2,", ["m2,m1"]),
        ("get ", ["default-0"]),
        ("get -n web x w", ["web-1"]),
        ("logs web --tail 5 a", ["alogs:web --tail 5"]),
        ("--kubeconfig f logs ", ["logs:"]),
        ("get logs ", ["default-1"]),
        ("version -o ", ["json", "yaml"]),
    ],
)
def test_values_follow_what_was_typed(typed: str, values: list[str]) -> None:
    assert offered(typed) == values


def test_files_are_offered_where_files_belong_only() -> None:
    assert offered("explain ", fleetlog) == ["default-0"]
    assert complete(karmadactl, "p", ["get", "--kubeconfig", ""], TABLE) == ([], FILES)
    assert complete(karmadactl, "p", ["get", "x", "-l", ""], TABLE) == ([], NO_FILES)
    assert {"get", "join", "logs"} <= set(offered(""))


def test_completion_never_fails_without_a_control_plane(tmp_path: Path) -> None:
    none = str(tmp_path / "none")
    for words in (("get", ""), ("get", "pods", ""), ("get", "-C", ""), ("describe", "pod", ""), ("cordon", "")):
        shown = run_command("karmadactl", "__complete", *words, KUBECONFIG=none)
        assert (shown.returncode, shown.stdout, shown.stderr) == (0, ":4\n", "")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "shell not specified"),
        (("bash", "zsh"), "too many arguments"),
        (("tcsh",), "unsupported shell type 'tcsh'"),
    ],
)
def test_shells_that_cannot_be_served_are_refused(words: tuple[str, ...], said: str) -> None:
    ended = run_command("karmadactl", "completion", *words)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.startswith(f"error: {said}")


@pytest.mark.parametrize("shell", list(SHELLS))
def test_scripts_are_valid_and_ask_the_program(shell: str) -> None:
    script = script_for(shell, "kubectl-karmada")
    assert run_command("karmadactl", "completion", shell).stdout == script_for(shell, "karmadactl")
    assert "kubectl-karmada __complete" in script
    assert "_kubectl_karmada" in script
    assert "PROGRAM" not in script
    program = shutil.which(shell)
    if program is not None:
        subprocess.run([program, "-n"], input=script, text=True, check=True, timeout=60)


def test_bash_completes_words_choices_and_values_behind_equals(tmp_path: Path) -> None:
    program = tmp_path / "karmadactl"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -c "from services.cli.karmadactl import main; main()" "$@"\n')
    program.chmod(0o755)
    (tmp_path / "script").write_text(script_for("bash", "karmadactl"))
    ask = """
PATH="$1:$PATH"; source "$1/script"
for COMP_LINE in "karmadactl unj" "karmadactl get x -o ya" "karmadactl get x --output=ya" "karmadactl top "; do
    COMP_POINT=${#COMP_LINE}; _karmadactl_complete; echo "${COMPREPLY[*]}"
done
"""
    shown = subprocess.run(
        ["bash", "-c", ask, "bash", str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
        timeout=100,
        cwd=Path(__file__).parents[3],
    )
    assert shown.stdout.splitlines() == ["unjoin", "yaml", "yaml", "pod node"]


def test_kubectl_is_offered_what_its_plugin_completes() -> None:
    code = "import sys; sys.argv[1:] = ['unj']; from services.cli.karmadactl import complete; complete()"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert shown.stdout == "unjoin\tRemove a member\n:4\n"
