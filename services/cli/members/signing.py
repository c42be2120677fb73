"""The command `fleetlog nats sign`: gives agents that ask with a bootstrap token an identity, and enters them.

A request is a CertificateSigningRequest for the signer `fleetlog.io/agent`, made with the key of the agent's NATS user:
who asks proves to have the key, and the key stays where it is. What comes back is the user's token, as an annotation.
Only this command holds the operator's keys; neither the API server nor any service does.
"""

from __future__ import annotations

import asyncio
import base64
import signal
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Final, Protocol

from msgspec import Struct
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

from schemas.manifest import Manifest
from services._kit.base.health import Health, HealthServer
from services._kit.concurrency.tasks import all_of, first_of
from services._kit.credentials.kubeconfig import open_kubeconfig
from services._kit.kube.api import is_absent
from services._kit.kube.client import ApiError, KubeClient, Unreachable, resource_path
from services._rules.constants import AGENT_SIGNER, CLUSTER_API
from services._rules.identity import bootstrap_tokens as rules
from services.cli.common.control_plane import kubeconfig_path, open_control, read_kubeconfig
from services.cli.common.karmadactl_options import ControlPlaneOptions
from services.cli.common.layout import Layout
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
_ANSWERS: Final = ("admitted", "denied", "expelled")


class Grants(Protocol):
    """Who lets agents in at the log's servers; `url` is theirs, `authority` (PEM) whom agents believe to be them."""

    url: str
    authority: str

    async def check(self) -> None:
        """Raises Failed while the servers could not be told."""
        ...

    async def admit(self, users: Mapping[str, str]) -> dict[str, str]:
        """Let agents in, by cluster with the public key; the token of each beside its key, empty for none.

        Raises Failed.
        """
        ...

    async def registered(self) -> Collection[str]:
        """Clusters whose agents are shut out here once their Clusters are gone; raises Failed."""
        ...

    async def expel(self, cluster: str) -> None:
        """Shut out the agent of one of these; raises Failed."""
        ...


class _LeftToUnjoin:
    """Agents that the command which removes their Cluster shuts out: it has the same keys."""

    async def registered(self) -> Collection[str]:
        """None."""
        return ()

    async def expel(self, cluster: str) -> None:
        """Never asked for."""
        raise AssertionError(cluster)


class OperatorGrants(_LeftToUnjoin):
    """Accounts signed with an operator's keys."""

    def __init__(self, authority: Authority, url: str) -> None:
        self._authority = authority
        self.url = url
        self.authority = trusted_authority()

    async def check(self) -> None:
        """Raises Failed while the servers are not reached."""
        await reachable(self._authority, self.url)

    async def admit(self, users: Mapping[str, str]) -> dict[str, str]:
        """Sign accounts, hand them to the servers; the tokens of the users."""
        return {cluster: await admit(self._authority, self.url, cluster, user) for cluster, user in users.items()}


class InstallationGrants(_LeftToUnjoin):
    """Accounts in the configuration of the server that `fleetlog up` runs: the key alone lets an agent in."""

    def __init__(self, layout: Layout, url: str) -> None:
        self._layout = layout
        self.url = url
        self.authority = ""

    async def check(self) -> None:
        """An installation that does not run is told by its files."""

    async def admit(self, users: Mapping[str, str]) -> dict[str, str]:
        """Enter the keys into the server's configuration, and wait until the server has read them."""
        for cluster, user in users.items():
            await admit_key(self._layout, cluster, user)
        return dict.fromkeys(users, "")


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


async def answer_agents(layout: Layout, kubeconfig: Path) -> int:
    """Answer those that ask an installation's own control plane, beside everything else that runs."""
    installation = layout.load()
    assert installation is not None
    grants = InstallationGrants(layout, installation.log_url)
    return await sign(ControlPlaneOptions(str(kubeconfig)), grants, ready=lambda: None)


def _say_ready() -> None:
    print("ready", flush=True)


async def sign(
    target: ControlPlaneOptions, grants: Grants, *, once: bool = False, ready: Callable[[], None] = _say_ready
) -> int:
    """Answer requests until asked to stop; with `once` those that wait now. Calls `ready` where it begins to listen."""
    async with open_control(target) as control:
        signer = Signer(control.client, grants)
        await (signer.once() if once else signer.run(ready))
    return 0


async def serve(target: ControlPlaneOptions, grants: Grants, host: str, port: int) -> int:
    """The same as a part of an installation: with its health at a port (0: a free one), patient, until asked to end."""
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    health, registry = Health(), CollectorRegistry()
    path = kubeconfig_path(target.kubeconfig)
    read_kubeconfig(path)
    # Its certificate is renewed.
    client = await open_kubeconfig(path)
    signer = Signer(client, grants, patient=True)
    health.check("requests", lambda: signer.lacks.get(REQUESTS, "nothing was answered yet"))
    health.check("clusters", lambda: signer.lacks.get(CLUSTERS, ""))
    registry.register(signer)
    server = HealthServer(health, registry, host, port)
    await server.start()
    complain(f"health is told at port {server.port}")
    try:
        await first_of(signer.run(_say_ready), ended.wait())
    finally:
        await server.stop()
        await client.close()
    return 0


