"""The command `karmadactl register`: a cluster becomes a pull member with a bootstrap token.

It runs where the member's kubeconfig is and needs no kubeconfig of the control plane: the token finds the right one
(cluster-info, which it signs) and lets it ask for the identity of the member's agent. The agent's key is made here and
stays here. Source: docs/sources.md#registration.
"""

from __future__ import annotations

import asyncio
import base64
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from schemas.manifest import Manifest
from services._kit.base.private_files import private_text
from services._kit.kube.client import ApiError, KubeClient
from services._kit.kube.route import proxy_problem
from services._rules.constants import AGENT_SIGNER
from services._rules.identity import bootstrap_tokens as rules
from services._rules.identity.account_tokens import creds_text
from services.cli.common.control_plane import kubeconfig_path, read_kubeconfig
from services.cli.common.karmadactl_options import MemberFile
from services.cli.common.moments import seconds_of
from services.cli.common.running import Failed, complain, patience
from services.cli.hosting.rolling_out import path_of, put, until_ready
from services.cli.members.join import save_kubeconfig
from services.cli.members.member_account import MemberAccess, member_identity
from services.cli.members.member_options import RegisterOptions
from services.cli.members.membership import check_name, member_id, open_member_file
from services.cli.members.pull_join import AUTHORITY, CREDS, SEED, start_agent
from services.cli.members.signing import REQUESTS, TRAIT_PREFIX
from services.cli.members.token import ca_hashes
from services.cli.nats.nkeys import key_of, new_seed
from services.cli.registration.agent_manifests import NAME as AGENT
from services.cli.registration.agent_manifests import AgentPlan, agent_objects, agent_places

_INFO: Final = f"/api/v1/namespaces/{rules.INFO_NAMESPACE}/configmaps/{rules.INFO_NAME}"
_PAUSE: Final = 1.0
_TIMEOUT: Final = 10.0
_TELLS_AFTER: Final = 45.0


class _Plane(Struct, frozen=True):
    """The control plane as the token vouches for it."""

    url: str
    ca_pem: str

    def call(self, method: str, path: str, token: str = "", body: Manifest | None = None) -> Manifest:
        """One request; raises Failed with the server's words."""
        return _call(self.url, method, path, _context(self.ca_pem), token, body)


class _LetIn(Struct, frozen=True):
    """What an agent needs beside its key: the token of its user (empty where the key is enough), and the log."""

    token: str
    url: str
    authority: str
    """Of the log's servers; empty for one that every system trusts."""


async def register(options: RegisterOptions) -> int:
    """Register the cluster of a kubeconfig; raises Failed and JoinRefused, and then nothing was changed."""
    token = rules.parse(options.token)
    if token is None:
        raise Failed(f"--token {options.token!r} is no token: six and sixteen letters, with a point between them")
    if not options.hashes and not options.skip_ca:
        raise Failed(
            "say which authority is the right one with --discovery-token-ca-cert-hash (karmadactl token create "
            "--print-register-command prints it), or trust the token: --discovery-token-unsafe-skip-ca-verification"
        )
    for one in options.hashes:
        if not one.lower().startswith("sha256:") or len(one) != len("sha256:") + 64:
            raise Failed(f"--discovery-token-ca-cert-hash {one!r} is no hash: sha256: and 64 digits")
    seconds = seconds_of(options.discovery_timeout, "--discovery-timeout")
    path, name = _member(options)
    place = _place(options.agent_dir)
    if options.rotation:
        complain("note: --enable-cert-rotation: not needed, the agent's identity does not expire")
    if options.proxy and (problem := proxy_problem(options.proxy)):
        raise Failed(f"--proxy-server-address {problem}")
    file = MemberFile(str(path), options.context)
    async with patience(f"registering {name}"), open_member_file(file) as (member, given):
        if place is None and (found := await left_of_agents(member, options.pods.namespace)):
            for each in found:
                complain(f"[preflight] {each} exists already in the member")
            raise Failed("another agent is there, or was; remove it: karmadactl unregister NAME --cluster-kubeconfig F")
        print("[preflight] nothing of another agent is there", flush=True)
        identity = await member_id(member, file)
        plane = await discover(options, token, seconds)
        print(f"[preflight] the control plane is {plane.url}", flush=True)
        if options.dry_run:
            print(f"cluster({name}) would be registered (dry run)")
            return 0
        seed = new_seed("user")
        let_in = await _ask(plane, options, name, _said(identity, given, options), seed, seconds)
        text = creds_text(let_in.token, seed) if let_in.token else seed
        if place is None:
            await _deploy(member, name, let_in, text, options)
        else:
            private_text(place / (CREDS if let_in.token else SEED), text)
            if let_in.authority:
                private_text(place / AUTHORITY, let_in.authority)
            access = await member_identity(member, name, given, options.namespace)
            save_kubeconfig(place / "member.kubeconfig", access, name)
    print(f"cluster({name}) is joined successfully")
    if place is not None:
        print(start_agent(name, place, let_in.url, _requests(options)), end="")
    return 0


