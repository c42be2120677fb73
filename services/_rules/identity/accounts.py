"""Defines access to the log: the hub's account with a user per service, one per agent, and the subjects they share.

An agent's account sees the hub through service imports only. The server rewrites the reply subject of every request
that crosses such an import, so an agent cannot make it write on a subject of its choosing. No stream's subject is
among them: the hub validates what an agent reports before it stores it.

The server (2.15.1) connects the imports of an account that appears with a reload only at the reload after that one:
adding an agent needs two. A removed agent is cut off by the first, and no other connection is affected by either.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct

from schemas.subjects import HEARTBEATS, INSTANCES, escape, unescape
from schemas.topology import BLOBS, EXPLAINED, FACTS, HISTORY, OBSERVED, PARKED
from services._rules.identity.service_rights import rights_of

HUB: Final = "HUB"
HUB_USER: Final = "hub"
"""User of commands that write, and of what has no user of its own; it may do everything in the hub's account."""
OBSERVER: Final = "OBSERVER"
"""Account of people and programs that read the log and write nothing."""
OBSERVER_USER: Final = "observer"
SYSTEM: Final = "$SYS"
"""The servers' own account, in which they answer how they are."""
SYSTEM_USER: Final = "system"
HUB_API: Final = "$JS.API"
OBSERVER_API: Final = "observer.api"
"""What stands for `$JS.API` in observers' subjects: every account keeps that one for streams of its own."""
READABLE: Final = (FACTS, OBSERVED, HISTORY, BLOBS, EXPLAINED, PARKED)
"""Streams that observers read; KEYS and OBJECTS hold what is to stay secret."""
_PUBLIC_KEY = re.compile(r"U[A-Z2-7]{55}")
_TEXT = r'"(?:[^"\\]|\\.)*"'
_USER_LINE = re.compile(rf"\{{user: ({_TEXT}|\w+), password: ({_TEXT})")
_AGENT_LINES = re.compile(r'^  ("AGENT-[^"]*") \{\n    users: \[\{\n      nkey: (\S+)$', re.MULTILINE)


_AGENT: Final = "AGENT-"


class AgentIdentity(Struct, frozen=True, order=True):
    """An agent that may connect: its cluster, and the public nkey (`U…`) of its user."""

    cluster: str
    public_key: str


class Export(Struct, frozen=True):
    """A subject of the hub that another account may send requests to, or hear (`live`).

    `stream` is true when one request has many answers.
    """

    subject: str
    stream: bool = False
    live: bool = False

    @property
    def kind(self) -> str:
        """What servers call it."""
        return "stream" if self.live else "service"


def agent_account(cluster: str) -> str:
    """Name of the account of a cluster's agent."""
    return f"{_AGENT}{escape(cluster)}"


def agent_consumer(cluster: str) -> str:
    """Name of the one consumer on FACTS that the hub makes for a cluster's agent."""
    return f"agent-{escape(cluster)}"


def next_subject(cluster: str) -> str:
    """Subject on which an agent asks for the next messages of its consumer."""
    return f"$JS.API.CONSUMER.MSG.NEXT.{FACTS.name}.{agent_consumer(cluster)}"


def hello_subject(cluster: str) -> str:
    """Subject of an agent's greetings and heartbeats."""
    return f"hello.{escape(cluster)}"


def reports_subject(cluster: str) -> str:
    """Subject on which an agent hands over observations."""
    return f"reports.{escape(cluster)}"


def blobs_subject(cluster: str) -> str:
    """Subject on which an agent asks for manifest bytes."""
    return f"blobs.{escape(cluster)}"


def tunnel_subject(cluster: str, token: str) -> str:
    """Subject on which an agent answers requests for its member: one token for each, and HERE for its greetings."""
    return f"tunnel.{escape(cluster)}.{token}"


def agent_exports(cluster: str) -> tuple[Export, ...]:
    """Everything the hub offers one agent; there is nothing else (architecture, section 8)."""
    return (
        Export(hello_subject(cluster)),
        Export(reports_subject(cluster)),
        Export(blobs_subject(cluster), stream=True),
        Export(next_subject(cluster), stream=True),
        Export(tunnel_subject(cluster, "*"), stream=True),
    )


def observer_exports() -> tuple[Export, ...]:
    """Everything the hub offers observers: reads of its readable streams, and what is published to them.

    Reads make no consumer: one that delivers to a subject of an observer's choice would let it write there.
    """
    requests = [Export(f"{HUB_API}.{call}") for call in ("INFO", "STREAM.NAMES", "STREAM.LIST")]
    for stream in READABLE:
        requests += [Export(f"{HUB_API}.STREAM.{call}.{stream.name}") for call in ("INFO", "MSG.GET")]
        requests.append(Export(f"{HUB_API}.DIRECT.GET.{stream.name}", stream=True))
        requests.append(Export(f"{HUB_API}.DIRECT.GET.{stream.name}.>"))
    heard = [subject for stream in READABLE if stream != BLOBS for subject in stream.subjects]
    requests.append(Export(INSTANCES, stream=True))
    return (*requests, *(Export(subject, live=True) for subject in (*heard, HEARTBEATS)))


def observer_subject(subject: str) -> str:
    """What an observer calls a subject of the hub."""
    return subject.replace(HUB_API, OBSERVER_API, 1) if subject.startswith(HUB_API) else subject


