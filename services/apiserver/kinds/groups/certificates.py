"""CertificateSigningRequests with their approval and status subresources."""

from __future__ import annotations

import base64
from collections.abc import Iterator

from schemas.manifest import Manifest
from services._rules.kubernetes.validation import name_formats as names
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
    Siblings,
    choice,
    distinct,
    each,
    inside,
    listed,
    needed,
    number,
    only_if,
    unique,
)
from services.apiserver.kinds.builtin import BuiltinKind

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
    if name == LEGACY_SIGNER:
        yield invalid(field, name, "the legacy signerName is not allowed via this API version")
    elif not name:
        yield required(field)
    elif not path or "/" in path:
        yield invalid(field, name, "must be a fully qualified domain and path of the form 'example.com/signer-name'")
    elif "." not in domain:
        yield invalid(field, domain, "should be a domain with at least two segments separated by dots")


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


_BEGIN, _END, _DASHES = b"-----BEGIN ", b"-----END ", b"-----"


def _blocks(text: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the type and the content of each PEM block; what stands behind one without an end is not looked at."""
    place = text.find(_BEGIN)
    while place >= 0:
        kind, dashes, _ = text[place + len(_BEGIN) : place + _LONGEST_TYPE].partition(_DASHES)
        start = place + len(_BEGIN) + len(kind) + len(_DASHES)
        end = text.find(_END + kind + _DASHES, start) if dashes else -1
        if end < 0:
            return
        yield kind, text[start:end]
        place = text.find(_BEGIN, end)


_LONGEST_TYPE = 200


def _certificate(encoded: str, field: str) -> list[FieldError]:
    """What is wrong with an issued certificate: it is a chain of PEM blocks."""
    problem = _certificate_problem(base64.b64decode(encoded)) if encoded else ""
    return [invalid(field, "<certificate data>", problem)] if problem else []


def _certificate_problem(text: bytes) -> str:
    from cryptography import x509

    number = 0
    for kind, content in _blocks(text):
        number += 1
        if kind != b"CERTIFICATE":
            return f'only CERTIFICATE PEM blocks are allowed, found "{kind.decode(errors="replace")}"'
        if b":" in content:
            return "no PEM block headers are permitted"
        try:
            x509.load_der_x509_certificate(base64.b64decode(content))
        except (ValueError, x509.InvalidVersion) as error:
            return str(error)
    return "" if number else "must contain at least one CERTIFICATE PEM block"


class SigningRequest(BuiltinKind):
    """certificates.k8s.io CertificateSigningRequest."""

    status_rules = (
        each("conditions", needed("type"), Siblings(_one_decision), *_STATES, unique("type", blank=True)),
        inside("certificate", _certificate),
    )
    selectable = {"spec.signerName": ""}

    rules = (
        inside(
            "spec",
            _request,
            needed("usages", detail="usages must be provided"),
            each("usages", listed(USAGES), distinct(str, lambda usage, field: duplicate(field, usage))),
            inside("signerName", _signer, absent=""),
            number("expirationSeconds", 600, detail="may not specify a duration less than 600 seconds (10 minutes)"),
            absent={},
        ),
        inside("status", *status_rules),
    )

    def check_name(self, name: str) -> list[str]:
        """Names need only fit into a path."""
        return names.path_segment(name)

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
        """Only the signer's part may change here: a certificate is issued once."""
        found = [*self._answer(new, old), *_kept(new, old, _DECISIONS)]
        issued, before = ((part.get("status") or {}).get("certificate") for part in (new, old))
        if before and issued != before:
            text = "updates may not modify existing certificate content"
            found.append(forbidden("status.certificate", text))
        return found

    def validate_approval(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """Decisions may be added here, never taken back."""
        return [*self._answer(new, old), *_kept(new, old, ())]

    def _answer(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """What is wrong with the answer by itself; one that was there before is not held against a writer."""
        found = super().validate_status(new, old)
        kept = {error.field for error in super().validate_status(old, old)}
        return [error for error in found if error.field != "status.certificate" or error.field not in kept]


def _kept(new: Manifest, old: Manifest, closed: tuple[str, ...]) -> list[FieldError]:
    """Return which conditions are gone, and which of the `closed` types came or changed."""
    after, before = _by_type(new), _by_type(old)
    changes = [("remove", kind) for kind in _ENDS if len(after.get(kind, ())) < len(before.get(kind, ()))]
    for kind in closed:
        here, there = after.get(kind, []), before.get(kind, [])
        if len(here) > len(there):
            changes.append(("add", kind))
        elif len(here) == len(there) and here != there:
            changes.append(("modify", kind))
    text = 'updates may not {} a condition of type "{}"'
    return [forbidden("status.conditions", text.format(*change)) for change in changes]


def _by_type(obj: Manifest) -> dict[str, list[Manifest]]:
    found: dict[str, list[Manifest]] = {}
    for item in (obj.get("status") or {}).get("conditions") or ():
        found.setdefault(item.get("type", ""), []).append(item)
    return found


def _request_problem(encoded: str) -> str:
    from cryptography import x509

    text = base64.b64decode(encoded)
    if next(_blocks(text), (b"", b""))[0] != b"CERTIFICATE REQUEST":
        return "PEM block type must be CERTIFICATE REQUEST"
    try:
        x509.load_pem_x509_csr(text)
    except (ValueError, x509.InvalidVersion) as error:
        return str(error)
    return ""
