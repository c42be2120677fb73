"""Request and reply messages between agent and hub: hello, samples, manifest bytes, reports, capacity estimates.

Requests go to `hello.<cluster>`, `blobs.<cluster>` and `reports.<cluster>`. The cluster is the one in the subject,
which only that cluster's account reaches, never the one in the body.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

from schemas.events.observed import WorkObserved
from schemas.events.request import MemberRequested
from schemas.keys import PolicyKey

HEARTBEAT_SECONDS: Final = 10.0
"""Interval of an agent's hello requests when nothing else triggers one."""

BLOB_DIGEST: Final = "Fleetlog-Digest"
BLOB_SIZE: Final = "Fleetlog-Size"
BLOB_OFFSET: Final = "Fleetlog-Offset"
BLOB_PROBLEM: Final = "Fleetlog-Problem"
BLOB_END: Final = "Fleetlog-End"
"""Header of the last answer to a request for blobs; its body is empty."""

MAX_BLOBS: Final = 64
"""Digests in one request."""

MAX_REPORTS: Final = 200
"""Observations in one request."""

MAX_RECORDS: Final = 100
"""Records of requests in one request."""

MAX_REPORT_BYTES: Final = 2 << 20
"""Size of one request with observations, unless it holds a single one."""


WAIT_SECONDS: Final = 5.0
"""How long the hub holds back the answer to an agent that waits for questions."""

MAX_QUESTIONS: Final = 64
"""Questions for one cluster that wait for its agent, and requirements in one question."""


class Expiry(Struct, frozen=True, kw_only=True):
    """When credentials end and since when they are valid (seconds since 1970, 0: not known), and what they are."""

    at: float
    since: float = 0.0
    what: str = ""


class Sample(Struct, frozen=True, kw_only=True):
    """One probe of a member. `summary` holds version, apiEnablements, nodeSummary and resourceSummary when healthy.

    `error` is the reason why no client could be built; `apis_complete` is false when the list of kinds has gaps.
    `expiry` is that of the credentials used by the probe, where they carry one. `identity` is the uid of the member's
    namespace kube-system, empty where it cannot be read. `cause` says why a member that is not online did not answer.
    `answers` names the requests of people that an agent answers, empty for none; None where nothing is said about it.
    """

    at: float
    online: bool = False
    healthy: bool = False
    error: str = ""
    summary: dict[str, Any] | None = None
    apis_complete: bool = True
    expiry: Expiry | None = None
    identity: str = ""
    cause: str = ""
    answers: str | None = None


class Hello(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An agent is there. `fresh` asks for a consumer; without it this is a heartbeat.

    `uid` is the Cluster's as the agent knows it, empty at first. `log` and `after` name the log and the position up to
    which the agent has everything: the new consumer starts behind it when the log is still that one, and with the last
    fact of every work otherwise. `at` in seconds since 1970 by the member's clock. A fresh greeting begins a `session`,
    named by the agent, in which alone reports count from then on; `before` names its last one.
    """

    cluster: str
    instance: str
    at: float
    uid: str = ""
    fresh: bool = False
    log: str = ""
    after: int = 0
    sample: Sample | None = None
    session: str = ""
    before: str = ""


class HelloAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The hub's reply: `problem` is the reason why there is no consumer, and the remedy; empty when all is well.

    `uid` is the Cluster's, `log` the identity of the log, `start` the position the consumer begins at (0: the last
    fact of every work), `models` the resource models that a sample's modelings are counted by. `configured` names
    the objects that configure interpretation as of position `as_of`; None where it was not requested. Works withdrawn
    up to `settled` (a position) need no action: they were carried out, or the membership that they belonged to
    ended. `identity` is the uid of the namespace kube-system of the member, empty while it is not known.
    `resync` asks for all reports again: another session came in between, or the hub does not know.
    """

    problem: str = ""
    uid: str = ""
    stream: str = ""
    consumer: str = ""
    log: str = ""
    start: int = 0
    heartbeat_seconds: float = HEARTBEAT_SECONDS
    models: tuple[dict[str, Any], ...] = ()
    configured: tuple[PolicyKey, ...] | None = None
    as_of: int = 0
    settled: int = 0
    identity: str = ""
    resync: bool = False


class BlobsWanted(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Digests whose bytes an agent needs, named by works it has read up to position `as_of`."""

    digests: tuple[str, ...]
    as_of: int = 0


class TakenPods(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Pods of one kind that a cluster was given and does not show yet: they take room before anything is measured."""

    count: int
    namespace: str = ""
    requests: dict[str, str] = {}
    claim: dict[str, Any] | None = None
    priority_class: str = ""


class RoomQuestions(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the hub wants to know of a member: room for replicas, or how many pods of a workload find no node.

    `requirements` are asked one after the other, each from the whole room (with namespace, replicaRequirements and
    components as a binding's spec has them). Without `quotas` the member's ResourceQuotas limit nothing. `workload`
    (kind, namespace, name) asks for pods that are unschedulable for longer than `threshold` seconds.
    """

    id: str
    requirements: tuple[dict[str, Any], ...] = ()
    taken: tuple[TakenPods, ...] = ()
    quotas: bool = True
    workload: dict[str, str] | None = None
    threshold: float = 0.0


class RoomAnswers(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a member has room for: one count for each of the requirements of a question, -1 for no opinion.

    For a workload it is one count. `problem` is the reason why there is none.
    """

    id: str
    replicas: tuple[int, ...] = ()
    problem: str = ""


class Reported(Struct, frozen=True, kw_only=True):
    """Observations, oldest first; the hub gives them their place on the log.

    With `waits` the answer is held back until the hub has a question or WAIT_SECONDS passed; `answers` are to those
    that came with answers before. `session` is that of the agent's last fresh greeting. `requests` are records of
    requests that the agent answered.
    """

    events: tuple[WorkObserved, ...] = ()
    waits: bool = False
    answers: tuple[RoomAnswers, ...] = ()
    session: str = ""
    requests: tuple[MemberRequested, ...] = ()


class ReportedAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What became of observations: all are stored but those in `refused` (index and reason), which never will be.

    With `problem` nothing was stored and the agent asks again, `retry_seconds` later; where `superseded`, after a fresh
    greeting: another session has begun.
    """

    problem: str = ""
    refused: tuple[tuple[int, str], ...] = ()
    retry_seconds: float = 0.0
    superseded: bool = False
    questions: tuple[RoomQuestions, ...] = ()
