"""Hands accounts and passwords of the log to an installation in a cluster, whose pods read them out of Secrets."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from typing import Final

from msgspec import Struct

from schemas.manifest import Manifest
from services._kit.kube.client import ApiError, KubeClient, Unreachable, resource_path
from services._rules.identity.accounts import AgentIdentity, Passwords, accounts_config, accounts_in
from services.cli.common.running import Failed

ACCOUNTS_SECRET: Final = "fleetlog-nats-accounts"
"""The Secret with the accounts that the log's servers know: which agents are let in, it decides alone."""
ACCOUNTS_KEY: Final = "accounts.conf"
REGISTERED: Final = "fleetlog.io/registered"
"""Annotation of this Secret: the clusters whose agents registered by themselves, separated by commas."""
_ATTEMPTS: Final = 5


class Accounts(Struct, frozen=True):
    """What the Secret says, and in which version."""

    passwords: Passwords
    agents: tuple[AgentIdentity, ...]
    revision: str
    registered: frozenset[str] = frozenset()
    """Clusters whose agents registered by themselves: they are shut out once their Clusters are gone."""

    def key_of(self, cluster: str) -> str:
        """The public key of a cluster's agent; empty for one that is not let in."""
        return next((agent.public_key for agent in self.agents if agent.cluster == cluster), "")


async def read_accounts(host: KubeClient, namespace: str) -> Accounts | None:
    """The accounts of an installation, None where there is no such Secret; raises Failed."""
    try:
        found = await host.get(resource_path("", "v1", "secrets", namespace, ACCOUNTS_SECRET))
        passwords, agents = accounts_in(base64.b64decode((found.get("data") or {}).get(ACCOUNTS_KEY, "")).decode())
    except Unreachable as error:
        raise Failed(f"{error}; nothing was changed") from None
    except ApiError as error:
        if error.status == 404:
            return None
        raise Failed(f"Secret {ACCOUNTS_SECRET} cannot be read: {error.message}; nothing was changed") from None
    except ValueError as error:
        raise Failed(
            f"Secret {ACCOUNTS_SECRET} of namespace {namespace}: {ACCOUNTS_KEY} was not made by fleetlog certs: {error}"
        ) from None
    said = (found["metadata"].get("annotations") or {}).get(REGISTERED, "")
    registered = frozenset(said.split(",")) & {agent.cluster for agent in agents}
    return Accounts(passwords, tuple(agents), str(found["metadata"]["resourceVersion"]), registered)


async def change_agents(host: KubeClient, namespace: str, change: Callable[[Accounts], Accounts]) -> Accounts:
    """Write what `change` makes of the agents, in the version that was read; what holds then. Raises Failed."""
    for _ in range(_ATTEMPTS):
        before = await read_accounts(host, namespace)
        if before is None:
            raise Failed(f"namespace {namespace} of {host.server} has no Secret {ACCOUNTS_SECRET}")
        after = change(before)
        if after == before:
            return before
        text = accounts_config(after.passwords, after.agents)
        annotations = {REGISTERED: ",".join(sorted(after.registered))}
        try:
            await write_secret(host, namespace, ACCOUNTS_SECRET, {ACCOUNTS_KEY: text}, before.revision, annotations)
        except Conflict:
            continue
        return after
    raise Failed(f"Secret {ACCOUNTS_SECRET} of namespace {namespace} changes all the time; give the command again")


class Conflict(Failed):
    """Another one wrote the Secret after it was read."""


async def write_secret(
    host: KubeClient,
    namespace: str,
    name: str,
    texts: Mapping[str, str],
    revision: str = "",
    annotations: Mapping[str, str] | None = None,
) -> str:
    """Create a Secret, or give it these keys, others stay; what was done. Raises Failed.

    With `revision` only in this version of it; raises Conflict where there is a later one.
    """
    place = resource_path("", "v1", "secrets", namespace)
    metadata: Manifest = {"annotations": dict(annotations)} if annotations else {}
    seen = {"metadata": {**metadata, **({"resourceVersion": revision} if revision else {})}}
    try:
        try:
            await host.patch(f"{place}/{name}", {**seen, "stringData": dict(texts)})
        except ApiError as error:
            if error.status == 409:
                raise Conflict(f"Secret {name} of namespace {namespace} was changed meanwhile") from None
            if error.status != 404:
                raise
            metadata |= {"name": name, "namespace": namespace}
            await host.create(
                place,
                {
                    "apiVersion": "v1",
                    "kind": "Secret",
                    "metadata": metadata,
                    "type": "Opaque",
                    "stringData": dict(texts),
                },
            )
            return "created"
    except (ApiError, Unreachable) as error:
        why = error.message if isinstance(error, ApiError) else str(error)
        raise Failed(f"Secret {name} of namespace {namespace} cannot be written: {why}") from None
    return "written"
