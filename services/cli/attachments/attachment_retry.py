"""Tries members again that could not be used at the start, until each of them is joined and Ready."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from services._kit.kube.client import ApiError, KubeClient, Unreachable
from services.cli.attachments.member_attachments import attach, known_clusters, until_ready
from services.cli.common.running import NotReady

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
    tell: Callable[[str], None],
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
                tell(f"member {name} is usable now")
                del open_troubles[name]
            elif trouble != open_troubles[name]:
                tell(f"member {name} is still not usable: {trouble}")
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
