"""The command `karmadactl join --mode pull`: a member with an agent of its own (docs/sources.md#registration).

Where the log's server belongs to an installation beside the control plane's kubeconfig, the agent's identity is made
there and the server takes it over. Where there are keys of an operator (`fleetlog nats init`), its account is signed
with them and handed to the running servers. Elsewhere the steps that are left are printed.
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Final

import msgspec

from services._kit.base.private_files import private_text
from services._rules.identity.accounts import AgentIdentity, Passwords, accounts_config
from services.cli.common.control_plane import kubeconfig_path
from services.cli.common.karmadactl_options import ControlPlaneOptions, Signing
from services.cli.common.layout import CONTROL, Installation, Layout
from services.cli.common.running import Failed, patience
from services.cli.members.join import join, save_kubeconfig
from services.cli.members.member_account import member_identity
from services.cli.members.member_options import CREDENTIALS, IMPERSONATOR, NOTHING, REPORTS, JoinOptions
from services.cli.members.membership import check_name, check_new, member_id, open_acting, open_member_file
from services.cli.nats.account_claims import admit_here, expel, reachable, trusted_authority
from services.cli.nats.authority import DIRECTORY, Authority
from services.cli.nats.nkeys import new_seed, public_key
from services.cli.nats.server_identities import admit, changed, server_pid, withdraw

CREDS: Final = "agent.creds"
"""File with the identity of an agent whose account was signed."""
SEED: Final = "nkey.seed"
"""File with the identity of an agent whose key alone lets it in."""
AUTHORITY: Final = "ca.crt"
"""File with the authority of the log's servers, where the agent needs one."""
_PASSWORD: Final = "the password of the services"


def installation_of(target: ControlPlaneOptions) -> Layout | None:
    """The installation that a control plane's kubeconfig belongs to, if any."""
    layout = Layout(kubeconfig_path(target.kubeconfig).parent)
    if not layout.state.is_file() or not layout.kubeconfig(CONTROL).samefile(kubeconfig_path(target.kubeconfig)):
        return None
    return layout


def authority_of(target: ControlPlaneOptions, signing: Signing) -> tuple[Authority, str] | None:
    """The operator's keys that a command is to use, and the servers' URLs; None without any. Raises Failed.

    They are where the option says, else in the installation beside the control plane's kubeconfig.
    """
    if signing.directory:
        authority = Authority(Path(signing.directory).expanduser().resolve())
    else:
        layout = installation_of(target)
        if layout is None or not (layout.directory / DIRECTORY).is_dir():
            return None
        authority = Authority(layout.directory / DIRECTORY)
    return authority, signing.url or authority.book().url


async def join_pull_member(target: ControlPlaneOptions, name: str, options: JoinOptions) -> int:
    """Enter a pull member, give its agent an identity and say how to start it; raises Failed and JoinRefused."""
    check_name(name)
    reports = _reports(options.report_secrets)
    layout = installation_of(target)
    signed = authority_of(target, options.signing)
    ours = layout is not None and signed is None and not _installation(layout).nats_url
    place = layout.agent(name) if layout is not None and ours else _place(options.agent_dir or f"{name}-agent")
    async with patience(f"joining {name}"), open_acting(target, options.acting) as control:
        access, identity = None, ""
        if signed is not None:
            await reachable(*signed)
        if options.file.path:
            async with open_member_file(options.file) as (member, given):
                identity = await member_id(member, options.file)
                await check_new(control.client, name, identity)
                if not options.dry_run:
                    access = await member_identity(member, name, given, options.namespace)
        else:
            await check_new(control.client, name, "")
        if options.dry_run:
            print(f"cluster({name}) would be joined (dry run)")
            return 0
        if access is not None:
            save_kubeconfig(place / "member.kubeconfig", access, name)
        reported = access if CREDENTIALS in reports else None
        if reported is not None and IMPERSONATOR not in reports:
            reported = msgspec.structs.replace(reported, impersonator="")
        await join(control.client, name, reported, identity, options.traits, mode="Pull", namespace=options.namespace)
        if signed is not None:
            authority, url = signed
            await admit_here(authority, url, name, place / CREDS)
            if trusted := trusted_authority():
                private_text(place / AUTHORITY, trusted)
            steps = start_agent(name, place, url)
        elif layout is not None and ours:
            await admit(layout, name)
            steps = _of_installation(layout, name)
        else:
            private_text(place / SEED, new_seed("user"))
            steps = _elsewhere(layout, name, place)
    print(f"cluster({name}) is joined successfully")
    print(steps, end="")
    return 0


