"""Options of the commands that make clusters members and remove them."""

from __future__ import annotations

from typing import Annotated, Final, NamedTuple

import typer

from services.cli.common.command import split_commas
from services.cli.common.karmadactl_options import ClusterNamespace, DryRun, MemberFile, Signing, Traits
from services.cli.shell.choices import OneOf

CREDENTIALS, IMPERSONATOR, NOTHING = "KubeCredentials", "KubeImpersonator", "None"
REPORTS: Final = (CREDENTIALS, IMPERSONATOR, NOTHING)
"""What the control plane may get of a pull member."""
REQUESTS: Final = ("read", "all")
"""Which requests of people an agent answers, as its setting has them."""


class Acting(NamedTuple):
    """In whose name the control plane is asked; an empty user is who the kubeconfig says."""

    user: Annotated[str, typer.Option("--karmada-as", help="Ask the control plane in the name of this user.")] = ""
    groups: Annotated[
        tuple[str, ...],
        typer.Option("--karmada-as-group", help="Groups of that user; repeatable."),
        split_commas,
    ] = ()
    uid: Annotated[str, typer.Option("--karmada-as-uid", help="Uid of that user.")] = ""


class JoinOptions(NamedTuple):
    """How a cluster joins.

    `report_secrets` says whether the control plane gets credentials of a pull member, for commands that look into it;
    `agent_dir` is where the agent's files are written when no installation has a place for them; `signing` says who
    signs the agent's account.
    """

    file: MemberFile = MemberFile()
    namespace: ClusterNamespace = "karmada-cluster"
    traits: Traits = Traits()
    mode: Annotated[
        str,
        typer.Option(
            "--mode", help="For pull an agent beside the member does it.", click_type=OneOf("push", "pull", usual="")
        ),
    ] = "push"
    report_secrets: Annotated[
        tuple[str, ...],
        typer.Option(
            "--report-secrets",
            help="For pull: KubeCredentials lets commands look into the member, KubeImpersonator requests of people "
            "reach it, None keeps its credentials there. Comma-separated; KubeCredentials if empty.",
        ),
        split_commas,
    ] = ()
    agent_dir: Annotated[
        str, typer.Option("--agent-dir", help="For pull: where to write the agent's files; NAME-agent if empty.")
    ] = ""
    signing: Signing = Signing()
    acting: Acting = Acting()
    dry_run: DryRun = False


class LeaveOptions(NamedTuple):
    """How a member is removed; a kubeconfig serves where the stored credentials cannot clean it."""

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


class AgentPods(NamedTuple):
    """How the agent is deployed into its member."""

    namespace: Annotated[str, typer.Option("--namespace", "-n", help="Namespace of the agent in the member.")] = (
        "karmada-system"
    )
    image: Annotated[
        str, typer.Option("--karmada-agent-image", help="Image of the agent; that of this release if empty.")
    ] = ""
    replicas: Annotated[
        int, typer.Option("--karmada-agent-replicas", help="Agents: one acts, the others wait for its turn.", min=1)
    ] = 1
    timeout: Annotated[str, typer.Option("--agent-timeout", help="How long the agent has to get ready.")] = "2m"


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
    pods: AgentPods = AgentPods()
    agent_dir: Annotated[
        str, typer.Option("--agent-dir", help="Write the agent's files here, for a process; nothing is deployed.")
    ] = ""
    proxy: Annotated[
        str,
        typer.Option(
            "--proxy-server-address",
            help="Proxy to the member, for spec.proxyURL of its Cluster; requests of people pass through the agent.",
        ),
    ] = ""
    requests: Annotated[
        str,
        typer.Option(
            "--agent-requests",
            help="Requests of people that the agent answers. Default: none; all with --proxy-server-address.",
            click_type=OneOf(*REQUESTS, usual=""),
        ),
    ] = ""
    rotation: Annotated[
        bool, typer.Option("--enable-cert-rotation", help="Not needed: the agent's identity does not expire.")
    ] = False
    expiration: Annotated[
        int, typer.Option("--cert-expiration-seconds", help="Not needed: the agent's identity does not expire.")
    ] = 31536000
    dry_run: DryRun = False


class UnregisterOptions(NamedTuple):
    """How a pull member and its agent are removed."""

    leave: LeaveOptions = LeaveOptions()
    config: Annotated[
        str, typer.Option("--karmada-config", help="Kubeconfig of the control plane; another name of --kubeconfig.")
    ] = ""
    namespace: Annotated[str, typer.Option("--namespace", "-n", help="Namespace of the agent in the member.")] = (
        "karmada-system"
    )
    agent: Annotated[str, typer.Option("--agent-name", help="Name of the agent's Deployment.")] = "karmada-agent"
