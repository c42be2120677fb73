"""Asks simulated members at their fault ports, and prints what they answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import aiohttp
import msgspec
from msgspec import Struct

from services.cli.common.installation_search import absence
from services.cli.common.layout import Installation, Layout
from services.cli.common.printing import check_output, render, table
from services.cli.common.running import Failed, complain

_SECONDS: Final = 15.0
KINDS: Final = {
    "Deployment": ("deploy", "deployment", "deployments", "deployment.apps", "deployments.apps"),
    "StatefulSet": ("sts", "statefulset", "statefulsets", "statefulset.apps", "statefulsets.apps"),
    "DaemonSet": ("ds", "daemonset", "daemonsets", "daemonset.apps", "daemonsets.apps"),
    "ReplicaSet": ("rs", "replicaset", "replicasets", "replicaset.apps", "replicasets.apps"),
    "Job": ("job", "jobs", "job.batch", "jobs.batch"),
    "Pod": ("po", "pod", "pods"),
}
"""Kinds of workloads and pods, with the words that stand for each on a command line."""


class Rows(Struct, frozen=True):
    """How to print what members answer: the headers, a row, and what to say where there is none."""

    headers: tuple[str, ...]
    row: Callable[[dict[str, Any]], tuple[Any, ...]]
    none: str


class _Refusal(Exception):
    """A member does not do what it was asked; the text says why."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


async def show(directory: Path, clusters: Sequence[str], output: str, path: str, rows: Rows) -> int:
    """Print what is set in some members, or in all; raises Failed."""
    check_output(output, ("json", "yaml"))
    layout, installation, members = _members(directory, clusters)
    async with aiohttp.ClientSession() as session:
        answers = await asyncio.gather(
            *(_ask(session, layout, installation, member, path) for member in members), return_exceptions=True
        )
    _print(output, dict(zip(members, answers, strict=True)), rows)
    return 0


async def put(
    directory: Path, clusters: Sequence[str], output: str, path: str, body: Mapping[str, object], rows: Rows
) -> int:
    """Set something in the members that have its target; raises Failed where none has it, or one cannot be asked."""
    check_output(output, ("json", "yaml"))
    layout, installation, members = _members(directory, clusters)
    async with aiohttp.ClientSession() as session:
        answers = await asyncio.gather(
            *(_ask(session, layout, installation, member, path, body) for member in members), return_exceptions=True
        )
    absent = [answer for answer in answers if isinstance(answer, _Refusal) and answer.code == 404]
    if len(absent) == len(members) or (clusters and absent):
        raise Failed(str(absent[0]))
    found = {m: a for m, a in zip(members, answers, strict=True) if a not in absent}
    for refused in (answer for answer in found.values() if isinstance(answer, _Refusal) and answer.code == 400):
        raise Failed(str(refused))
    _print(output, found, rows)
    return 0


def _members(directory: Path, clusters: Sequence[str]) -> tuple[Layout, Installation, list[str]]:
    layout = Layout(directory)
    installation = layout.load()
    if installation is None:
        raise Failed(f"{absence(directory)}; start one with `fleetlog up`, or name its directory with --dir")
    simulated = [member.name for member in installation.members if member.simulated]
    for name in clusters:
        if name not in simulated:
            shown = ", ".join(simulated) or "none"
            raise Failed(f"{name!r} is no simulated member of {layout.directory}; it has {shown}")
    return layout, installation, list(clusters) or simulated


async def _ask(
    session: aiohttp.ClientSession,
    layout: Layout,
    installation: Installation,
    member: str,
    path: str,
    body: Mapping[str, object] | None = None,
) -> list[dict[str, Any]]:
    """What is set in a member, after a change where there is one; raises Failed and _Refusal."""
    try:
        url = (layout.data(member) / "admin.url").read_text(encoding="utf-8").strip()
        async with session.request(
            "POST" if body else "GET",
            f"{url}{path}",
            data=msgspec.json.encode(body) if body else None,
            headers={"Authorization": f"Bearer {installation.token}"},
            timeout=aiohttp.ClientTimeout(total=_SECONDS),
        ) as answer:
            found = msgspec.json.decode(await answer.read())
            if answer.status != 200:
                raise _Refusal(answer.status, f"{member}: {found.get('error', answer.reason)}")
            items: list[dict[str, Any]] = found
            return items
    except FileNotFoundError:
        raise Failed(f"{member} never ran here; start the installation with `fleetlog up`") from None
    except (aiohttp.ClientError, TimeoutError, msgspec.MsgspecError) as e:
        raise Failed(f"{member} does not answer ({e or type(e).__name__}); does `fleetlog up` run?") from None


def _print(output: str, answers: dict[str, Any], rows: Rows) -> None:
    """Print what members answered; those that did not are named on stderr. Raises Failed where none did."""
    good = {member: answer for member, answer in answers.items() if not isinstance(answer, BaseException)}
    broken = [str(answer) for answer in answers.values() if isinstance(answer, BaseException)]
    if not good and broken:
        raise Failed(broken[0])
    for text in broken:
        complain(f"warning: {text}")
    lines = [(member, *rows.row(item)) for member, items in good.items() for item in items]
    document = [{"member": member, **item} for member, items in good.items() for item in items]
    render(output, lambda: document, lambda: table(("member", *rows.headers), lines) if lines else rows.none)
