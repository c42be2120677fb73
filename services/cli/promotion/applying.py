"""The command `karmadactl apply`: kubectl applies objects; with clusters each gets a policy that brings it there."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec

from schemas.manifest import Manifest
from services.cli.common.control_plane import kubeconfig_path, open_control, read_kubeconfig
from services.cli.common.karmadactl_options import ControlPlaneOptions
from services.cli.common.running import Failed, complain, patience
from services.cli.kubectl.kubectl_process import find_kubectl, kubectl_environment, run_kubectl
from services.cli.kubectl.private_kubeconfig import one_context, written
from services.cli.members.clusters import clusters
from services.cli.promotion.apply_words import ApplyLine, read_words
from services.cli.promotion.object_policies import placement_in, policy_of

_COMMAND: Final = "karmadactl apply"
_LARGEST: Final = 64 << 20
"""Bytes of standard input."""
_OWN_GROUPS: Final = ".karmada.io"


def apply(words: Sequence[str], before: ControlPlaneOptions, own_help: str) -> int:
    """Apply what the words name; the exit code of kubectl. Raises Failed."""
    line = read_words(words)
    if line.help:
        return _help(own_help)
    program = find_kubectl(_COMMAND)
    target = ControlPlaneOptions(line.kubeconfig or before.kubeconfig, line.context or before.context)
    path = kubeconfig_path(target.kubeconfig)
    with written(one_context(path, read_kubeconfig(path), target.context)) as kubeconfig:
        if not line.placed:
            return run_kubectl(program, ["apply", *line.words], kubeconfig)
        asyncio.run(_check_clusters(target, line))
        with _place() as place:
            return _apply_with_policies(program, kubeconfig, line, place)


def _apply_with_policies(program: str, kubeconfig: Path, line: ApplyLine, place: Path) -> int:
    line = _from_stdin(line, place)
    objects = _listed(program, kubeconfig, line)
    code = run_kubectl(program, ["apply", *line.words], kubeconfig)
    if code:
        complain("error: not all objects were applied; no policy was written")
        return code
    policies = policies_of(objects, line)
    if not policies:
        return 0
    file = place / "policies.json"
    file.write_bytes(msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": policies}))
    return run_kubectl(program, ["apply", f"--filename={file}", *line.for_policies()], kubeconfig)


def policies_of(objects: Sequence[Manifest], line: ApplyLine) -> list[Manifest]:
    """One policy for each object but the control plane's own kinds, which are not propagated."""
    placement = placement_in(() if line.everywhere else line.clusters)
    return [policy_of(item, placement) for item in objects if not _is_own(item)]


def _is_own(item: Manifest) -> bool:
    return str(item["apiVersion"]).partition("/")[0].endswith(_OWN_GROUPS)


async def _check_clusters(target: ControlPlaneOptions, line: ApplyLine) -> None:
    """Raises Failed unless the control plane has every cluster that is named."""
    async with open_control(target) as control, patience("asking for clusters"):
        await clusters(control.client, line.clusters)


def _from_stdin(line: ApplyLine, place: Path) -> ApplyLine:
    """Standard input as a file, which can be read twice."""
    file = place / "stdin.yaml"
    read = line.reading(str(file))
    if read != line:
        data = sys.stdin.buffer.read(_LARGEST + 1)
        if len(data) > _LARGEST:
            raise Failed(f"standard input is larger than {_LARGEST >> 20} MiB; apply it in parts")
        file.write_bytes(data)
    return read


def _listed(program: str, kubeconfig: Path, line: ApplyLine) -> list[Manifest]:
    """The objects that the words name, with the namespaces they go to; raises Failed with kubectl's words."""
    done = subprocess.run(
        [program, "apply", *line.listing()],
        env=kubectl_environment(kubeconfig),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip()
        raise Failed(said.removeprefix("error: ") or f"kubectl apply ended with {done.returncode}")
    try:
        found = msgspec.json.decode(done.stdout, type=dict[str, Any])
    except msgspec.MsgspecError as error:
        raise Failed(f"kubectl apply --dry-run=client printed what is no object: {error}") from None
    items: list[Manifest] = found["items"] if str(found.get("kind")).endswith("List") else [found]
    return items


@contextmanager
def _place() -> Iterator[Path]:
    directory = Path(tempfile.mkdtemp(prefix="karmadactl-"))
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _help(own_help: str) -> int:
    print(own_help)
    try:
        program = find_kubectl(_COMMAND)
    except Failed as absent:
        print(f"\n{absent}")
        return 0
    print("\nAll other flags are those of `kubectl apply`:\n")
    sys.stdout.flush()
    return subprocess.run([program, "apply", "--help"], check=False).returncode
