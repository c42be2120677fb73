"""Maps aggregates to subjects of the log and back; the only module that does."""

from __future__ import annotations

import re
from functools import lru_cache

from schemas.keys import ObjectKey, PolicyKey

NO_NAMESPACE = "_"
_FACETS = ("template", "binding", "estimate", "placement", "eviction", "descheduling", "rollup")
EVERY_ACTIVITY = "active.*"
HEARTBEATS = "alive.*"
RESTORE = "restore.log"
RESTORES = "restore.*"
UNPARKED = "unparked."
INSTANCES = "instances"
"""Core NATS subject on which every instance of every service answers how it is."""
PURGED = "purged"
"""Core NATS subject on which the janitor announces purged facets; a hint that may be lost."""
SETTLED = "blob.settled"
"""Subject of stream BLOBS without messages: what is sent there asks the leader to refuse it."""
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]")
_ESCAPED = re.compile(r"((?:=[0-9A-F]{2})+)")
_TOKEN = re.compile(r"(?:[A-Za-z0-9_-]|=[0-9A-F]{2})+")


class SubjectError(ValueError):
    """A subject that no aggregate of this product has."""

    def __init__(self, subject: str, why: str) -> None:
        super().__init__(f"subject {subject!r}: {why}")
        self.subject = subject


def _hex(match: re.Match[str]) -> str:
    return "".join(f"={byte:02X}" for byte in match[0].encode())


@lru_cache(maxsize=65536)
def escape(token: str) -> str:
    """Make one subject token of any non-empty text; every byte outside letters, digits, `-` and `_` becomes `=XX`.

    A lone `_` is escaped too, because it stands for "no namespace". Raises SubjectError for empty text.
    """
    if not token:
        raise SubjectError(token, "an empty name has no token")
    if token == NO_NAMESPACE:
        return "=5F"
    return _UNSAFE.sub(_hex, token)


@lru_cache(maxsize=65536)
def unescape(token: str) -> str:
    """Undo `escape`; raises SubjectError for text that `escape` cannot have made."""
    if not _TOKEN.fullmatch(token):
        raise SubjectError(token, "not an escaped token")

    def plain(match: re.Match[str]) -> str:
        return bytes.fromhex(match[0].replace("=", "")).decode()

    try:
        return _ESCAPED.sub(plain, token)
    except UnicodeDecodeError:
        raise SubjectError(token, "escaped bytes are no UTF-8") from None


def _namespace(namespace: str) -> str:
    return escape(namespace) if namespace else NO_NAMESPACE


@lru_cache(maxsize=65536)
def key_tokens(key: ObjectKey) -> str:
    """`<resource.group>.<ns>.<name>` of an object, three tokens."""
    return f"{escape(key.group_resource)}.{_namespace(key.namespace)}.{escape(key.name)}"


def facet(aggregate: str, key: ObjectKey) -> str:
    """Subject of a sharded facet (`template`, `binding`, `placement`, …) of one object."""
    return f"{aggregate}.{key.shard}.{key_tokens(key)}"


def template(key: ObjectKey) -> str:
    """Subject of what the user wrote."""
    return facet("template", key)


def binding(key: ObjectKey) -> str:
    """Subject of the request to place an object."""
    return facet("binding", key)


def placement(key: ObjectKey) -> str:
    """Subject of the scheduler's decision."""
    return facet("placement", key)


def explained(key: ObjectKey) -> str:
    """Subject of the scheduler's explanations (stream EXPLAINED)."""
    return facet("explained", key)


def work(cluster: str, key: ObjectKey) -> str:
    """Subject of the works of one object in one cluster."""
    return f"work.{escape(cluster)}.{key_tokens(key)}"


def work_in_all(key: ObjectKey) -> str:
    """Pattern of the subjects of the works of one object in all clusters."""
    return f"work.*.{key_tokens(key)}"


def observed(cluster: str, key: ObjectKey) -> str:
    """Subject of what one cluster was seen to hold (stream OBSERVED)."""
    return f"observed.{escape(cluster)}.{key_tokens(key)}"


def policy(key: PolicyKey) -> str:
    """Subject of a policy object."""
    return f"policy.{escape(key.kind)}.{_namespace(key.namespace)}.{escape(key.name)}"


def autoscaling(key: PolicyKey) -> str:
    """Subject of what an autoscaler, or a schedule of one, has decided."""
    return f"autoscaling.{escape(key.kind)}.{_namespace(key.namespace)}.{escape(key.name)}"


def endpoints(cluster: str, namespace: str, name: str) -> str:
    """Subject of one slice of endpoints that a cluster exports."""
    return f"endpoints.{escape(cluster)}.{_namespace(namespace)}.{escape(name)}"


