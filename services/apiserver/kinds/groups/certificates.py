"""CertificateSigningRequests with their approval and status subresources."""

from __future__ import annotations

import base64

from schemas.manifest import Manifest
from services._rules.kubernetes.validation.field_errors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)
from services.apiserver.kinds.builtin import BuiltinKind

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


class SigningRequest(BuiltinKind):
    """certificates.k8s.io CertificateSigningRequest."""

    has_status = True

    def default(self, obj: Manifest) -> None:
        """The beta fills in usages and the signer."""
        if self.resource.version == "v1":
            return
        spec = obj["spec"]
        if not spec.get("usages"):
            spec["usages"] = ["digital signature", "key encipherment"]
        spec.setdefault("signerName", "kubernetes.io/legacy-unknown")

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

    def check(self, obj: Manifest) -> list[FieldError]:
        """Check the request, the usages, the signer and the conditions."""
        spec = obj.get("spec") or {}
        found: list[FieldError] = []
        if text := _request_problem(spec.get("request") or ""):
            found.append(invalid("spec.request", spec.get("request") or None, text))
        usages = spec.get("usages") or []
        if not usages:
            found.append(required("spec.usages", "usages must be provided"))
        seen: set[str] = set()
        for index, usage in enumerate(usages):
            if usage not in USAGES:
                found.append(not_supported(f"spec.usages[{index}]", usage, USAGES))
            if usage in seen:
                found.append(duplicate(f"spec.usages[{index}]", usage))
            seen.add(usage)
        signer = spec.get("signerName", "")
        if self.resource.version == "v1" and signer == "kubernetes.io/legacy-unknown":
            found.append(
                invalid("spec.signerName", signer, "the legacy signerName is not allowed via this API version")
            )
        else:
            found += _signer(signer)
        return found + self._conditions(obj)

    def _conditions(self, obj: Manifest) -> list[FieldError]:
        found: list[FieldError] = []
        decided = ""
        seen: set[str] = set()
        for index, item in enumerate((obj.get("status") or {}).get("conditions") or ()):
            field, kind = f"status.conditions[{index}]", item.get("type", "")
            if not kind:
                found.append(required(f"{field}.type"))
            if kind in ("Approved", "Denied"):
                if decided and decided != kind:
                    text = "Approved and Denied conditions are mutually exclusive"
                    found.append(invalid(f"{field}.type", kind, text))
                decided = kind
            state = item.get("status", "")
            if kind in ("Approved", "Denied", "Failed"):
                if not state:
                    found.append(required(f"{field}.status"))
                elif state != "True":
                    found.append(not_supported(f"{field}.status", state, ("True",)))
            elif state not in ("True", "False", "Unknown"):
                place = f"{field}.status"
                found.append(not_supported(place, state, ("True", "False", "Unknown")) if state else required(place))
            if kind in seen:
                found.append(duplicate(f"{field}.type", kind))
            seen.add(kind)
        return found

    def check_update(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """Decided conditions may neither go nor come."""
        return [*self.check(new), *_kept(new, old, ("Approved", "Denied", "Failed"), ("Approved", "Denied"))]

    def validate_status(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """Only the signer's part may change here."""
        return [*self._conditions(new), *_kept(new, old, ("Approved", "Denied", "Failed"), ("Approved", "Denied"))]

    def validate_approval(self, new: Manifest, old: Manifest) -> list[FieldError]:
        """Decisions may be added here, never taken back."""
        return [*self._conditions(new), *_kept(new, old, ("Approved", "Denied", "Failed"), ())]

    def field_selectors(self, obj: Manifest) -> dict[str, str]:
        """Add the signer."""
        return {**super().field_selectors(obj), "spec.signerName": (obj.get("spec") or {}).get("signerName", "")}


def _kept(new: Manifest, old: Manifest, stay: tuple[str, ...], closed: tuple[str, ...]) -> list[FieldError]:
    after = [item.get("type") for item in (new.get("status") or {}).get("conditions") or ()]
    before = [item.get("type") for item in (old.get("status") or {}).get("conditions") or ()]
    found = [
        forbidden("status.conditions", f'updates may not remove a condition of type "{kind}"')
        for kind in stay
        if kind in before and kind not in after
    ]
    return found + [
        forbidden("status.conditions", f'updates may not add a condition of type "{kind}"')
        for kind in closed
        if kind in after and kind not in before
    ]


def _signer(name: str) -> list[FieldError]:
    if not name:
        return [required("spec.signerName")]
    domain, slash, path = name.partition("/")
    if not slash or not path or "/" in path:
        text = "must be a fully qualified domain and path of the form 'example.com/signer-name'"
        return [invalid("spec.signerName", name, text)]
    if "." not in domain:
        text = "should be a domain with at least two segments separated by dots"
        return [invalid("spec.signerName", domain, text)]
    return []


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
