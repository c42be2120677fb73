"""Makes clusters members; one that cannot be reached does not hold up the others and is tried again."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from schemas.manifest import Manifest
from services._kit.credentials.access import open_member
from services._kit.kube.client import ApiError, KubeClient, Unreachable
from services.cli.attachments.attachment_checks import Unusable, Usable, examine
from services.cli.common.control_plane import read_kubeconfig
from services.cli.common.karmadactl_options import Traits
from services.cli.common.running import JoinRefused, NotReady
from services.cli.common.waiting import answers, condition, opened, wait_until
from services.cli.members.clusters import CLUSTERS
from services.cli.members.join import Mode, access_of_kubeconfig, join, save_kubeconfig
from services.cli.members.member_account import cluster_id, member_identity

READY_SECONDS: Final = 60.0
ATTACHED_READY_SECONDS: Final = 20.0
"""How long a start waits for a cluster that is not ours."""


class Joined(Struct, frozen=True, kw_only=True):
    """What became of a start's members: why some are not usable, by name."""

    members: tuple[str, ...]
    troubles: dict[str, str]

    def __str__(self) -> str:
        return ", ".join(f"{name} (not usable)" if name in self.troubles else name for name in self.members)


async def register_members(control: Path, members: Mapping[str, Path], agents: Mapping[str, Path]) -> str:
    """Enter pull members and write their agents' kubeconfigs; what is there already is kept."""
    return await enter_members(control, {name: members[name] for name in agents}, agents)


async def enter_members(control: Path, members: Mapping[str, Path], agents: Mapping[str, Path]) -> str:
    """Make simulated clusters members, those with an agent's kubeconfig by pull, and wait for none to be Ready.

    Kubeconfigs of agents are written; what is there already is kept. Returns the names.
    """
    async with opened(control) as client:
        known = await known_clusters(client)
        await asyncio.gather(
            *(_join_one(client, name, path, known.get(name), agents.get(name)) for name, path in members.items())
        )
    return ", ".join(members)


async def join_members(
    control: Path,
    members: Mapping[str, Path],
    agents: Mapping[str, Path] | None = None,
    attached: Mapping[str, Path] | None = None,
) -> Joined:
    """Make every cluster a member and wait until it is Ready; members that are joined already are kept.

    Those with an agent's kubeconfig become pull members. `attached` are kubeconfigs of clusters that are not ours: what
    is wrong with one of them is found within seconds, said, and not waited for.
    """
    async with opened(control) as client:
        known = await known_clusters(client)
        ours = [
            _join_one(client, name, path, known.get(name), (agents or {}).get(name)) for name, path in members.items()
        ]
        theirs = [attach(client, name, path, known.get(name)) for name, path in (attached or {}).items()]
        names = (*members, *(attached or {}))
        found = dict(zip(names, await asyncio.gather(*ours, *theirs), strict=True))
        usable = [name for name, trouble in found.items() if not trouble]
        slow = await asyncio.gather(*(_settled(client, name, own=name in members) for name in usable))
        found.update(zip(usable, slow, strict=True))
    return Joined(members=names, troubles={name: trouble for name, trouble in found.items() if trouble})


async def known_clusters(control: KubeClient) -> dict[str, Manifest]:
    """The Cluster objects by name."""
    present = await control.get(CLUSTERS)
    return {item["metadata"]["name"]: item for item in present.get("items") or ()}


async def attach(control: KubeClient, name: str, path: Path, known: Manifest | None) -> str:
    """Join a cluster that is not ours, or see whether it is joined well; why its kubeconfig cannot be used."""
    try:
        usable = await examine(path)
    except Unusable as error:
        return f"{error}{_kept(known)}"
    spec = known["spec"] if known is not None else {}
    if await _is_control(control, usable.identity):
        return (
            f"{usable.source}: this is the control plane itself, whose templates cannot be delivered into it; "
            f"give the kubeconfig of the cluster that is to join{_kept(known)}"
        )
    if spec.get("id") and usable.identity and spec["id"] != usable.identity:
        return (
            f"{usable.source}: this is another cluster (uid of kube-system {usable.identity}) than the one that joined "
            f"as {name} ({spec['id']}); join it under another name, or `karmadactl unjoin {name}` first{_kept(known)}"
        )
    if spec.get("syncMode") == "Pull":
        return ""
    entered = spec.get("apiEndpoint") == usable.access.endpoint and spec.get("impersonatorSecretRef")
    if entered and await _stored_credentials_work(control, spec):
        return ""
    try:
        await _enter(control, name, usable)
    except JoinRefused as error:
        return f"{usable.source}: {error}"
    except (ApiError, Unreachable, OSError, ValueError, KeyError) as error:
        return f"{usable.source}: it answers but cannot be joined: {error}"
    return ""


async def _enter(control: KubeClient, name: str, usable: Usable) -> None:
    async with opened(usable.kubeconfig) as member:
        ours = await member_identity(member, name, usable.access)
    if not ours.token and not ours.client_cert:
        raise JoinRefused(
            "the cluster issues no tokens and the kubeconfig holds neither token nor client certificate; "
            "use a kubeconfig with one of them"
        )
    await join(control, name, ours, usable.identity, Traits(), reuse=True)


