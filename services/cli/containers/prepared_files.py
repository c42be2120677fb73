"""Makes the files that the containers of one installation share, and keeps them at later starts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from services.apiserver.auth.certificate_authority import Authority
from services.cli.common.running import complain
from services.cli.installation.certificate_files import (
    AUTHORITY,
    PEOPLE_KUBECONFIG,
    admit,
    made,
    make,
    write_people_kubeconfig,
)
from services.cli.members.reached_addresses import ReachedAddresses


def prepare(directory: Path, agents: Sequence[str], port: int) -> int:
    """Make everything in a directory, or what is new in one that has it; the exit code. Raises Failed."""
    if made(directory):
        admit(directory, agents)
    else:
        make(directory, agents)
    authority = Authority(directory / AUTHORITY)
    authority.load()
    # Made again each time: the port may be another one.
    server = ReachedAddresses(api_port=port).people
    write_people_kubeconfig(directory, server, authority)
    complain(f"the control plane will be at {server}; its kubeconfig is {PEOPLE_KUBECONFIG} in {directory}")
    return 0
