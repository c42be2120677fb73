"""The commands `karmadactl token …`: bootstrap tokens, with which clusters register themselves.

Source: docs/sources.md#commands.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
import string
import time
from typing import Final

from services._kit.kube.client import ApiError, KubeClient, resource_path
from services._rules.identity import bootstrap_tokens as rules
from services.cli.common.control_plane import kubeconfig_path, open_control, read_kubeconfig
from services.cli.common.karmadactl_options import ControlPlaneOptions
from services.cli.common.moments import seconds_of, stamp
from services.cli.common.printing import render, table
from services.cli.common.running import Failed, complain
from services.cli.members.join import access_of_kubeconfig
from services.cli.members.member_options import TokenOptions

USAGES: Final = ("signing", "authentication")
_LETTERS: Final = string.ascii_lowercase + string.digits
_SECRETS: Final = resource_path("", "v1", "secrets", rules.NAMESPACE)
_INFO: Final = resource_path("", "v1", "configmaps", rules.INFO_NAMESPACE, rules.INFO_NAME)


async def create(target: ControlPlaneOptions, options: TokenOptions) -> int:
    """Make a token (or the given one) and print it, or the command that registers a cluster with it; raises Failed."""
    token = rules.parse(options.given) if options.given else (_random(6), _random(16))
    if token is None:
        raise Failed(
            f"{options.given!r} is no token: six and sixteen lower-case letters or digits, with a point between them"
        )
    seconds = 0.0 if options.ttl == "0" else seconds_of(options.ttl, "--ttl")
    usages, groups = options.usages or USAGES, options.groups or (rules.DEFAULT_GROUP,)
    unknown = [usage for usage in usages if usage not in USAGES]
    if unknown:
        raise Failed(f"--usages are {' and '.join(USAGES)}, not {', '.join(unknown)}")
    for group in groups:
        if not group.startswith(f"{rules.BOOTSTRAPPERS}:"):
            raise Failed(f"--groups: {group} does not begin with {rules.BOOTSTRAPPERS}:")
    data = {"token-id": token[0], "token-secret": token[1], "auth-extra-groups": ",".join(groups)}
    data |= {f"usage-bootstrap-{usage}": "true" for usage in usages}
    if options.description:
        data["description"] = options.description
    if seconds:
        data["expiration"] = stamp(time.time() + seconds, "seconds")
    manifest = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": rules.SECRET_PREFIX + token[0], "namespace": rules.NAMESPACE},
        "type": rules.SECRET_TYPE,
        "data": {key: base64.b64encode(value.encode()).decode() for key, value in data.items()},
    }
    async with open_control(target) as control:
        try:
            await control.client.create(_SECRETS, manifest)
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
            raise Failed(f"a token with id {token[0]} exists already; delete it or use another one") from None
        if "signing" in usages:
            await _vouch(control.client, *token)
    text = ".".join(token)
    print(register_command(target, text) if options.print_register_command else text)
    return 0


async def show(target: ControlPlaneOptions, output: str = "") -> int:
    """Print the tokens that there are, as a table, JSON or YAML; a Secret that holds none is reported and left out."""
    async with open_control(target) as control:
        found = await _all(control.client)
    now = time.time()
    headers = ("TOKEN", "TTL", "EXPIRES", "USAGES", "DESCRIPTION", "EXTRA GROUPS")
    rows = []
    for token in found:
        usages = [name for name, on in zip(USAGES, (token.signing, token.authentication), strict=True) if on]
        expires = token.expires
        rows.append(
            (
                token.text,
                "<forever>" if expires is None else _span(expires - now),
                "<never>" if expires is None else stamp(expires, "seconds"),
                ",".join(usages),
                token.description,
                ",".join(token.groups),
            )
        )
    names = ("token", "ttl", "expires", "usages", "description", "extraGroups")
    render(output, lambda: [dict(zip(names, row, strict=True)) for row in rows], lambda: table(headers, rows))
    return 0


async def delete(target: ControlPlaneOptions, words: tuple[str, ...]) -> int:
    """Delete tokens by id or in full; raises Failed for the first that is none."""
    ids = []
    for word in words:
        parts = rules.parse(word)
        if parts is None and not rules.is_id(word):
            raise Failed(f"{word!r} is neither a token nor the six letters of its id")
        ids.append(parts[0] if parts else word)
    async with open_control(target) as control:
        for one in ids:
            try:
                await control.client.delete(f"{_SECRETS}/{rules.SECRET_PREFIX}{one}")
            except ApiError as error:
                if error.status != 404:
                    raise
                raise Failed(f"there is no bootstrap token {one}; see karmadactl token list") from None
            await _vouch(control.client, one)
            print(f'bootstrap token "{one}" deleted')
    return 0


async def _vouch(client: KubeClient, token_id: str, secret: str = "") -> None:
    """Have a token vouch for the control plane, or without its secret no more.

    The embedded API server does it by itself; beside a stock one no bootstrap signer has to run.
    """
    key = f"{rules.SIGNATURE_PREFIX}{token_id}"
    try:
        data = (await client.get(_INFO)).get("data") or {}
        wanted = rules.sign(data.get(rules.INFO_KEY, ""), token_id, secret) if secret else None
        if data.get(key) != wanted:
            await client.patch(_INFO, {"data": {key: wanted}})
    except ApiError as error:
        # Without cluster-info there is nothing to vouch for; who may make tokens only leaves it to others.
        if error.status not in (403, 404):
            raise


def register_command(target: ControlPlaneOptions, token: str) -> str:
    """What to type where the member's kubeconfig is."""
    access = access_of_kubeconfig(read_kubeconfig(kubeconfig_path(target.kubeconfig)), target.context)
    hashes = ca_hashes(access.ca_pem)
    pin = "--discovery-token-unsafe-skip-ca-verification"
    if hashes:
        pin = f"--discovery-token-ca-cert-hash {','.join(hashes)}"
    return f"karmadactl register {access.endpoint.removeprefix('https://').rstrip('/')} --token {token} {pin}"


def ca_hashes(pem: str) -> list[str]:
    """`sha256:…` of the public key of every certificate; raises Failed for what is no certificate."""
    if not pem.strip():
        return []
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    try:
        certificates = x509.load_pem_x509_certificates(pem.encode())
    except ValueError as error:
        raise Failed(f"the authority's certificates cannot be read: {error}") from None
    keys = (one.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo) for one in certificates)
    return [f"sha256:{hashlib.sha256(key).hexdigest()}" for key in keys]


async def _all(client: KubeClient) -> list[rules.BootstrapToken]:
    found = []
    for secret in (await client.get(_SECRETS)).get("items") or ():
        if not secret["metadata"]["name"].startswith(rules.SECRET_PREFIX):
            continue
        try:
            found.append(rules.read(secret))
        except ValueError as error:
            complain(f"warning: {error}")
    return found


def _random(length: int) -> str:
    return "".join(secrets.choice(_LETTERS) for _ in range(length))


def _span(seconds: float) -> str:
    if seconds <= 0:
        return "<invalid>"
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= size:
            return f"{int(seconds // size)}{unit}"
    return f"{int(seconds)}s"
