"""Completes the commands that kubectl carries out: our own flags here, everything else by kubectl's own completion."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any, Final

from services.cli.common.control_plane import kubeconfig_path, read_kubeconfig
from services.cli.common.karmadactl_options import ControlPlaneOptions
from services.cli.completion.completed_values import contexts_of, members_of
from services.cli.completion.completer import Asked, Item
from services.cli.kubectl.flag_translation import sorted_out
from services.cli.kubectl.kubectl_process import find_kubectl
from services.cli.kubectl.passing_on import path_to_member
from services.cli.kubectl.private_kubeconfig import one_context, written
from services.cli.kubectl.verbs import CONTROL, MEMBERS, VERBS

_SECONDS: Final = 5.0
_CLUSTER_FLAGS: Final = ("-C", "--cluster", "--clusters")
_SCOPE_FLAGS: Final = ("-s", "--operation-scope")


def by_kubectl(name: str, words: Sequence[str], incomplete: str, given: Mapping[str, Any]) -> list[Item]:
    """What may come next in a command that kubectl carries out."""
    verb = VERBS[name]
    own, kept = sorted_out(name, words)
    known = {**given, **own}
    last = words[-1] if words and "--" not in words else ""
    if last in _CLUSTER_FLAGS:
        return members_of(Asked(known, (), incomplete))
    if last in _SCOPE_FLAGS:
        return [Item(scope) for scope in verb.scopes]
    if last == "--karmada-context":
        return contexts_of(Asked(known, (), incomplete))
    flags = [Item("--kubeconfig"), Item("--karmada-context")]
    if MEMBERS in verb.scopes:
        flags.append(Item("--cluster", "The member to work in."))
    if len(verb.scopes) > 1:
        flags.append(Item("--operation-scope", "Where to work."))
    offered = flags if incomplete.startswith("-") and "--" not in words else []
    hidden = {"--server", "--context", "--user", "--token"}
    cluster = str(own.get("cluster") or "") if MEMBERS in verb.scopes or CONTROL not in verb.scopes else ""
    target = ControlPlaneOptions(str(known.get("kubeconfig") or ""), str(known.get("context") or ""))
    return [*offered, *(item for item in _kubectl(name, kept, incomplete, target, cluster) if item.value not in hidden)]


def _kubectl(name: str, words: Sequence[str], incomplete: str, target: ControlPlaneOptions, cluster: str) -> list[Item]:
    """What kubectl offers; nothing where it cannot be asked."""
    try:
        path = kubeconfig_path(target.kubeconfig)
        program = find_kubectl(name)
        below = asyncio.run(path_to_member(target, cluster)) if cluster else ""
        with written(one_context(path, read_kubeconfig(path), target.context, below)) as kubeconfig:
            ended = subprocess.run(
                [program, "__complete", name, *words, incomplete],
                env={**os.environ, "KUBECONFIG": str(kubeconfig)},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_SECONDS,
                check=False,
            )
    except Exception:  # noqa: BLE001 - a completion that fails offers nothing
        return []
    lines = ended.stdout.decode(errors="replace").splitlines()
    return [Item(*line.partition("\t")[::2]) for line in lines if line and not line.startswith((":", "_activeHelp_"))]
