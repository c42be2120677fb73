"""How command lines for kubectl are told from our own flags, and the kubeconfig that kubectl gets."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from services.cli.common.karmadactl_options import ControlPlaneOptions
from services.cli.common.running import Failed
from services.cli.kubectl.flag_translation import Line, translate
from services.cli.kubectl.go_templates import fill_templates
from services.cli.kubectl.kubectl_process import find_kubectl, run_kubectl
from services.cli.kubectl.private_kubeconfig import one_context, written
from tests.support.commands import run_command

NOWHERE = ControlPlaneOptions()
KUBECONFIG = {
    "current-context": "a",
    "contexts": [
        {"name": "a", "context": {"cluster": "c", "user": "u", "namespace": "web"}},
        {"name": "b", "context": {"cluster": "other", "user": "u"}},
        {"name": "broken", "context": {"cluster": "none", "user": "u"}},
    ],
    "clusters": [
        {"name": "c", "cluster": {"server": "https://cp:6443/", "tls-server-name": "x", "proxy-url": "http://p"}},
        {"name": "other", "cluster": {"server": "https://other"}},
    ],
    "users": [{"name": "u", "user": {"token": "t", "exec": {"command": "./bin/login"}}}],
}


def line(text: str) -> Line:
    name, *words = text.split()
    return translate(name, words, NOWHERE)


@pytest.mark.parametrize(
    ("typed", "cluster", "kept"),
    [
        ("describe deploy nginx", "", "deploy nginx"),
        ("describe deploy nginx -s karmada", "", "deploy nginx"),
        ("describe -s members pod -C m1 -l a=b", "m1", "pod -l a=b"),
        ("describe pod --operation-scope=members --cluster=m1 -A", "m1", "pod -A"),
        ("describe pod -AC m1", "m1", "pod -A"),
        ("describe -f C -Cm1", "m1", "-f C"),
        ("describe -fC", "", "-fC"),
        ("logs web -C m1 -f --tail 5 -c s", "m1", "web -f --tail 5 -c s"),
        ("logs web -fCm1", "m1", "web -f"),
        ("logs -c -C web --cluster m1", "m1", "-c -C web"),
        ("exec web -s members --cluster m1 -it -- sh -s -C x", "m1", "web -it -- sh -s -C x"),
        ("attach web --cluster m1 -c app", "m1", "web -c app"),
        ("api-resources --cluster m1 -o wide", "m1", "-o wide"),
        ("create deployment web --image nginx", "", "deployment web --image nginx"),
        ("delete -f - --wait=false", "", "-f - --wait=false"),
        ("patch deploy web -p {} --type=merge", "", "deploy web -p {} --type=merge"),
    ],
)
def test_our_flags_leave_and_every_other_word_stays(typed: str, cluster: str, kept: str) -> None:
    found = line(typed)
    assert (found.cluster, " ".join(found.words)) == (cluster, kept)


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("describe pod -s moon", "unsupported operation scope 'moon'"),
        ("describe pod -s all", "does not support operation scope 'all'"),
        ("describe pod -s members", "say which member cluster: -C"),
        ("explain pod -s members", "say which member cluster: --cluster"),
        ("logs web", "say which member cluster"),
        ("logs web -s karmada -C m1", "does not support operation scope 'karmada'"),
        ("exec web --cluster m1,m2 -- ls", "one cluster at a time"),
        ("create -f x -C m1", "control plane only"),
        ("delete pod x -s members", "control plane only"),
        ("describe pod -C", "flag needs an argument: -C"),
        ("describe pod --cluster", "flag needs an argument: --cluster"),
    ],
)
def test_scopes_that_a_command_lacks_are_refused(typed: str, said: str) -> None:
    with pytest.raises(Failed, match=said):
        line(typed)


def test_the_control_plane_is_named_before_or_behind_the_command() -> None:
    before = ControlPlaneOptions("/before", "ctx")
    assert translate("edit", ["deploy", "x"], before).target == before
    typed = ["deploy", "x", "--kubeconfig=/behind", "--context", "other"]
    assert translate("edit", typed, before) == Line(("deploy", "x"), ControlPlaneOptions("/behind", "other"))


def test_help_is_asked_for_in_both_spellings_but_not_of_others() -> None:
    assert line("logs -h").help
    assert line("create deployment --help") == Line(("deployment",), NOWHERE, help=True)
    assert not line("exec web -- ls --help -h").help


def test_a_members_kubeconfig_leads_below_its_server() -> None:
    source = Path("/etc/fleet/config")
    made = one_context(source, KUBECONFIG, "", "/below/m1/proxy")
    server = made["clusters"][0]["cluster"]
    assert server["server"] == "https://cp:6443/below/m1/proxy"
    assert (server["tls-server-name"], server["proxy-url"]) == ("x", "http://p")
    assert made["contexts"][0]["context"]["namespace"] == "web"
    assert made["users"][0]["user"] == {"token": "t", "exec": {"command": "/etc/fleet/bin/login"}}
    assert one_context(source, KUBECONFIG, "b")["clusters"][0]["cluster"]["server"] == "https://other"
    for context in ("none", "broken"):
        with pytest.raises(Failed, match="none"):
            one_context(source, KUBECONFIG, context)


def test_the_kubeconfig_is_private_and_goes_afterwards() -> None:
    with written(one_context(Path("k"), KUBECONFIG, "")) as path:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        assert json.loads(path.read_text())["kind"] == "Config"
    assert not path.parent.exists()


def test_exit_codes_and_ends_by_signals_pass_through(tmp_path: Path) -> None:
    assert run_kubectl("/bin/sh", ["-c", 'test "$KUBECONFIG" = x; exit 42'], Path("x")) == 42
    assert run_kubectl("/bin/sh", ["-c", "kill -KILL $$"], tmp_path) == 128 + signal.SIGKILL


def test_signals_reach_the_program() -> None:
    ours = (
        "from pathlib import Path; from services.cli.kubectl.kubectl_process import run_kubectl; "
        "raise SystemExit(run_kubectl('/bin/sh', ['-c', 'trap \"exit 7\" TERM; echo up; while :; do sleep 0.1; done'], "
        "Path('x')))"
    )
    with subprocess.Popen([sys.executable, "-c", ours], stdout=subprocess.PIPE, start_new_session=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        process.terminate()
        assert process.wait(60) == 7


def test_an_early_signal_reaches_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = subprocess.Popen

    def started(*arguments: Any, **named: Any) -> subprocess.Popen[bytes]:
        # As when the program runs already, and its start has not returned.
        process = plain(*arguments, **named)
        os.kill(os.getpid(), signal.SIGUSR1)
        return process

    monkeypatch.setattr(subprocess, "Popen", started)
    code = run_kubectl("/bin/sh", ["-c", 'trap "exit 7" USR1; while :; do sleep 0.1; done'], Path("x"))
    assert code in (7, 128 + signal.SIGUSR1)


def test_without_kubectl_it_is_said_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(Failed, match=r"karmadactl logs needs kubectl, which is not on PATH; install it \(https://"):
        find_kubectl("karmadactl logs")


def test_help_names_our_flags_and_those_of_kubectl() -> None:
    shown = run_command("karmadactl", "logs", "-h")
    assert shown.returncode == 0
    assert "-C, --cluster NAME" in shown.stdout
    assert "--operation-scope" not in shown.stdout
    assert "--tail" in shown.stdout
    assert "--cluster" not in run_command("karmadactl", "edit", "--help", PATH="").stdout


def test_go_templates_are_filled_without_a_server() -> None:
    documents = [{"kind": "List", "items": [{"a": 1}, {"a": "x-1"}]}, {"kind": "List", "items": []}]
    assert fill_templates("{{range .items}}{{.a}} {{end}}{{len $.items}}\n", documents) == "1 x-1 2\n0\n"
    with pytest.raises(Failed, match="go-template: "):
        fill_templates("{{.a.b.c | nope}}", documents)
    with pytest.raises(Failed, match="define"):
        fill_templates('{{define "x"}}{{end}}', documents)