def _requests(options: RegisterOptions) -> str:
    """Which requests of people the agent answers: who names a way to the member wants it to be used."""
    return options.requests or ("all" if options.proxy else "")


def _said(identity: str, given: MemberAccess, options: RegisterOptions) -> dict[str, str]:
    """What the request says of the cluster, by fields of its spec."""
    traits = options.traits
    said = {"id": identity, "provider": traits.provider, "region": traits.region, "zones": ",".join(traits.zones)}
    return {**said, "apiEndpoint": given.endpoint, "proxyURL": options.proxy}


async def left_of_agents(member: KubeClient, namespace: str) -> list[str]:
    """What an agent of before has left in the member and would be overwritten."""
    found = []
    for kind, api_version, place, name in agent_places(namespace):
        if not place:
            continue
        try:
            await member.get(path_of(kind, api_version, place, name))
        except ApiError as error:
            if error.status != 404:
                raise
        else:
            found.append(f"{kind} {place}/{name}")
    return found


async def _deploy(member: KubeClient, name: str, let_in: _LetIn, identity: str, options: RegisterOptions) -> None:
    """Run the agent in the member; raises Failed where it does not get ready."""
    pods = options.pods
    plan = AgentPlan(
        cluster=name,
        namespace=pods.namespace,
        url=let_in.url,
        identity=identity,
        signed=bool(let_in.token),
        authority=let_in.authority,
        requests=_requests(options),
        image=pods.image,
        replicas=pods.replicas,
    )
    for item in agent_objects(plan):
        await put(member, item)
    print(f"[karmada-agent-start] waiting until the agent in {pods.namespace} is ready", flush=True)
    seconds = seconds_of(pods.timeout, "--agent-timeout")
    try:
        await until_ready(member, "Deployment", pods.namespace, AGENT, seconds, "--agent-timeout")
    except Failed as error:
        raise Failed(
            f"{error}. The cluster is entered and its agent deployed: it is a member once the agent runs; "
            f"`karmadactl unregister {name}` takes both back"
        ) from None


async def discover(options: RegisterOptions, token: tuple[str, str], seconds: float) -> _Plane:
    """Find the control plane and make sure that it is the one that the token and the hashes mean; raises Failed."""
    url = f"https://{options.endpoint.removeprefix('https://').rstrip('/')}"
    deadline = time.monotonic() + seconds
    signature = rules.SIGNATURE_PREFIX + token[0]
    while True:
        try:
            data = (await asyncio.to_thread(_call, url, "GET", _INFO, _context("", verify=False)))["data"]
            if signature in data:
                break
            why = f"{url} knows no token with id {token[0]}; it is wrong, deleted or expired"
        except Failed as error:
            why = str(error)
        if time.monotonic() + _PAUSE > deadline:
            raise Failed(f"the control plane was not found within {options.discovery_timeout}: {why}")
        await asyncio.sleep(_PAUSE)
    kubeconfig = data[rules.INFO_KEY]
    if not rules.vouches(data[signature], kubeconfig, *token):
        raise Failed(f"the token does not vouch for {url}: its secret is another one, or this is not its control plane")
    cluster = msgspec.yaml.decode(kubeconfig.encode())["clusters"][0]["cluster"]
    ca_pem = base64.b64decode(cluster.get("certificate-authority-data", "")).decode()
    if options.skip_ca and not options.hashes:
        return _Plane(url, ca_pem)
    pinned = {one.lower() for one in options.hashes}
    found = ca_hashes(ca_pem)
    if pinned.isdisjoint(found):
        raise Failed(f"the authority of {url} is none of those given; it is {', '.join(found) or 'none at all'}")
    plane = _Plane(url, ca_pem)
    if (await asyncio.to_thread(plane.call, "GET", _INFO))["data"][rules.INFO_KEY] != kubeconfig:
        raise Failed(f"{url} describes itself in another way over a verified connection; it may be intercepted")
    return plane


