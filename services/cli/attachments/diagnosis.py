"""Says why an API server cannot be used through a kubeconfig, and what to do about it."""

from __future__ import annotations

import socket
import ssl
from datetime import UTC, datetime
from typing import Final

import aiohttp
import msgspec
from cryptography import x509
from msgspec import Struct

from services._kit.kube.api import BadAnswer
from services._kit.kube.client import ApiError, Unreachable
from services.cli.members.member_account import MemberAccess

_NO_TLS: Final = ("WRONG_VERSION_NUMBER", "UNEXPECTED_MESSAGE", "RECORD_LAYER_FAILURE", "HTTP_REQUEST")
_REFUSED_CERTIFICATE: Final = ("ALERT_", "CERTIFICATE_REQUIRED", "CERTIFICATE_UNKNOWN")


_NO_API_SERVER: Final = "what answers there is no Kubernetes API server; correct the server's address in the kubeconfig"


class Source(Struct, frozen=True, kw_only=True):
    """Where the way to a server is written down: the file, and what its current context names."""

    path: str
    context: str = ""
    server: str = ""
    user: str = ""

    def __str__(self) -> str:
        if not self.server:
            return f"kubeconfig {self.path}"
        return f"kubeconfig {self.path}, context {self.context} (server {self.server}, user {self.user})"


def expired(access: MemberAccess, now: datetime) -> str:
    """What is wrong with the validity of a client certificate; empty when nothing is, or there is none."""
    if access.token or not access.client_cert:
        return ""
    try:
        certificate = x509.load_pem_x509_certificate(access.client_cert.encode())
    except ValueError as error:
        return f"the client certificate cannot be read: {error}; write a PEM certificate into the kubeconfig"
    if now > certificate.not_valid_after_utc:
        return f"the client certificate expired at {_at(certificate.not_valid_after_utc)}; issue a new one"
    if now < certificate.not_valid_before_utc:
        return (
            f"the client certificate is not valid before {_at(certificate.not_valid_before_utc)}; "
            "compare the clocks of the two machines"
        )
    return ""


def trouble(error: BaseException, access: MemberAccess, seconds: float) -> str:
    """What an attempt to reach a server has shown, and what to do."""
    if isinstance(error, ApiError):
        return _refused(error, access)
    if isinstance(error, TimeoutError):
        return f"no answer within {seconds:g} s; is the address right, and does a firewall let this machine through?"
    if isinstance(error, Unreachable):
        return _unreachable(error, access)
    if isinstance(error, msgspec.MsgspecError):
        return _NO_API_SERVER
    return str(error) or type(error).__name__


def _refused(error: ApiError, access: MemberAccess) -> str:
    said = error.message or error.reason
    if error.status == 401:
        kind = "token" if access.token else "client certificate" if access.client_cert else "user"
        return f"the server does not accept the {kind} ({said}); give a kubeconfig with valid credentials"
    if error.status == 403:
        return f"the credentials are accepted but may not do what is needed ({said}); give them all rights there"
    if error.status == 400 and "HTTPS" in said:
        return "the server speaks https at this port; write https:// into the server's address"
    if error.status < 400:
        return said
    return (
        f"what answers there does not answer like a Kubernetes API server (HTTP {error.status}: {said[:120]}); "
        "correct the server's address in the kubeconfig"
    )


def _unreachable(error: Unreachable, access: MemberAccess) -> str:
    cause = error.__cause__
    if isinstance(error, BadAnswer) and not isinstance(cause, aiohttp.ClientError):
        return f"{_NO_API_SERVER} ({error})"
    certificate = getattr(cause, "certificate_error", None)
    if isinstance(certificate, ssl.SSLCertVerificationError):
        return _unverified(certificate, access)
    inner = getattr(cause, "os_error", None) or cause
    if isinstance(cause, aiohttp.ClientConnectorDNSError) or isinstance(inner, socket.gaierror):
        return f"the server's name cannot be resolved ({inner}); correct the address, or the name service"
    if isinstance(inner, ssl.SSLError):
        return _broken_tls(inner)
    if isinstance(inner, ConnectionRefusedError):
        return "nothing listens at this port (connection refused); start the API server, or correct the port"
    if isinstance(cause, aiohttp.ClientConnectorError):
        return f"no connection ({inner}); correct the address, or the way to it"
    if isinstance(cause, TimeoutError):
        return f"{error}; is the address right, and does a firewall let this machine through?"
    return _cut_off(cause, access)


def _unverified(error: ssl.SSLCertVerificationError, access: MemberAccess) -> str:
    why = error.verify_message or str(error)
    if "expired" in why:
        return f"the server's certificate, or its authority, has expired ({why}); renew it"
    if "mismatch" in why or "not valid for" in why:
        return f"the server's certificate is for another name ({why}); use a name or address that it holds"
    which = "the certificate authority in the kubeconfig" if access.ca_pem else "an authority that this machine knows"
    return (
        f"the server's certificate is not signed by {which} ({why}); "
        "write the server's own into certificate-authority-data"
    )


def _broken_tls(error: ssl.SSLError) -> str:
    why = error.reason or str(error)
    if any(word in why for word in _NO_TLS):
        return "the server does not speak TLS at this port (plain http, or another protocol); correct address or port"
    if "EXPIRED" in why:
        return "the server says that the client certificate has expired; issue a new one"
    if any(word in why for word in _REFUSED_CERTIFICATE):
        return f"the server refuses the client certificate ({why}); give a kubeconfig with one that it accepts"
    return f"no TLS connection ({why}); correct address or port"


def _cut_off(cause: BaseException | None, access: MemberAccess) -> str:
    if isinstance(cause, aiohttp.ServerDisconnectedError | ConnectionResetError | aiohttp.ClientOSError):
        hint = "; does it expect https?" if access.endpoint.startswith("http://") else ""
        return f"the server closes the connection without an answer{hint}; correct address or port"
    if isinstance(cause, aiohttp.ClientResponseError | aiohttp.ClientPayloadError):
        hint = ", or expects https" if access.endpoint.startswith("http://") else ""
        return f"what answers there speaks another protocol than http{hint}; correct address or port"
    return f"{cause or 'no answer'}; correct the server's address in the kubeconfig"


def _at(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