class Passwords(Struct, frozen=True, kw_only=True):
    """Passwords of the log's users: the hub's, which may do everything, and those of others where they are to exist.

    `services` are by name, each with the rights of that service and no others.
    """

    hub: str
    services: Mapping[str, str] = {}
    observer: str = ""
    system: str = ""


def accounts_config(passwords: Passwords, agents: Iterable[AgentIdentity]) -> str:
    """The `accounts {…}` block of a server's configuration file.

    Raises ValueError for a cluster that is named twice, for what is no public user key, and for an unknown service.
    """
    known = sorted(agents)
    seen: set[str] = set()
    for agent in known:
        if agent.cluster in seen:
            raise ValueError(f"cluster {agent.cluster} has two agent identities; keep one")
        seen.add(agent.cluster)
        if not _PUBLIC_KEY.fullmatch(agent.public_key):
            raise ValueError(f"cluster {agent.cluster}: {agent.public_key!r} is no public user key (U and 55 letters)")
    lines = [
        "accounts {",
        f"  {HUB} {{",
        "    jetstream: enabled",
        "    users: [",
        f"      {{user: {HUB_USER}, password: {_quote(passwords.hub)}}}",
        *(_service_user(name, password) for name, password in sorted(passwords.services.items())),
        "    ]",
        "    exports: [",
    ]
    for agent in known:
        account = _quote(agent_account(agent.cluster))
        for export in agent_exports(agent.cluster):
            kind = "stream" if export.stream else "singleton"
            lines.append(f"      {{service: {_quote(export.subject)}, response_type: {kind}, accounts: [{account}]}}")
    if passwords.observer:
        lines += _observer_exports()
    lines += ["    ]", "  }"]
    if passwords.observer:
        lines += _observer_account(passwords.observer)
    if passwords.system:
        lines.append(f"  {SYSTEM} {{users: [{{user: {SYSTEM_USER}, password: {_quote(passwords.system)}}}]}}")
    for agent in known:
        lines += _account(agent)
    lines.append("}")
    return "\n".join(lines) + "\n"


def accounts_in(text: str) -> tuple[Passwords, list[AgentIdentity]]:
    """The users and agents of what `accounts_config` wrote; raises ValueError for a text without the hub's user."""
    passwords = {name.strip('"'): json.loads(password) for name, password in _USER_LINE.findall(text)}
    if HUB_USER not in passwords:
        raise ValueError(f"it has no user {HUB_USER}")
    agents = [
        AgentIdentity(unescape(json.loads(account).removeprefix(_AGENT)), key)
        for account, key in _AGENT_LINES.findall(text)
    ]
    hub, observer, system = (passwords.pop(name, "") for name in (HUB_USER, OBSERVER_USER, SYSTEM_USER))
    return Passwords(hub=hub, services=passwords, observer=observer, system=system), agents


def _observer_exports() -> list[str]:
    lines = []
    for export in observer_exports():
        answers = "" if export.live else f"response_type: {'stream' if export.stream else 'singleton'}, "
        lines.append(f"      {{{export.kind}: {_quote(export.subject)}, {answers}accounts: [{OBSERVER}]}}")
    return lines


def _observer_account(password: str) -> list[str]:
    lines = [
        f"  {OBSERVER} {{",
        f"    users: [{{user: {OBSERVER_USER}, password: {_quote(password)}}}]",
        "    imports: [",
    ]
    for export in observer_exports():
        to = "" if export.live else f", to: {_quote(observer_subject(export.subject))}"
        lines.append(f"      {{{export.kind}: {{account: {HUB}, subject: {_quote(export.subject)}}}{to}}}")
    return [*lines, "    ]", "  }"]


def _service_user(name: str, password: str) -> str:
    rights = rights_of(name)
    denied = f", deny: {_list(rights.not_publish)}" if rights.not_publish else ""
    allowed = f"publish: {{allow: {_list(rights.publish)}{denied}}}, subscribe: {{allow: {_list(rights.subscribe)}}}"
    return f"      {{user: {_quote(name)}, password: {_quote(password)}, permissions: {{{allowed}}}}}"


def _list(subjects: Iterable[str]) -> str:
    return f"[{', '.join(_quote(subject) for subject in subjects)}]"


def _account(agent: AgentIdentity) -> list[str]:
    """The account of one agent: its user, and the imports of what the hub exports to it."""
    subjects = [export.subject for export in agent_exports(agent.cluster)]
    imports = [f"      {{service: {{account: {HUB}, subject: {_quote(subject)}}}}}" for subject in subjects]
    return [
        f"  {_quote(agent_account(agent.cluster))} {{",
        "    users: [{",
        f"      nkey: {agent.public_key}",
        f'      permissions: {{publish: {{allow: {_list(subjects)}}}, subscribe: {{allow: ["_INBOX.>"]}}}}',
        "    }]",
        "    imports: [",
        *imports,
        "    ]",
        "  }",
    ]


def _quote(text: str) -> str:
    """A string of the configuration language; JSON's escapes are understood there."""
    if any(character < " " or character == "\x7f" for character in text):
        raise ValueError("control characters cannot stand in a server's configuration")
    return json.dumps(text, ensure_ascii=False)
