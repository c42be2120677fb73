"""The command `fleetlog nats sign`: gives agents that ask with a bootstrap token an identity, and enters them.

A request is a CertificateSigningRequest for the signer `fleetlog.io/agent`, made with the key of the agent's NATS user:
who asks proves to have the key, and the key stays where it is. What comes back is the user's token, as an annotation.
Only this command holds the operator's keys; neither the API server nor any service does.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable
from typing import Final, Protocol

from msgspec import Struct

from schemas.manifest import Manifest
from services._kit.kube.client import ApiError, KubeClient, Unreachable, resource_path
from services._rules.constants import CLUSTER_API
from services._rules.identity import bootstrap_tokens as rules
from services.cli.common.control_plane import open_control
from services.cli.common.karmadactl_options import ControlPlaneOptions
from services.cli.common.layout import CONTROL, Layout
from services.cli.common.running import Failed, complain
from services.cli.members.clusters import CLUSTERS
from services.cli.members.membership import check_name
from services.cli.nats.account_claims import admit, reachable, trusted_authority
from services.cli.nats.authority import Authority
from services.cli.nats.server_identities import admit_key

REQUESTS: Final = resource_path("certificates.k8s.io", "v1", "certificatesigningrequests")
TRAITS: Final = ("id", "provider", "region", "zones", "apiEndpoint", "proxyURL")
"""Fields of a Cluster that a request may say, as annotations."""
TRAIT_PREFIX: Final = "fleetlog.io/cluster-"
REQUEST_ANNOTATION: Final = "fleetlog.io/registered-by"
_AGAIN: Final = (409, 410, 500, 503)
_PAUSE: Final = 2.0


class Grants(Protocol):
    """Who lets agents in at the log's servers; `url` is theirs, `authority` (PEM) whom agents believe to be them."""

    url: str
    authority: str

    async def check(self) -> None:
        """Raises Failed while the servers could not be told."""
        ...

    async def admit(self, cluster: str, user: str) -> str:
        """Let the agent with this public key in; the token it needs beside its key, empty for none. Raises Failed."""
        ...


class OperatorGrants:
    """Accounts signed with an operator's keys."""

    def __init__(self, authority: Authority, url: str) -> None:
        self._authority = authority
        self.url = url
        self.authority = trusted_authority()

    async def check(self) -> None:
        """Raises Failed while the servers are not reached."""
        await reachable(self._authority, self.url)

    async def admit(self, cluster: str, user: str) -> str:
        """Sign an account, hand it to the servers; the token of the user."""
        return await admit(self._authority, self.url, cluster, user)


class InstallationGrants:
    """Accounts in the configuration of the server that `fleetlog up` runs: the key alone lets an agent in."""

    def __init__(self, layout: Layout, url: str) -> None:
        self._layout = layout
        self.url = url
        self.authority = ""

    async def check(self) -> None:
        """An installation that does not run is told by its files."""

    async def admit(self, cluster: str, user: str) -> str:
        """Enter the key into the server's configuration, and wait until the server has read it."""
        await admit_key(self._layout, cluster, user)
        return ""


class Wanted(Struct, frozen=True):
    """What a good request asks for: the cluster's name, and the public key (`U…`) of its agent's user."""

    cluster: str
    user: str


def wanted(request: Manifest) -> Wanted:
    """What a request asks for; raises Failed saying why it cannot be granted."""
    from cryptography import x509
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.x509.oid import NameOID

    spec = request["spec"]
    if rules.BOOTSTRAPPERS not in (spec.get("groups") or ()):
        raise Failed(f"{spec.get('username')} does not bear a bootstrap token")
    try:
        asked = x509.load_pem_x509_csr(base64.b64decode(spec["request"]))
        key = asked.public_key()
        signed = asked.is_signature_valid
    except (ValueError, InvalidSignature, UnsupportedAlgorithm) as error:
        raise Failed(f"the request cannot be read: {error}") from None
    if not isinstance(key, Ed25519PublicKey) or not signed:
        raise Failed("the request is not signed with the key of a NATS user (Ed25519)")
    names = [str(one.value) for one in asked.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    groups = [str(one.value) for one in asked.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)]
    if groups != [rules.AGENTS_GROUP] or len(names) != 1 or not names[0].startswith(rules.AGENT_PREFIX):
        raise Failed(f"the request is not of group {rules.AGENTS_GROUP} or its name is not {rules.AGENT_PREFIX}NAME")
    cluster = names[0].removeprefix(rules.AGENT_PREFIX)
    check_name(cluster)
    return Wanted(cluster, user_key(key.public_bytes_raw()))


def user_key(raw: bytes) -> str:
    """The public key of a NATS user as text, from its 32 bytes."""
    import nkeys

    body = bytes([nkeys.PREFIX_BYTE_USER]) + raw
    return base64.b32encode(body + nkeys.crc16_checksum(body)).decode().rstrip("=")


