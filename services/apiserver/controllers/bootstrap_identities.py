"""Bootstrap tokens: authentication and confinement of their bearers, and the signed cluster-info.

Where every authenticated identity may do everything, the bearer of such a token may not: it may read cluster-info,
create a signing request for an agent's identity, and read its status. Anonymous requests may read cluster-info.
"""

import base64
import time
from collections.abc import Callable
from typing import Any

import msgspec
import structlog

from services._kit.concurrency.keyed_work import WorkQueue
from services._rules.constants import AGENT_SIGNER
from services._rules.identity import bootstrap_tokens as tokens
from services._rules.kubernetes.rbac.user_names import AUTHENTICATED
from services.apiserver.admission.chain import Attributes, nothing
from services.apiserver.auth.confinement import REQUESTS
from services.apiserver.controllers.in_process_client import LocalClient
from services.apiserver.core import status_errors as status
from services.apiserver.core.request_context import LOOPBACK, Identity
from services.apiserver.core.status_errors import ApiError
from services.apiserver.store.store_port import Event, Key
from services.apiserver.writes.object_writes import Objects

log = structlog.get_logger(__name__)


class BootstrapAuthentication:
    """Knows the bearers of bootstrap tokens by the Secrets in kube-system."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    def identify(self, bearer: str, now: float) -> Identity | None:
        """Who bears a token that is good now for logging in, None for any other."""
        parts = tokens.parse(bearer)
        if parts is None:
            return None
        entry = self._objects.store.get(Key("", "secrets", tokens.NAMESPACE, tokens.SECRET_PREFIX + parts[0]))
        if entry is None or entry.obj["metadata"].get("deletionTimestamp"):
            return None
        try:
            token = tokens.read(entry.obj)
        except ValueError as error:
            log.warning("bootstrap_token_unreadable", reason=str(error))
            return None
        if not tokens.same(token.secret, parts[1]) or tokens.expired(token, now) or not token.authentication:
            return None
        groups = (tokens.BOOTSTRAPPERS, *token.groups, AUTHENTICATED)
        return Identity(f"system:bootstrap:{token.id}", "", tuple(dict.fromkeys(groups)))


class AgentRequests:
    """Admission: what the bearer of a bootstrap token asks for is an agent's identity."""

    resources = frozenset({"/".join(REQUESTS)})

    mutate = nothing

    async def validate(self, attributes: Attributes) -> None:
        """Refuse requests for other signers and other names."""
        kind, new = attributes.kind, attributes.new
        if kind.store_key != "/".join(REQUESTS) or new is None or attributes.operation != "CREATE":
            return
        if tokens.BOOTSTRAPPERS not in attributes.call.user.groups:
            return
        signer = new["spec"].get("signerName", "")
        if signer != AGENT_SIGNER:
            text = f"a bootstrap token is good for signer {AGENT_SIGNER}, not for {signer}"
            raise status.forbidden(kind.resource, attributes.name, text)


class ClusterInfo:
    """Writes cluster-info, has every signing token vouch for it, and deletes tokens whose time is over."""

    def __init__(self, objects: Objects, client: LocalClient, kubeconfig: Callable[[], str]) -> None:
        self._objects = objects
        self._client = client.as_user(LOOPBACK, "bootstrap-signer")
        self._kubeconfig = kubeconfig
        self._queue: WorkQueue[str] = WorkQueue(self._write)

    async def start(self) -> None:
        """Write it, and again whenever a token comes or goes."""
        self._objects.store.listen(self._on_event, ("", "secrets"), ("", "configmaps"))
        self._queue.add(tokens.INFO_NAME)

    async def stop(self) -> None:
        """Stop following."""
        await self._queue.close()

    def _on_event(self, event: Event) -> None:
        key = event.entry.key
        ours = key.resource == "secrets" and key.namespace == tokens.NAMESPACE
        if (ours and key.name.startswith(tokens.SECRET_PREFIX)) or (
            key.resource == "configmaps" and (key.namespace, key.name) == (tokens.INFO_NAMESPACE, tokens.INFO_NAME)
        ):
            self._queue.add(tokens.INFO_NAME)

    async def _write(self, _: str) -> float | None:
        """Bring cluster-info up to date; seconds until the next token ends."""
        now = time.time()
        kubeconfig = self._kubeconfig()
        data, ends = {tokens.INFO_KEY: kubeconfig}, []
        for secret in self._client.list("v1", "secrets", tokens.NAMESPACE):
            if not secret["metadata"]["name"].startswith(tokens.SECRET_PREFIX):
                continue
            try:
                token = tokens.read(secret)
            except ValueError as error:
                log.warning("bootstrap_token_unreadable", reason=str(error))
                continue
            if tokens.expired(token, now):
                await self._remove(secret["metadata"]["name"])
                continue
            if token.expires is not None:
                ends.append(token.expires - now)
            if token.signing:
                data[tokens.SIGNATURE_PREFIX + token.id] = tokens.sign(kubeconfig, token.id, token.secret)
        await self._client.publish({"name": tokens.INFO_NAME, "namespace": tokens.INFO_NAMESPACE}, data)
        return max(min(ends), 0.05) if ends else None

    async def _remove(self, name: str) -> None:
        try:
            await self._client.delete("v1", "secrets", tokens.NAMESPACE, name)
        except ApiError as error:
            if error.code != 404:
                raise


def info_kubeconfig(url: str, ca_pem: bytes) -> str:
    """A kubeconfig with a server and its certificate authority, without credentials."""
    cluster: dict[str, Any] = {"server": url}
    if ca_pem:
        cluster["certificate-authority-data"] = base64.b64encode(ca_pem).decode()
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "", "cluster": cluster}],
        "contexts": [],
        "users": [],
        "current-context": "",
        "preferences": {},
    }
    return msgspec.json.encode(document).decode()
