"""Options of the commands that make clusters members and remove them."""

from __future__ import annotations

from typing import Annotated, Final, NamedTuple

import typer

from services.cli.common.command import split_commas
from services.cli.common.karmadactl_options import ClusterNamespace, DryRun, MemberFile, Signing, Traits

REPORTS: Final = ("KubeCredentials", "None")


class JoinOptions(NamedTuple):
    """How a cluster joins.

    `report_secrets` says whether the control plane gets credentials of a pull member, for commands that look into it;
    `agent_dir` is where the agent's files are written when no installation has a place for them; `signing` says who
    signs the agent's account.
    """

    file: MemberFile = MemberFile()
    namespace: ClusterNamespace = "karmada-cluster"
    traits: Traits = Traits()
    mode: Annotated[str, typer.Option("--mode", help="push, or pull: an agent beside the member does it.")] = "push"
    report_secrets: Annotated[
        str,
        typer.Option(
            "--report-secrets",
            help="For pull: KubeCredentials lets commands look into the member, None keeps its credentials there.",
        ),
    ] = REPORTS[0]
    agent_dir: Annotated[
        str, typer.Option("--agent-dir", help="For pull: where to write the agent's files; NAME-agent if empty.")
    ] = ""
    signing: Signing = Signing()
    dry_run: DryRun = False


class LeaveOptions(NamedTuple):
    """How a member is removed; without a kubeconfig nothing in the member is touched."""

    file: MemberFile = MemberFile()
    namespace: ClusterNamespace = "karmada-cluster"
    wait: Annotated[str, typer.Option("--wait", help="How long to wait until the member is empty.")] = "60s"
    force: Annotated[
        bool, typer.Option("--force", help="Let go after the wait even if copies could not be removed.")
    ] = False
    signing: Signing = Signing()
    dry_run: DryRun = False


class TokenOptions(NamedTuple):
    """What a new token is for; a `ttl` of 0 is for ever."""

    given: Annotated[str, typer.Argument(metavar="[TOKEN]", help="The token; a random one if empty.")] = ""
    ttl: Annotated[str, typer.Option("--ttl", help="How long it is good; 0: for ever.")] = "24h"
    usages: Annotated[
        tuple[str, ...],
        typer.Option("--usages", help="signing, authentication or both, comma-separated; both if empty."),
        split_commas,
    ] = ()
    groups: Annotated[
        tuple[str, ...],
        typer.Option("--groups", help="Further groups of its bearer (system:bootstrappers:…)."),
        split_commas,
    ] = ()
    description: Annotated[str, typer.Option("--description", help="What it is for.")] = ""
    print_register_command: Annotated[
        bool, typer.Option("--print-register-command", help="Print the whole command that registers a cluster.")
    ] = False


class RegisterOptions(NamedTuple):
    """What `register` needs; `hashes` pin the control plane's authority, `skip_ca` goes without."""

    endpoint: Annotated[str, typer.Argument(metavar="HOST:PORT", help="Where the control plane is.")]
    token: Annotated[str, typer.Option("--token", help="The bootstrap token.")]
    hashes: Annotated[
        tuple[str, ...],
        typer.Option("--discovery-token-ca-cert-hash", help="sha256:… of the control plane's authority; repeatable."),
        split_commas,
    ] = ()
    skip_ca: Annotated[
        bool,
        typer.Option("--discovery-token-unsafe-skip-ca-verification", help="Trust any server that knows the token."),
    ] = False
    discovery_timeout: Annotated[
        str,
        typer.Option("--discovery-timeout", help="How long to look for the control plane, and wait for its answer."),
    ] = "5m"
    name: Annotated[str, typer.Option("--cluster-name", help="Name of the member; its kubeconfig's if empty.")] = ""
    kubeconfig: Annotated[str, typer.Option("--kubeconfig", help="Kubeconfig of the member (or KUBECONFIG).")] = ""
    context: Annotated[str, typer.Option("--context", help="Context of that kubeconfig to use.")] = ""
    namespace: ClusterNamespace = "karmada-cluster"
    traits: Traits = Traits()
    agent_dir: Annotated[
        str, typer.Option("--agent-dir", help="Where to write the agent's files; NAME-agent if empty.")
    ] = ""
    dry_run: DryRun = False