async def answer_agents(layout: Layout) -> int:
    """Answer those that ask an installation's own control plane, beside everything else that runs."""
    installation = layout.load()
    assert installation is not None
    grants = InstallationGrants(layout, installation.log_url)
    return await sign(ControlPlaneOptions(str(layout.kubeconfig(CONTROL))), grants, ready=lambda: None)


def _say_ready() -> None:
    print("ready", flush=True)


async def sign(
    target: ControlPlaneOptions, grants: Grants, *, once: bool = False, ready: Callable[[], None] = _say_ready
) -> int:
    """Answer requests until asked to stop; with `once` those that wait now. Calls `ready` where it begins to listen."""
    async with open_control(target) as control:
        while True:
            try:
                revision = await answer_all(control.client, grants)
                if once:
                    return 0
                ready()
                async for _ in control.client.watch(REQUESTS, revision):
                    await answer_all(control.client, grants)
            except Unreachable as error:
                complain(f"the control plane is away, looking again: {error}")
                await asyncio.sleep(_PAUSE)
            except Failed as error:
                complain(f"looking again: {error}")
                await asyncio.sleep(_PAUSE)
            except ApiError as error:
                if error.status not in _AGAIN:
                    raise


async def answer_all(client: KubeClient, grants: Grants) -> str:
    """Answer every request that waits; the revision up to which was looked. Raises Failed when servers are away."""
    listed = await client.get(f"{REQUESTS}?fieldSelector=spec.signerName%3D{rules.AGENT_SIGNER.replace('/', '%2F')}")
    for request in listed.get("items") or ():
        decided = (request.get("status") or {}).get("conditions")
        if decided or rules.TOKEN_ANNOTATION in (request["metadata"].get("annotations") or {}):
            continue
        await _answer(client, grants, request)
    return str(listed["metadata"]["resourceVersion"])


async def _answer(client: KubeClient, grants: Grants, request: Manifest) -> None:
    name = request["metadata"]["name"]
    try:
        asked = wanted(request)
    except Failed as error:
        await _decide(client, request, "Denied", str(error))
        return
    # Nothing is entered that could not be finished.
    await grants.check()
    try:
        await _enter(client, asked.cluster, request)
    except Failed as error:
        await _decide(client, request, "Denied", str(error))
        return
    token = await grants.admit(asked.cluster, asked.user)
    annotations = {rules.TOKEN_ANNOTATION: token, rules.URL_ANNOTATION: grants.url}
    if grants.authority:
        annotations[rules.AUTHORITY_ANNOTATION] = grants.authority
    await client.patch(f"{REQUESTS}/{name}", {"metadata": {"annotations": annotations}})
    await _decide(client, request, "Approved", f"the agent of {asked.cluster} is let in")
    complain(f"{asked.cluster}: its agent is let in, asked for by {request['spec'].get('username')}")


async def _enter(client: KubeClient, cluster: str, request: Manifest) -> None:
    """Write the Cluster of a request, unless this very request has written it; raises Failed when it is taken."""
    uid, said = request["metadata"]["uid"], request["metadata"].get("annotations") or {}
    identity = said.get(f"{TRAIT_PREFIX}id", "")
    for item in (await client.get(CLUSTERS)).get("items") or ():
        other = item["metadata"]["name"]
        if other == cluster:
            if (item["metadata"].get("annotations") or {}).get(REQUEST_ANNOTATION) == uid:
                return
            raise Failed(f"cluster {cluster} is registered already; unregister it first or choose another name")
        if identity and item["spec"].get("id") == identity:
            raise Failed(f"this cluster is registered already, under the name {other}")
    spec: Manifest = {"syncMode": "Pull"}
    for field in TRAITS:
        value = said.get(f"{TRAIT_PREFIX}{field}", "")
        if value:
            spec[field] = value.split(",") if field == "zones" else value
    metadata = {"name": cluster, "annotations": {REQUEST_ANNOTATION: uid}}
    try:
        await client.create(
            CLUSTERS, {"apiVersion": CLUSTER_API, "kind": "Cluster", "metadata": metadata, "spec": spec}
        )
    except ApiError as error:
        if error.status == 409:
            # Another one answers, too, and was first.
            await _enter(client, cluster, request)
            return
        if error.status != 422:
            raise
        raise Failed(f"cluster {cluster} cannot be entered: {error.message}") from None


async def _decide(client: KubeClient, request: Manifest, word: str, why: str) -> None:
    """Say on a request how it was answered."""
    path = f"{REQUESTS}/{request['metadata']['name']}"
    condition = {"type": word, "status": "True", "reason": "FleetlogAgent", "message": why}
    live = await client.get(path)
    live["status"] = {**(live.get("status") or {}), "conditions": [condition]}
    await client.update(f"{path}/approval", live)
