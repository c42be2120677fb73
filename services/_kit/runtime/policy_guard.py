"""Measures edits of guarded policies in a process of their own, so that they hold up nothing else, and judges them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from schemas.manifest import Manifest
from services._rules.admission import Denied
from services._rules.admission.radius_guard import confirmed_any, guarded, malformed, refusal, unmeasured
from services._rules.admission.write_steps import Write

_ROOT: Final = Path(__file__).resolve().parents[3]
_LONGEST_ANSWER: Final = 64 << 10


class Question(Struct, frozen=True):
    """The edit of one policy; `manifest` is None for its deletion."""

    kind: str
    namespace: str
    name: str
    manifest: Manifest | None


class Measured(Struct, frozen=True):
    """How many workloads an edit disturbs and how many its policy claims; `problem` where that is not known."""

    disturbed: int = 0
    claimed: int = 0
    problem: str = ""


class PolicyGuard:
    """Asked about each write of a policy; those without a guard are not measured.

    An edit is measured for `seconds` at most, its turn included: one is measured at a time. The process reads the log
    that the environment names (FLEETLOG_NATS_URL and its credentials); `environment` comes on top of ours.
    """

    def __init__(self, seconds: float, environment: Mapping[str, str] | None = None) -> None:
        self._seconds = seconds
        self._environment = environment or {}
        self._turn = asyncio.Lock()

    async def __call__(self, write: Write) -> Denied | None:
        """Why a write is refused; None lets it pass."""
        kind, old, new = write.kind, write.old, write.new
        if new is not None and (wrong := malformed(new)) and (old is None or malformed(old) != wrong):
            return Denied("validating", 403, wrong)
        if old is None or not guarded(old, new) or confirmed_any(old, new):
            return None
        try:
            async with asyncio.timeout(self._seconds), self._turn:
                found = await _measured(Question(kind, write.namespace, write.name, new), self._environment)
        except TimeoutError:
            found = Measured(problem=f"it took longer than {self._seconds:g} s")
        if found.problem:
            return Denied("validating", 403, unmeasured({**old, "kind": kind}, new, found.problem))
        why = refusal({**old, "kind": kind}, new, found.disturbed, found.claimed)
        return Denied("validating", 403, why) if why else None


async def _measured(question: Question, environment: Mapping[str, str]) -> Measured:
    """The answer of a process that foresees; when this is cancelled, the process ends."""
    environment = {**os.environ, **environment}
    if not environment.get("FLEETLOG_NATS_URL"):
        return Measured(problem="this server knows no log (FLEETLOG_NATS_URL)")
    paths = [str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    try:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "services.foresight",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env={**environment, "PYTHONPATH": os.pathsep.join(paths)},
            limit=_LONGEST_ANSWER,
        )
    except OSError as error:
        return Measured(problem=f"no process can be started: {error}")
    try:
        answer, _ = await process.communicate(msgspec.json.encode(question))
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await asyncio.shield(process.wait())
    try:
        return msgspec.json.decode(answer, type=Measured)
    except msgspec.MsgspecError:
        return Measured(problem=f"the process that foresees ended with {process.returncode}")
