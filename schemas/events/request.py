"""Facts about requests that were carried into members, as the hub and the agent of a pull member each saw them."""

from __future__ import annotations

from typing import Final

from schemas.envelope import Event

HUB_SIDE: Final = "hub"
AGENT_SIDE: Final = "agent"


class MemberRequested(Event, frozen=True, kw_only=True, omit_defaults=True, tag="MemberRequested.v1"):
    """One request for a member, after it ended: who asked for what, and what came of it.

    `side` is `hub` or `agent`: each writes its own. `by` is the service that carried it, or the agent's instance.
    `path` holds the values of few query parameters; of others their names alone. `status` is the HTTP status, 0: there
    was none, and `problem` says why. `started` in seconds since 1970, `seconds` how long it took; `sent` are bytes
    towards the member, `received` bytes from it. `missed` requests before it are not on record: there were too many.
    """

    cluster: str
    side: str
    by: str
    user: str
    method: str
    path: str
    groups: tuple[str, ...] = ()
    upgrade: str = ""
    status: int = 0
    problem: str = ""
    started: float = 0.0
    seconds: float = 0.0
    sent: int = 0
    received: int = 0
    missed: int = 0


RequestEvent = MemberRequested
