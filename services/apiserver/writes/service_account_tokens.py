"""TokenRequest: signed, expiring tokens of service accounts."""

import datetime as dt
import uuid

from schemas.manifest import Manifest
from services._rules.kubernetes.rbac.user_names import account_user
from services._rules.kubernetes.validation import field_errors as fields
from services.apiserver.auth.service_accounts import BOUND
from services.apiserver.auth.token_signing import ServiceAccountTokens
from services.apiserver.core import status_errors as status
from services.apiserver.core.request_context import now, timestamp
from services.apiserver.kinds.kind_model import Kind
from services.apiserver.store.store_port import Key
from services.apiserver.writes.object_writes import Objects

_SHORTEST, _LONGEST = 600, 1 << 32


class TokenRequests:
    """Issues tokens of existing service accounts."""

    def __init__(self, objects: Objects, signer: ServiceAccountTokens) -> None:
        self._objects = objects
        self._signer = signer

    def create(self, kind: Kind, namespace: str, name: str, body: Manifest) -> Manifest:
        """Answer a TokenRequest; raises 400, 404, 409 or 422."""
        _check_metadata(body.get("metadata") or {}, namespace, name)
        account = self._objects.get(kind, namespace, name).obj
        spec = body.get("spec") or {}
        seconds = spec.get("expirationSeconds")
        seconds = 3600 if seconds is None else seconds
        _check_duration(seconds)
        audiences = spec.get("audiences") or [self._signer.issuer]
        bound = spec.get("boundObjectRef")
        moment = now()
        expires = moment + dt.timedelta(seconds=seconds)
        private = {"namespace": namespace, "serviceaccount": {"name": name, "uid": account["metadata"]["uid"]}}
        if bound is not None:
            private[bound.get("kind", "").lower()] = self._bound(bound, namespace, name)
        token = self._signer.sign(
            {
                "sub": account_user(namespace, name),
                "aud": audiences,
                "iat": int(moment.timestamp()),
                "nbf": int(moment.timestamp()),
                "exp": int(expires.timestamp()),
                "jti": str(uuid.uuid4()),
                "kubernetes.io": private,
            }
        )
        return {
            "kind": "TokenRequest",
            "apiVersion": "authentication.k8s.io/v1",
            "metadata": {"creationTimestamp": None},
            "spec": {"audiences": audiences, "expirationSeconds": seconds, "boundObjectRef": bound},
            "status": {"token": token, "expirationTimestamp": timestamp(expires)},
        }

    def _bound(self, bound: Manifest, namespace: str, account: str) -> dict[str, str]:
        """Name and uid of the object that the token is to end with."""
        group, _, version = (bound.get("apiVersion") or "").rpartition("/")
        plural = BOUND.get(bound.get("kind") or "") if not group else None
        if plural is None:
            kind_named = f"{group}/{version}, Kind={bound.get('kind') or ''}"
            raise status.bad_request(f"cannot bind token to object of type {kind_named}")
        name, uid = bound.get("name") or "", bound.get("uid") or ""
        kind = self._objects.registry.find("", "v1", plural)
        if kind is None:
            raise status.bad_request(f"{plural} are not served here")
        entry = self._objects.store.get(Key("", plural, namespace if kind.resource.namespaced else "", name))
        if entry is None:
            raise status.not_found(kind.resource, name)
        found = entry.obj
        actual: str = found["metadata"]["uid"]
        if plural == "pods" and (found.get("spec") or {}).get("serviceAccountName") != account:
            raise status.bad_request(
                f'cannot bind token for serviceaccount "{account}" to pod running with different serviceaccount name.'
            )
        if uid and uid != actual:
            message = (
                f'Operation cannot be fulfilled on {bound["kind"]} "{name}": the UID in the bound object reference '
                f"({uid}) does not match the UID in record. The object might have been deleted and then recreated"
            )
            raise status.ApiError(409, "Conflict", message, {"name": name, "kind": bound["kind"]})
        return {"name": name, "uid": actual}


def _check_metadata(given: Manifest, namespace: str, name: str) -> None:
    """Refuse a body that names another account than the path does."""
    found = [
        fields.invalid(f"metadata.{field}", given[field], f"must match the service account {field} if specified")
        for field, wanted in (("name", name), ("namespace", namespace))
        if (given.get(field) or wanted) != wanted
    ]
    if found:
        raise status.invalid("TokenRequest.authentication.k8s.io", name, found[:1])


def _check_duration(seconds: int) -> None:
    if _SHORTEST <= seconds <= _LONGEST:
        return
    bound = "less than 10 minutes" if seconds < _SHORTEST else "larger than 2^32 seconds"
    found = fields.invalid("spec.expirationSeconds", seconds, f"may not specify a duration {bound}")
    raise status.invalid("TokenRequest.authentication.k8s.io", "", [found])