async def _ask(
    plane: _Plane, options: RegisterOptions, name: str, said: Mapping[str, str], seed: str, seconds: float
) -> _LetIn:
    """What the control plane answers; raises Failed when the request is denied."""
    body = {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {
            "generateName": f"{name}-",
            "annotations": {f"{TRAIT_PREFIX}{field}": value for field, value in said.items() if value},
        },
        "spec": {
            "signerName": AGENT_SIGNER,
            "usages": ["digital signature", "client auth"],
            "request": base64.b64encode(request_of(seed, name)).decode(),
        },
    }
    asked = await asyncio.to_thread(plane.call, "POST", REQUESTS, options.token, body)
    path = f"{REQUESTS}/{asked['metadata']['name']}"
    began, told = time.monotonic(), False
    deadline = began + seconds
    while True:
        live = await asyncio.to_thread(plane.call, "GET", path, options.token)
        for condition in (live.get("status") or {}).get("conditions") or ():
            if condition["type"] == "Denied":
                raise Failed(f"the control plane does not let {name} in: {condition.get('message')}")
        found = live["metadata"].get("annotations") or {}
        if rules.TOKEN_ANNOTATION in found:
            url, authority = (found.get(each, "") for each in (rules.URL_ANNOTATION, rules.AUTHORITY_ANNOTATION))
            return _LetIn(found[rules.TOKEN_ANNOTATION], url, authority)
        if not told and time.monotonic() - began > _TELLS_AFTER:
            # A kubelet needs a minute or two until the log's servers know an agent.
            told = True
            complain(
                f"request {asked['metadata']['name']} has no answer yet; there, `kubectl logs deployment/agent-signer` "
                "says what it waits for, or nothing answers: run `fleetlog nats sign`"
            )
        if time.monotonic() + _PAUSE > deadline:
            raise Failed(
                f"no answer to the request {asked['metadata']['name']}; does agent-signer run there? Where the "
                "operator's keys are, or the installation, run: fleetlog nats sign"
            )
        await asyncio.sleep(_PAUSE)


def _place(directory: str) -> Path | None:
    """Where the agent's files go, None for an agent that is deployed; raises Failed where there is an agent's."""
    if not directory:
        return None
    place = Path(directory).expanduser().resolve()
    if any((place / file).exists() for file in (CREDS, SEED)):
        raise Failed(f"an agent has an identity in {place}; unregister it, or use another --agent-dir")
    return place


def _member(options: RegisterOptions) -> tuple[Path, str]:
    """The member's kubeconfig and its name."""
    path = kubeconfig_path(options.kubeconfig)
    name = options.name or _cluster_of(read_kubeconfig(path), options.context)
    check_name(name)
    return path, name


def request_of(seed: str, name: str) -> bytes:
    """A certificate signing request in PEM, for the agent of a cluster, by the key of a NATS user."""
    import nkeys
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding
    from cryptography.x509.oid import NameOID

    assert key_of(seed) is not None
    _, raw = nkeys.decode_seed(bytearray(seed.encode()))
    key = Ed25519PrivateKey.from_private_bytes(bytes(raw))
    subject = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, rules.AGENTS_GROUP),
            x509.NameAttribute(NameOID.COMMON_NAME, f"{rules.AGENT_PREFIX}{name}"),
        ]
    )
    return x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, None).public_bytes(Encoding.PEM)


def _cluster_of(kubeconfig: Manifest, context: str) -> str:
    """The name that the kubeconfig gives its cluster; raises Failed for a context that is not there."""
    chosen = context or kubeconfig.get("current-context") or ""
    for entry in kubeconfig.get("contexts") or ():
        if entry.get("name") == chosen:
            return str((entry.get("context") or {}).get("cluster") or "")
    raise Failed(f"the kubeconfig has no context {chosen!r}; say --cluster-name and --context")


def _context(ca_pem: str, *, verify: bool = True) -> ssl.SSLContext:
    if verify and ca_pem:
        return ssl.create_default_context(cadata=ca_pem)
    context = ssl.create_default_context()
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _call(
    url: str, method: str, path: str, context: ssl.SSLContext, token: str = "", body: Manifest | None = None
) -> Manifest:
    data = None if body is None else msgspec.json.encode(body)
    request = urllib.request.Request(f"{url}{path}", data=data, method=method)
    request.add_header("Content-Type", "application/json")
    if token:
        request.add_header("Authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT, context=context) as response:
            found: Manifest = msgspec.json.decode(response.read(), type=dict[str, Any])
            return found
    except urllib.error.HTTPError as error:
        with error:
            text = error.read()
        if error.code == 401:
            raise Failed(f"{url} does not know the token; it is wrong, deleted or expired") from None
        try:
            why = msgspec.json.decode(text, type=dict[str, Any]).get("message") or ""
        except msgspec.MsgspecError:
            why = ""
        raise Failed(f"{url} refuses {method} {path}: {why or error.code}") from None
    except (urllib.error.URLError, OSError, msgspec.MsgspecError) as error:
        raise Failed(f"{url} does not answer: {getattr(error, 'reason', None) or error}") from None
