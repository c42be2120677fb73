"""What an installation shall be: what the command line asks for, checked, and what is kept of it for later starts."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, Literal

from services.cli.common.control_plane import read_kubeconfig
from services.cli.common.layout import Installation, Layout, Member, new_installation
from services.cli.common.running import Failed
from services.cli.installation.up_options import InstallationOptions
from services.cli.members.membership import check_name

MEMBERS: Final = 3
"""Simulated members where no number was chosen and no real cluster is attached."""

NO_WEBHOOK: Final = "none"
_HOST: Final = re.compile(r"[A-Za-z0-9]([-.A-Za-z0-9]*[A-Za-z0-9])?")

PULL_MEMBER: Final = 3
"""Number of the simulated member that an agent looks after; all others are push members."""


def check(options: InstallationOptions) -> None:
    """Raises Failed for a directory, kubeconfigs and names that cannot be, before any of it is kept."""
    if options.directory.exists() and not options.directory.is_dir():
        raise Failed(f"--dir {options.directory} is no directory; name another one")
    given = {f"--member {name}": path for name, path in options.attached.items()}
    if options.control_kubeconfig:
        given["--control-kubeconfig"] = options.control_kubeconfig
    for name in options.attached:
        check_name(name)
    for option, path in given.items():
        place = Path(path)
        if not place.is_file():
            raise Failed(f"{option}: kubeconfig {path} {'is no file' if place.exists() else 'does not exist'}")
        read_kubeconfig(place)


def prepare(options: InstallationOptions) -> tuple[Layout, Installation, bool]:
    """The installation of a directory, made or loaded; true when it was there before."""
    layout = Layout(options.directory)
    installation = layout.load()
    nats_url = _servers(options)
    if installation is not None:
        _same_log(installation, nats_url)
        _attach(installation, options)
        if options.descheduler is not None:
            installation.descheduler = options.descheduler
        _ask_here(installation, options)
        layout.save(installation)
        return layout, installation, True
    simulated = 0 if options.attached and options.members == MEMBERS else options.members
    members = [
        Member(name=f"member{number}", nodes=options.nodes, mode=_mode(number, options))
        for number in range(1, simulated + 1)
    ]
    for name, path in options.attached.items():
        members = [member for member in members if member.name != name]
        members.append(Member(name=name, kubeconfig=str(Path(path).resolve())))
    control = str(Path(options.control_kubeconfig).resolve()) if options.control_kubeconfig else ""
    creds = _credentials(options, nats_url)
    installation = new_installation(members, nats_url=nats_url, nats_creds=creds, control_kubeconfig=control)
    installation.replicas = options.replicas
    installation.descheduler = bool(options.descheduler)
    _ask_here(installation, options)
    layout.save(installation)
    return layout, installation, False


def _mode(number: int, options: InstallationOptions) -> Literal["Push", "Pull"]:
    """One simulated member has an agent, where the log's server is ours and can give it an account."""
    return "Pull" if number == PULL_MEMBER and not options.nats_url else "Push"


def _ask_here(installation: Installation, options: InstallationOptions) -> None:
    """Take in where the webhook is reached; raises Failed for what is no host, or where it is not needed."""
    host = options.webhook
    if not host:
        return
    if not installation.control_kubeconfig:
        raise Failed("--webhook needs --control-kubeconfig: the embedded control plane asks no webhook about policies")
    if not _HOST.fullmatch(host):
        raise Failed(f"--webhook {host}: give a host name or an IPv4 address, without https:// and port")
    installation.webhook = "" if host == NO_WEBHOOK else host


def _servers(options: InstallationOptions) -> str:
    """The URLs of the log's servers in one text; raises Failed for what makes no sense."""
    urls = [url.strip() for url in options.nats_url.split(",") if url.strip()]
    if options.replicas and not urls:
        raise Failed("--replicas needs --nats: the server that is started here is the only one")
    if options.replicas % 2 == 0 and options.replicas:
        raise Failed(f"--replicas {options.replicas}: use 1, 3 or 5; an even number survives no more failures")
    return ",".join(url if "//" in url else f"nats://{url}" for url in urls)


def _same_log(installation: Installation, nats_url: str) -> None:
    """Raises Failed for servers of another log: what is known here stands on the one of the first start."""
    if not nats_url or nats_url == installation.nats_url:
        return
    if not installation.nats_url:
        raise Failed("this installation runs its own log server; use another --dir for --nats")
    raise Failed(f"this installation's log is at {installation.nats_url}; use another --dir for --nats {nats_url}")


def _credentials(options: InstallationOptions, nats_url: str) -> str:
    """The file with the identity at the log's server; raises Failed where there is none, or no server to show it to."""
    if not options.nats_creds:
        return ""
    if not nats_url:
        raise Failed("--nats-creds needs --nats: the server that is started here has accounts of its own")
    path = Path(options.nats_creds).resolve()
    if not path.is_file():
        raise Failed(f"--nats-creds {options.nats_creds}: no such file; `fleetlog nats init` writes hub.creds")
    return str(path)


def _attach(installation: Installation, options: InstallationOptions) -> None:
    """Take in kubeconfigs given at a later start: of further members, or new ones of those that were attached."""
    if options.replicas:
        installation.replicas = options.replicas
    installation.nats_creds = _credentials(options, installation.nats_url) or installation.nats_creds
    if options.control_kubeconfig:
        if not installation.control_kubeconfig:
            raise Failed("this installation runs its own control plane; use another --dir for --control-kubeconfig")
        installation.control_kubeconfig = str(Path(options.control_kubeconfig).resolve())
    places = {member.name: place for place, member in enumerate(installation.members)}
    for name, path in options.attached.items():
        attached = Member(name=name, kubeconfig=str(Path(path).resolve()))
        place = places.get(name)
        if place is None:
            installation.members.append(attached)
        elif installation.members[place].simulated:
            raise Failed(f"{name} is a simulated member here; give the cluster another name or use another --dir")
        else:
            installation.members[place] = attached
