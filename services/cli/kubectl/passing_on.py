"""Carries out a command by kubectl, in the control plane or in the member that the command line names."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Sequence

from services.cli.common.control_plane import kubeconfig_path, open_control, read_kubeconfig
from services.cli.common.karmadactl_options import ControlPlaneOptions
from services.cli.common.running import Failed, patience
from services.cli.kubectl.flag_translation import translate
from services.cli.kubectl.kubectl_process import find_kubectl, run_kubectl
from services.cli.kubectl.private_kubeconfig import one_context, written
from services.cli.members.clusters import cluster, door_to_members, proxy_path


def pass_on(name: str, words: Sequence[str], before: ControlPlaneOptions, own_help: str) -> int:
    """Run `kubectl NAME WORDS` where our own flags among the words say; its exit code. Raises Failed."""
    line = translate(name, words, before)
    if line.help:
        return _help(name, line.words, own_help)
    program = find_kubectl(f"karmadactl {name}")
    path = kubeconfig_path(line.target.kubeconfig)
    below = asyncio.run(path_to_member(line.target, line.cluster)) if line.cluster else ""
    view = one_context(path, read_kubeconfig(path), line.target.context, below)
    with written(view) as kubeconfig:
        return run_kubectl(program, [name, *line.words], kubeconfig)


async def path_to_member(target: ControlPlaneOptions, name: str) -> str:
    """Where the control plane serves a member; raises Failed unless it has one of this name."""
    async with open_control(target) as control, patience(f"asking for cluster {name}"):
        await cluster(control.client, name)
        return proxy_path(name, await door_to_members(control.client))


def _help(name: str, words: Sequence[str], own_help: str) -> int:
    """Print our own help, then that of kubectl where it is there."""
    print(own_help)
    try:
        program = find_kubectl(f"karmadactl {name}")
    except Failed as missing:
        print(f"\n{missing}")
        return 0
    print(f"\nAll other flags are those of `kubectl {name}`:\n")
    sys.stdout.flush()
    subject = [word for word in words if not word.startswith("-")][:1]
    return subprocess.run([program, name, *subject, "--help"], check=False).returncode
