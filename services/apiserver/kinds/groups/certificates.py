"""CertificateSigningRequests with their approval and status subresources."""

from __future__ import annotations

import base64

from schemas.manifest import Manifest
from services._rules.kubernetes.validation.field_errors import (
    Errors,
    FieldError,
    duplicate,
    forbidden,
    invalid,
    required,
)
from services._rules.kubernetes.validation.field_rules import (
    Check,
    Rules,
    Siblings,
    choice,
    distinct,
    each,
    inside,
    listed,
    needed,
    only_if,
    unique,
)
from services.apiserver.kinds.builtin import BuiltinKind
from services.apiserver.kinds.kind_model import Resource

LEGACY_SIGNER = "kubernetes.io/legacy-unknown"
USAGES = (
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
)
_DECISIONS = ("Approved", "Denied")
_ENDS = (*_DECISIONS, "Failed")


def _request(spec: Manifest, path: str) -> list[FieldError]:
    text, request = _request_problem(spec.get("request") or ""), spec.get("request") or None
    return [invalid(f"{path}.request", request, text)] if text else []


def _signer(name: str, field: str) -> Errors:
    domain, _, path = name.partition("/")
    if not name:
        yield required(field)
    elif not path or "/" in path:
        yield invalid(field, name, "must be a fully qualified domain and path of the form 'example.com/signer-name'")
    elif "." not in domain:
        yield invalid(field, domain, "should be a domain with at least two segments separated by dots")


def _stable_signer(name: str, field: str) -> Errors:
    if name == LEGACY_SIGNER:
        yield invalid(field, name, "the legacy signerName is not allowed via this API version")
    else:
        yield from _signer(name, field)


def _one_decision() -> Check:
    decided = ""

    def check(item: Manifest, field: str) -> Errors:
        nonlocal decided
        kind, before = item.get("type", ""), decided
        if kind not in _DECISIONS:
            return
        decided = kind
        if before not in ("", kind):
            yield invalid(f"{field}.type", kind, "Approved and Denied conditions are mutually exclusive")

    return check


def _ended(condition: Manifest) -> bool:
    return condition.get("type") in _ENDS


_STATES = (
    only_if(_ended, choice("status", ("True",), need="")),
    only_if(lambda item: not _ended(item), choice("status", ("True", "False", "Unknown"), need="")),
)


class SigningRequest(BuiltinKind):
    """certificates.k8s.io CertificateSigningRequest."""

    status_rules = (each("conditions", needed("type"), Siblings(_one_decision), *_STATES, unique("type", blank=True)),)
    selectable = {"spec.signerName": ""}

    @classmethod
    def rules_of(cls, resource: Resource) -> Rules:
        """Return the rules of a version; the beta knows one signer more."""
        spec = inside(
            "spec",
            _request,
            needed("usages", detail="usages must be provided"),
            each("usages", listed(USAGES), distinct(str, lambda usage, field: duplicate(field, usage))),
            inside("signerName", _stable_signer if resource.version == "v1" else _signer, absent=""),
            absent={},
        )
        return (spec, inside("status", *cls.status_rules))

    def default(self, obj: Manifest) -> None:
        """The beta fills in usages and the signer."""
        if self.resource.version == "v1":
            return
        spec = obj["spec"]
        if not spec.get("usages"):
            spec["usages"] = ["digital signature", "key encipherment"]
        spec.setdefault("signerName", LEGACY_SIGNER)

    def prepare_update(self, new: Manifest, old: Manifest) -> None:
        """Spec and status stay as they are."""
        new["spec"] = old["spec"]
        super().prepare_update(new, old)

    def prepare_approval(self, new: Manifest, old: Manifest) -> None:
        """Of an approval write, only the conditions count."""
        conditions = (new.get("status") or {}).get("conditions")
        super().prepare_status(new, old)
        status = dict(old.get("status") or {})
        status.pop("conditions", None)
        if conditions:
            status["conditions"] = conditions
        new["status"] = status

    def check_update(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """Decided conditions may neither go nor come."""
        return [*self.check(new), *_kept(new, old, _DECISIONS)]

    def validate_status(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """Only the signer's part may change here."""
        return [*super().validate_status(new, old), *_kept(new, old, _DECISIONS)]

    def validate_approval(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """Decisions may be added here, never taken back."""
        return [*super().validate_status(new, old), *_kept(new, old, ())]


def _kept(new: Manifest, old: Manifest, closed: tuple[str, ...]) -> list[FieldError]:
    after = [item.get("type") for item in (new.get("status") or {}).get("conditions") or ()]
    before = [item.get("type") for item in (old.get("status") or {}).get("conditions") or ()]
    found = [
        forbidden("status.conditions", f'updates may not remove a condition of type "{kind}"')
        for kind in _ENDS
        if kind in before and kind not in after
    ]
    return found + [
        forbidden("status.conditions", f'updates may not add a condition of type "{kind}"')
        for kind in closed
        if kind in after and kind not in before
    ]


def _request_problem(encoded: str) -> str:
    from cryptography import x509

    text = base64.b64decode(encoded)
    if b"-----BEGIN CERTIFICATE REQUEST-----" not in text:
        return "PEM block type must be CERTIFICATE REQUEST"
    try:
        x509.load_pem_x509_csr(text)
    except ValueError as error:
        return str(error)
    return ""
