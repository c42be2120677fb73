"""The admission plugins that need no rules of their own: of namespaces, LimitRanges, signing requests and volumes."""

from __future__ import annotations

import base64
import binascii
from typing import Final

from schemas.manifest import Manifest
from services._rules.kubernetes.limit_range import apply_defaults, claim_violations, pod_violations
from services._rules.kubernetes.rbac.user_names import MASTERS
from services.apiserver.admission.chain import Attributes, forbidden, nothing
from services.apiserver.core import status_errors as status
from services.apiserver.core.request_context import now, timestamp
from services.apiserver.store.store_port import Key, Store


class NamespaceLifecycle:
    """The first plugin of the chain."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def mutate(self, attributes: Attributes) -> None:
        """Refuse creations in missing (404) or terminating (403) namespaces."""
        kind = attributes.kind
        if attributes.operation != "CREATE" or not kind.resource.namespaced or kind.virtual:
            return
        name = attributes.namespace
        entry = self._store.get(Key("", "namespaces", "", name))
        if entry is None:
            details = {"name": name, "kind": "namespaces"}
            raise status.ApiError(404, "NotFound", f'namespaces "{name}" not found', details)
        if entry.obj["metadata"].get("deletionTimestamp"):
            cause = {
                "reason": "NamespaceTerminating",
                "message": f"namespace {name} is being terminated",
                "field": "metadata.namespace",
            }
            text = f"unable to create new content in namespace {name} because it is being terminated"
            raise forbidden(attributes, text, [cause])

    validate = nothing


class LimitRanger:
    """Reads the LimitRanges of the namespace at every creation of a pod or claim."""

    resources = frozenset({"/pods", "/persistentvolumeclaims"})

    def __init__(self, store: Store) -> None:
        self._store = store

    async def mutate(self, attributes: Attributes) -> None:
        """Fill in what a new pod's containers leave open."""
        if self._concerns(attributes, "pods") and attributes.new is not None:
            ranges = self._ranges(attributes.namespace)
            if ranges:
                apply_defaults(attributes.new, ranges)

    async def validate(self, attributes: Attributes) -> None:
        """Refuse what is beyond the bounds; raises ApiError 403."""
        new = attributes.new
        if new is None:
            return
        found: list[str] = []
        if self._concerns(attributes, "pods"):
            found = pod_violations(new, self._ranges(attributes.namespace))
        elif self._concerns(attributes, "persistentvolumeclaims", also="UPDATE"):
            found = claim_violations(new, self._ranges(attributes.namespace))
        if found:
            text = found[0] if len(found) == 1 else f"[{', '.join(found)}]"
            raise forbidden(attributes, text)

    def _concerns(self, attributes: Attributes, plural: str, also: str = "CREATE") -> bool:
        resource = attributes.kind.resource
        return (
            resource.plural == plural
            and not resource.group
            and not attributes.subresource
            and attributes.operation in ("CREATE", also)
        )

    def _ranges(self, namespace: str) -> list[Manifest]:
        return [entry.obj for entry in self._store.list("", "limitranges", namespace)]


_CLIENT_SIGNER = "kubernetes.io/kube-apiserver-client"
_REQUESTER = ("username", "uid", "groups", "extra")


class CertificateRequests:
    """Fills in the requester on create and stamps new conditions."""

    resources = frozenset({"certificates.k8s.io/certificatesigningrequests"})

    async def mutate(self, attributes: Attributes) -> None:
        """See the class."""
        kind, new, old = attributes.kind, attributes.new, attributes.old
        if kind.store_key != "certificates.k8s.io/certificatesigningrequests" or new is None:
            return
        spec = new.setdefault("spec", {})
        if attributes.operation == "CREATE":
            for name in _REQUESTER:
                spec.pop(name, None)
            user = attributes.call.user
            spec["username"] = user.name
            if user.uid:
                spec["uid"] = user.uid
            if user.groups:
                spec["groups"] = list(user.groups)
            if user.extra:
                spec["extra"] = user.extra
            return
        if attributes.subresource in ("approval", "status"):
            self._stamp(new, old or {})

    @staticmethod
    def _stamp(new: Manifest, old: Manifest) -> None:
        """Times of conditions that are new or changed."""
        moment = timestamp(now())
        before = {c.get("type"): c for c in (old.get("status") or {}).get("conditions") or ()}
        for condition in (new.get("status") or {}).get("conditions") or ():
            known = before.get(condition.get("type")) or {}
            if not condition.get("lastUpdateTime"):
                condition["lastUpdateTime"] = moment
            if not condition.get("lastTransitionTime"):
                same = known.get("status") == condition.get("status")
                condition["lastTransitionTime"] = (known.get("lastTransitionTime") if same else "") or moment

    async def validate(self, attributes: Attributes) -> None:
        """Refuse requests for a client certificate of the group that may do everything."""
        kind, new = attributes.kind, attributes.new
        if kind.store_key != "certificates.k8s.io/certificatesigningrequests" or new is None:
            return
        if attributes.operation != "CREATE" or new["spec"].get("signerName") != _CLIENT_SIGNER:
            return
        if MASTERS in _organizations(new["spec"].get("request", "")):
            text = f"use of {_CLIENT_SIGNER} signer with {MASTERS} group is not allowed"
            raise forbidden(attributes, text)


def _organizations(request: str) -> list[str]:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    try:
        subject = x509.load_pem_x509_csr(base64.b64decode(request)).subject
    except (binascii.Error, ValueError):
        return []  # the kind's own checks report what is wrong with it
    return [str(a.value) for a in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)]


_SINCE: Final = "lastPhaseTransitionTime"


class VolumePhases:
    """Notes when a volume came to its phase, unless who says so notes it."""

    resources = frozenset({"/persistentvolumes"})
    operations = frozenset({"UPDATE"})

    async def mutate(self, attributes: Attributes) -> None:
        """Keep the time of the phase, or take the time of the change."""
        if attributes.new is None or attributes.old is None or attributes.subresource != "status":
            return
        status, before = attributes.new.setdefault("status", {}), attributes.old.get("status") or {}
        if status.get("phase") == before.get("phase"):
            if _SINCE in before:
                status.setdefault(_SINCE, before[_SINCE])
        elif status.get(_SINCE) == before.get(_SINCE):
            status[_SINCE] = timestamp(now())

    validate = nothing


PROTECTED_BY: Final = {
    "/persistentvolumeclaims": "kubernetes.io/pvc-protection",
    "/persistentvolumes": "kubernetes.io/pv-protection",
    "storage.k8s.io/volumeattributesclasses": "kubernetes.io/vac-protection",
}
"""The finalizer by which an object of a kind (`group/plural`) outlives its deletion while it is in use."""


class VolumeProtected:
    """Gives new claims, volumes and VolumeAttributesClasses their finalizer; `VolumeProtection` takes it away."""

    resources = frozenset(PROTECTED_BY)
    operations = frozenset({"CREATE"})

    async def mutate(self, attributes: Attributes) -> None:
        """Add the finalizer."""
        if attributes.new is None or attributes.subresource:
            return
        meta, finalizer = attributes.new["metadata"], PROTECTED_BY[attributes.kind.store_key]
        held = meta.get("finalizers") or []
        if finalizer not in held:
            meta["finalizers"] = [*held, finalizer]

    validate = nothing