class Signer(Collector):
    """Answers requests as they come, and shuts out agents whose Clusters are removed.

    One that is `patient` waits for definitions and rights that the control plane lacks. `lacks` has the reasons why it
    could not do its work, by what it looks at; empty texts where it could.
    """

    def __init__(self, client: KubeClient, grants: Grants, *, patient: bool = False) -> None:
        self._client = client
        self._grants = grants
        self._again = (*_AGAIN, 401, 403, 404) if patient else _AGAIN
        self._answers: Counter[str] = Counter()
        self.lacks: dict[str, str] = {}

    def collect(self) -> Iterator[CounterMetricFamily]:
        """How many agents were let in, refused and shut out."""
        found = CounterMetricFamily("fleetlog_agent_signer_answers", "Agents by what was decided.", labels=["answer"])
        for answer in _ANSWERS:
            found.add_metric([answer], self._answers[answer])
        yield found

    async def run(self, ready: Callable[[], None]) -> None:
        """Look, and again with each change, for ever; raises ApiError for what does not pass by itself."""
        await all_of(
            [
                self._follow(REQUESTS, self._answer_all, ("ADDED", "MODIFIED"), ready),
                # Clusters change all the time.
                self._follow(CLUSTERS, self._expel_removed, ("DELETED",), lambda: None),
            ]
        )

    async def once(self) -> None:
        """Answer those that wait now."""
        await self._follow(REQUESTS, self._answer_all)

    async def _follow(
        self,
        what: str,
        look: Callable[[], Awaitable[str]],
        changes: Collection[str] = (),
        listening: Callable[[], None] | None = None,
    ) -> None:
        """Look until it could be done; then tell `listening`, and look again with changes. None: once is enough."""
        while True:
            try:
                revision = await look()
                self.lacks[what] = ""
                if listening is None:
                    return
                listening()
                async for events in self._client.watch(what, revision):
                    if any(event.type in changes for event in events):
                        await look()
                continue
            except Unreachable as error:
                why = f"the control plane is away: {error}"
            except Failed as error:
                why = str(error)
            except ApiError as error:
                if error.status not in self._again:
                    raise
                if error.status == 410:
                    continue
                why = f"the control plane answers: {error.message}"
            complain(f"{why}; looking again")
            self.lacks[what] = why
            await asyncio.sleep(_PAUSE)

    async def _answer_all(self) -> str:
        """Answer the requests that wait, together; the revision up to which was looked. Raises Failed."""
        signer = AGENT_SIGNER.replace("/", "%2F")
        listed = await self._client.get(f"{REQUESTS}?fieldSelector=spec.signerName%3D{signer}")
        waiting = [request for request in listed.get("items") or () if _waits(request)]
        if waiting:
            # Nothing is entered that could not be finished.
            await self._grants.check()
        entered: list[tuple[Manifest, Wanted]] = []
        for request in waiting:
            try:
                asked = wanted(request)
                await _enter(self._client, asked.cluster, request)
            except Failed as error:
                await _decide(self._client, request, "Denied", str(error))
                self._answers["denied"] += 1
            else:
                entered.append((request, asked))
        if entered:
            tokens = await self._grants.admit({asked.cluster: asked.user for _, asked in entered})
            for request, asked in entered:
                await self._let_in(request, asked.cluster, tokens[asked.cluster])
        return str(listed["metadata"]["resourceVersion"])

    async def _let_in(self, request: Manifest, cluster: str, token: str) -> None:
        """Answer a request whose agent the log's servers know."""
        annotations = {rules.TOKEN_ANNOTATION: token, rules.URL_ANNOTATION: self._grants.url}
        if self._grants.authority:
            annotations[rules.AUTHORITY_ANNOTATION] = self._grants.authority
        await self._client.patch(
            f"{REQUESTS}/{request['metadata']['name']}", {"metadata": {"annotations": annotations}}
        )
        await _decide(self._client, request, "Approved", f"the agent of {cluster} is let in")
        self._answers["admitted"] += 1
        complain(f"{cluster}: its agent is let in, asked for by {request['spec'].get('username')}")

    async def _expel_removed(self) -> str:
        """Shut out agents whose Clusters are gone; the revision up to which was looked."""
        listed = await self._client.get(CLUSTERS)
        known = {item["metadata"]["name"] for item in listed.get("items") or ()}
        registered = {*await self._grants.registered()}
        gone = sorted(registered - known)
        if len(gone) > max(1, len(registered) // 2):
            # A control plane that was restored, or another one, knows few of them.
            complain(
                f"{len(gone)} of {len(registered)} clusters are gone at once; `fleetlog nats revoke` shuts them out"
            )
            gone = []
        for cluster in gone:
            # It may have registered again since.
            if await self._gone(cluster):
                await self._grants.expel(cluster)
                self._answers["expelled"] += 1
                complain(f"{cluster}: its agent is shut out, the cluster is no member any more")
        return str(listed["metadata"]["resourceVersion"])

    async def _gone(self, cluster: str) -> bool:
        try:
            await self._client.get(f"{CLUSTERS}/{cluster}")
        except ApiError as error:
            if not is_absent(error):
                raise
            return True
        return False


def _waits(request: Manifest) -> bool:
    """Whether a request has no answer yet."""
    decided = (request.get("status") or {}).get("conditions")
    return not decided and rules.TOKEN_ANNOTATION not in (request["metadata"].get("annotations") or {})


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
