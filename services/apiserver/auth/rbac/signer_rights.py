"""Admission of certificate signing requests: approving and signing need a right on the signer as well."""

from __future__ import annotations

from typing import Final

from services._rules.kubernetes.rbac.policy_rules import Access
from services.apiserver.admission.chain import Attributes, nothing
from services.apiserver.auth.authorization import Authorizer
from services.apiserver.core import status_errors as status

_GROUP: Final = "certificates.k8s.io"
_VERBS: Final = {"approval": "approve", "status": "sign"}


class SignerRights:
    """Refuses approvals by users that may not `approve` for the signer, and certificates of those that may not `sign`.

    The right is on `signers`, by the name of the signer or for all of its domain (`example.com/*`).
    """

    resources = frozenset({f"{_GROUP}/certificatesigningrequests"})
    operations = frozenset({"UPDATE"})

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    mutate = nothing

    async def validate(self, attributes: Attributes) -> None:
        """Raises ApiError 403."""
        verb = _VERBS.get(attributes.subresource)
        new, old = attributes.new or {}, attributes.old or {}
        if verb is None or (verb == "sign" and _certificate(new) == _certificate(old)):
            return
        signer = str((old.get("spec") or {}).get("signerName") or "")
        for name in (signer, f"{signer.partition('/')[0]}/*"):
            access = Access(verb, _GROUP, "*", "signers", name=name)
            if self._authorizer.decide(attributes.call.user, access).allowed:
                return
        text = f'user not permitted to {verb} requests with signerName "{signer}"'
        raise status.forbidden(attributes.kind.resource, attributes.name, text)


def _certificate(request: dict[str, object]) -> object:
    found = request.get("status")
    return found.get("certificate") if isinstance(found, dict) else None