def _kept(known: Manifest | None) -> str:
    """What goes on although the kubeconfig of a member cannot be used."""
    if known is None:
        return ""
    spec = known["spec"]
    if spec.get("syncMode") == "Pull":
        return "; the member is joined already, and its agent goes on"
    return (
        "; the member is joined already, and the credentials stored at that time stay in use "
        f"for {spec.get('apiEndpoint')}"
    )


async def _is_control(control: KubeClient, identity: str) -> bool:
    if not identity:
        return False
    try:
        return identity == await cluster_id(control)
    except ApiError:
        return False


async def _stored_credentials_work(control: KubeClient, spec: Manifest) -> bool:
    """Whether the cluster lets in who comes with what is stored about it."""
    try:
        member = await open_member(control, spec)
    except (ApiError, Unreachable, ValueError, KeyError, ssl.SSLError):
        return False
    try:
        await cluster_id(member)
    except ApiError as error:
        return error.status not in (401, 403)
    except Unreachable:
        return False
    finally:
        await member.close()
    return True


async def _join_one(control: KubeClient, name: str, path: Path, known: Manifest | None, agent: Path | None) -> str:
    """Join a simulated member unless it is one already; why it does not answer, where that may be."""
    access = access_of_kubeconfig(read_kubeconfig(path))
    spec = known["spec"] if known is not None else {}
    pull = spec.get("syncMode") == "Pull"
    joined = pull or (spec.get("apiEndpoint") == access.endpoint and bool(spec.get("impersonatorSecretRef")))
    served = not pull or agent is None or _there(agent)
    async with opened(path) as member:
        silence = await answers(member)
        if joined and (silence or served):
            return silence
        if silence:
            await wait_until(f"member {name}", lambda: answers(member), READY_SECONDS)
        identity = await cluster_id(member)
        ours = await member_identity(member, name, access)
    if agent is not None:
        save_kubeconfig(agent, ours, name)
    if not joined:
        mode: Mode = "Pull" if agent else "Push"
        await join(control, name, ours, identity, Traits(), mode=mode, reuse=True)
    return ""


def _there(path: Path) -> bool:
    return path.exists()


async def _settled(control: KubeClient, name: str, *, own: bool) -> str:
    """Wait until a member is Ready; raises NotReady for one of ours, says why another one is not."""
    try:
        await until_ready(control, name, READY_SECONDS if own else ATTACHED_READY_SECONDS)
    except NotReady as error:
        if own:
            raise
        return f"it is joined but does not become Ready: {error}"
    return ""


async def until_ready(control: KubeClient, name: str, seconds: float) -> None:
    """Wait until the control plane calls a member Ready; raises NotReady."""
    path = f"{CLUSTERS}/{name}"

    async def look() -> str:
        cluster = await control.get(path)
        ready = condition(cluster, "Ready")
        if not ready:
            return "its condition is not known yet"
        return "" if ready["status"] == "True" else str(ready.get("message"))

    await wait_until(f"member {name}", look, seconds)


PAUSE: Final = 5.0
LONGEST_PAUSE: Final = 30.0
_READY_SECONDS: Final = 30.0


def leave(path: Path, troubles: Mapping[str, str]) -> None:
    """Write down which members are to be tried again, and why."""
    path.write_bytes(msgspec.json.encode(dict(troubles)))


def left(path: Path) -> dict[str, str]:
    """What `leave` has written; empty without it."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, str])
    except (FileNotFoundError, msgspec.MsgspecError):
        return {}


async def keep_trying(
    control: Path,
    files: Mapping[str, Path],
    troubles: Mapping[str, str],
    report: Callable[[str], None],
    pause: float = PAUSE,
) -> None:
    """Return once every member of `troubles` is usable; says each new reason, and each member that became usable.

    The kubeconfigs are read again each time: who corrects one need not start anything again.
    """
    open_troubles = dict(troubles)
    while open_troubles:
        await asyncio.sleep(pause)
        pause = min(pause * 1.5, LONGEST_PAUSE)
        for name in list(open_troubles):
            trouble = await _try(control, name, files[name])
            if not trouble:
                report(f"member {name} is usable now")
                del open_troubles[name]
            elif trouble != open_troubles[name]:
                report(f"member {name} is still not usable: {trouble}")
                open_troubles[name] = trouble


async def _try(control: Path, name: str, file: Path) -> str:
    try:
        client = await KubeClient.from_kubeconfig(control)
    except (OSError, ValueError) as error:
        return f"the control plane's kubeconfig cannot be read: {error}"
    try:
        trouble = await attach(client, name, file, (await known_clusters(client)).get(name))
        if not trouble:
            await until_ready(client, name, _READY_SECONDS)
    except (ApiError, Unreachable) as error:
        return f"the control plane does not answer: {error}"
    except NotReady as error:
        return f"it is joined but does not become Ready: {error}"
    finally:
        await client.close()
    return trouble