def endpoints_in(namespace: str) -> str:
    """Pattern of the subjects of all slices of a namespace, of whatever cluster."""
    return f"endpoints.*.{_namespace(namespace)}.*"


def of_kind_in_clusters(aggregate: str, resource: str, group: str) -> str:
    """Pattern of the subjects of one kind in all clusters; for works and observations."""
    return f"{aggregate}.*.{escape(f'{resource}.{group}' if group else resource)}.>"


def cluster(name: str) -> str:
    """Subject of a member cluster."""
    return f"cluster.{escape(name)}"


def lease(service: str) -> str:
    """Subject of the leadership of a service."""
    return f"lease.{escape(service)}"


def control_plane() -> str:
    """Subject of the identity of the control plane."""
    return "identity.control-plane"


def absence(scope: str) -> str:
    """Subject of what is missing in a scope and held."""
    return f"absence.{escape(scope)}"


def confirmation(scope: str) -> str:
    """Subject of what operators confirmed in a scope."""
    return f"confirmation.{escape(scope)}"


def restore(service: str = "") -> str:
    """Subject of the restore under way, or of a service's reply to it."""
    return f"restore.{escape(service)}" if service else RESTORE


def blob(digest: str) -> str:
    """Subject of manifest bytes (stream BLOBS)."""
    return f"blob.{escape(digest)}"


def key(namespace: str) -> str:
    """Subject of the wrapped key of a namespace's Secrets (stream KEYS)."""
    return f"key.{escape(namespace)}"


def requested(cluster: str, side: str) -> str:
    """Subject of the requests that were carried into a cluster, as one side tells (stream REQUESTS)."""
    return f"request.{escape(cluster)}.{escape(side)}"


def parked(service: str) -> str:
    """Subject of what a service could not process (stream PARKED)."""
    return f"parked.{escape(service)}"


def unparked(service: str, key: str) -> str:
    """Subject of what operators want done about a parked key of a service."""
    return f"{UNPARKED}{escape(service)}.{escape(key)}"


def heartbeat(service: str) -> str:
    """Core NATS subject on which the leader of a service shows that it lives."""
    return f"alive.{escape(service)}"


def presence(service: str) -> str:
    """Core NATS subject on which the instances of a service say which shard groups they lead."""
    return f"present.{escape(service)}"


def activity(cluster: str) -> str:
    """Core NATS subject of the activity hint of a cluster; it may be lost."""
    return f"active.{escape(cluster)}"


def split(subject: str) -> tuple[str, list[str]]:
    """Aggregate name and raw tokens after it."""
    aggregate, *tokens = subject.split(".")
    return aggregate, tokens


_SHARDED = frozenset({*_FACETS, "explained"})
BY_KIND = frozenset({"policy", "autoscaling"})
"""Aggregates whose subjects name an object by its kind, namespace and name."""
_PER_CLUSTER = frozenset({"work", "observed"})


def _object_key(subject: str, tokens: list[str]) -> ObjectKey:
    if len(tokens) != 3:
        raise SubjectError(subject, "expected <resource.group>.<namespace>.<name>")
    resource, _, group = unescape(tokens[0]).partition(".")
    namespace = "" if tokens[1] == NO_NAMESPACE else unescape(tokens[1])
    return ObjectKey(group=group, resource=resource, namespace=namespace, name=unescape(tokens[2]))


@lru_cache(maxsize=65536)
def object_key(subject: str) -> ObjectKey:
    """Key of the object that a sharded facet, work or observed subject speaks of; raises SubjectError otherwise."""
    aggregate, tokens = split(subject)
    if aggregate in _SHARDED or aggregate in _PER_CLUSTER:
        return _object_key(subject, tokens[1:])
    raise SubjectError(subject, f"{aggregate!r} names no object")


def cluster_of(subject: str) -> str:
    """Cluster of a work, observed, endpoints, cluster or activity subject; raises SubjectError otherwise."""
    aggregate, tokens = split(subject)
    if (aggregate in _PER_CLUSTER or aggregate in ("cluster", "active", "endpoints")) and tokens:
        return unescape(tokens[0])
    raise SubjectError(subject, f"{aggregate!r} names no cluster")


def policy_key(subject: str) -> PolicyKey:
    """Key of a policy or autoscaling subject; raises SubjectError otherwise."""
    aggregate, tokens = split(subject)
    if aggregate not in BY_KIND or len(tokens) != 3:
        raise SubjectError(subject, "expected policy.<kind>.<namespace>.<name>, or autoscaling with the same")
    namespace = "" if tokens[1] == NO_NAMESPACE else unescape(tokens[1])
    return PolicyKey(kind=unescape(tokens[0]), namespace=namespace, name=unescape(tokens[2]))