def _reports(asked: tuple[str, ...]) -> tuple[str, ...]:
    """What the control plane gets of a member; raises Failed for words that mean nothing together."""
    reports = asked or (CREDENTIALS,)
    unknown = [word for word in reports if word not in REPORTS]
    if unknown:
        raise Failed(f"--report-secrets is {', '.join(REPORTS[:-1])} or {REPORTS[-1]}, not {', '.join(unknown)}")
    if NOTHING in reports and len(reports) > 1:
        raise Failed(f"--report-secrets: {NOTHING} stands alone")
    if reports == (IMPERSONATOR,):
        raise Failed(
            f"--report-secrets: {IMPERSONATOR} needs {CREDENTIALS}, too: the address of the member goes with it"
        )
    return reports


def _place(directory: str) -> Path:
    return Path(directory).resolve()


def _installation(layout: Layout) -> Installation:
    installation = layout.load()
    if installation is None:
        raise Failed(f"no installation in {layout.directory}")
    return installation


def _of_installation(layout: Layout, name: str) -> str:
    """What is left to do where the log's server is ours."""
    installation = _installation(layout)
    if any(member.name == name for member in installation.pull_members):
        return f"Its agent is run by the installation in {layout.directory}.\n"
    running = (
        "" if server_pid(layout) else f"The installation does not run; start it: fleetlog up --dir {layout.directory}\n"
    )
    return running + start_agent(name, layout.agent(name), installation.log_url)


def _elsewhere(layout: Layout | None, name: str, place: Path) -> str:
    """What is left to do where the log's server is not ours, which was not changed."""
    key = public_key((place / SEED).read_text(encoding="utf-8"))
    agents, url = {name: key}, "nats://HOST:4222"
    if layout is not None:
        with changed(layout) as installation:
            installation.agents[name] = key
            agents, url = installation.agents, installation.log_url
    block = accounts_config(Passwords(hub=_PASSWORD), [AgentIdentity(*item) for item in agents.items()])
    return (
        "The log's server has to let its agent in; nothing was changed there. Its configuration needs these accounts\n"
        "(or keys that sign them, so that this command does the rest: fleetlog nats init, docs/joining.md), and two\n"
        "reloads after the change (nats-server --signal reload):\n\n"
        f"{block}\n{start_agent(name, place, url)}"
    )


def start_agent(name: str, place: Path, url: str, requests: str = "") -> str:
    """How to start an agent whose files are in a directory; `requests` of people are those that it answers."""
    kubeconfig = place / "member.kubeconfig"
    settings = {
        "FLEETLOG_NATS_URL": url,
        **_identity(place),
        **({"FLEETLOG_TLS_CA": str(place / AUTHORITY)} if (place / AUTHORITY).exists() else {}),
        "FLEETLOG_AGENT_CLUSTER": name,
        "FLEETLOG_AGENT_KUBECONFIG": str(kubeconfig) if kubeconfig.exists() else "KUBECONFIG-OF-THE-MEMBER",
        "FLEETLOG_AGENT_DATA_DIR": str(place / "known"),
        **({"FLEETLOG_AGENT_REQUESTS": requests} if requests else {}),
    }
    lines = [f"  {key}={shlex.quote(value)} \\" for key, value in settings.items()]
    return "Start its agent beside the member (the files may be moved there):\n" + "\n".join(
        [*lines, "  python -m services.agent", ""]
    )


def _identity(place: Path) -> dict[str, str]:
    """The setting that names the agent's identity."""
    if (place / CREDS).exists():
        return {"FLEETLOG_NATS_CREDS": str(place / CREDS)}
    return {"FLEETLOG_NATS_NKEY_FILE": str(place / SEED)}


async def dismiss_agent(target: ControlPlaneOptions, name: str, signing: Signing) -> str:
    """Withdraw the identity of a member that is gone; what is left to do, empty when the server has done it."""
    signed = authority_of(target, signing)
    if signed is not None:
        authority, url = signed
        try:
            if await expel(authority, url, name):
                return ""
        except Failed as error:
            again = f"fleetlog nats revoke {name} --out {shlex.quote(str(authority.directory))}"
            raise Failed(
                f"cluster {name} is unjoined, but its agent still has its identity: {error}; {again}"
            ) from None
    layout = installation_of(target)
    if layout is None:
        return (
            f"Remove the account of {name}'s agent from the configuration of the log's server, and reload it.\n"
            f"Where the log runs in a cluster, agent-signer does so for an agent that registered; any other: "
            f"fleetlog nats revoke {name} --certs DIR --nats URL\n"
        )
    if not _installation(layout).nats_url:
        await withdraw(layout, name)
        return ""
    with changed(layout) as installation:
        installation.agents.pop(name, None)
    return f"Remove the account of {name}'s agent from the configuration of the log's server, and reload it.\n"
