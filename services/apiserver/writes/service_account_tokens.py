"""TokenRequest: signed, expiring tokens of service accounts."""

import datetime as dt
import uuid

from schemas.manifest import Manifest
from services._rules.kubernetes.validation import field_errors as fields
from services.apiserver.auth.authentication import ServiceAccountTokens
from services.apiserver.core import status_errors as status
from services.apiserver.core.request_context import now, timestamp
from services.apiserver.kinds.kind_model import Kind
from services.apiserver.store.store_port import Key
from services.apiserver.writes.object_writes import Objects


class TokenRequests:
    """Issues tokens of existing service accounts."""

    def __init__(self, objects: Objects, signer: ServiceAccountTokens) -> None:
        self._objects = objects
        self._signer = signer

    def create(self, kind: Kind, namespace: str, name: str, body: Manifest) -> Manifest:
        """Answer a TokenRequest; raises 404, 409 or 422."""
        account = self._objects.get(kind, namespace, name).obj
        spec = body.get("spec") or {}
        seconds = spec.get("expirationSeconds", 3600)
        found = []
        if seconds < 600:
            text = "may not specify a duration less than 10 minutes"
            found.append(fields.invalid("spec.expirationSeconds", seconds, text))
        elif seconds > 1 << 32:
            found.append(
                fields.invalid("spec.expirationSeconds", seconds, "may not specify a duration larger than 2^32 seconds")
            )
        if found:
            raise status.invalid("TokenRequest.authentication.k8s.io", "", found)
        audiences = spec.get("audiences") or [self._signer.issuer]
        bound = spec.get("boundObjectRef")
        moment = now()
        expires = moment + dt.timedelta(seconds=seconds)
        private = {"namespace": namespace, "serviceaccount": {"name": name, "uid": account["metadata"]["uid"]}}
        if bound:
            private[bound.get("kind", "Pod").lower()] = self._bound(bound, namespace)
        token = self._signer.sign(
            {
                "sub": f"system:serviceaccount:{namespace}:{name}",
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

    def _bound(self, bound: Manifest, namespace: str) -> dict[str, str]:
        plural = {"Pod": "pods", "Secret": "secrets"}.get(bound.get("kind", ""))
        name, uid = bound.get("name", ""), bound.get("uid") or ""
        if plural is None:
            text = (
                f"cannot bind token for serviceaccount to object of type {bound.get('apiVersion')}/{bound.get('kind')}"
            )
            raise status.bad_request(text)
        kind = self._objects.registry.find("", "v1", plural)
        if kind is None:
            raise status.bad_request(f"{plural} are not served here")
        entry = self._objects.store.get(Key("", plural, namespace, name))
        if entry is None:
            raise status.not_found(kind.resource, name)
        actual = entry.obj["metadata"]["uid"]
        if uid and uid != actual:
            text = f"the UID in the bound object reference ({uid}) does not match the UID in record. The object might "
            raise status.conflict(kind.resource, name, text + "have been deleted and then recreated")
        return {"name": name, "uid": actual}
