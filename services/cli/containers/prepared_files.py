"""Makes the files that the containers of one installation share, and keeps them at later starts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from services._rules.kubernetes.rbac.user_names import MASTERS
from services.apiserver.auth.certificate_authority import Authority
from services.apiserver.auth.kubeconfig_files import write as write_kubeconfig
from services.cli.common.running import complain
from services.cli.installation.certificate_files import ADMIN, admit, made, make

HOST_KUBECONFIG: Final = "control.kubeconfig"
"""How commands on the machine of the containers reach the control plane."""


def prepare(directory: Path, agents: Sequence[str], port: int) -> int:
    """Make everything in a directory, or what is new in one that has it; the exit code. Raises Failed."""
    if made(directory):
        admit(directory, agents)
    else:
        make(directory, agents=agents)
    authority = Authority(directory / "authority")
    authority.load()
    # Made again each time: the port may be another one.
    cert, key = authority.issue(ADMIN, (MASTERS,), None)
    server = f"https://127.0.0.1:{port}"
    write_kubeconfig(
        directory / HOST_KUBECONFIG, server=server, name="fleetlog", ca=authority.ca_pem, cert=cert, key=key
    )
    complain(f"the control plane will be at {server}; its kubeconfig is {HOST_KUBECONFIG} in {directory}")
    return 0
