"""The context of a request: its identity and the options that every write takes."""

import datetime as dt
import time
from functools import lru_cache
from typing import Any

import msgspec

from services._rules.kubernetes.rbac.user_names import AUTHENTICATED, MASTERS


class Identity(msgspec.Struct, frozen=True):
    """An authenticated user."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, list[str]] = {}

    def user_info(self) -> dict[str, Any]:
        """The user as reviews and requests to webhooks carry it."""
        out: dict[str, Any] = {"username": self.name}
        if self.uid:
            out["uid"] = self.uid
        if self.groups:
            out["groups"] = list(self.groups)
        if self.extra:
            out["extra"] = self.extra
        return out


LOOPBACK = Identity("system:apiserver", "", (MASTERS, AUTHENTICATED))


class Call(msgspec.Struct):
    """One request on its way through the server; `warnings` become Warning headers of the answer."""

    user: Identity
    verb: str = ""
    manager: str = "unknown"
    dry_run: bool = False
    validation: str = ""
    force: bool | None = None
    applied: bool = False
    """Whether managedFields were computed by a server-side apply already."""
    options: dict[str, Any] | None = None
    warnings: list[str] = []
    annotations: dict[str, str] = {}
    """What admission has to say about the request in the audit log."""
    weight: int = 0
    """Bytes of the body of the request."""


def timestamp(moment: dt.datetime) -> str:
    """RFC 3339 in UTC with whole seconds, as API objects carry times."""
    return moment.isoformat(timespec="seconds")[:19] + "Z"


@lru_cache(maxsize=8)
def _stamp(second: int) -> str:
    return timestamp(dt.datetime.fromtimestamp(second, dt.UTC))


def stamp() -> str:
    """The present time as API objects carry it."""
    return _stamp(int(time.time()))


def now() -> dt.datetime:
    """The present time in UTC."""
    return dt.datetime.now(dt.UTC)  # noqa: TID251 - a request
