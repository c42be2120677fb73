"""Virtual kinds: access reviews, token reviews and who-am-I answers, computed and never stored."""

import time
from collections.abc import Callable

import msgspec

from schemas.manifest import Manifest
from services._rules.kubernetes.rbac.policy_rules import Access
from services.apiserver.auth.authentication import Authenticator
from services.apiserver.auth.authorization import Authorizer
from services.apiserver.core import status_errors as status
from services.apiserver.core.request_context import Call, Identity, stamp
from services.apiserver.core.status_errors import method_not_allowed
from services.apiserver.kinds.builtin import BuiltinKind
from services.apiserver.kinds.kind_model import Kind


class Reviews:
    """Answers create requests of virtual kinds."""

    def __init__(self, authenticator: Authenticator, authorizer: Authorizer) -> None:
        self._authenticator = authenticator
        self._authorizer = authorizer
        self._handlers: dict[str, Callable[[Manifest, str, Call], Manifest]] = {
            "SelfSubjectAccessReview": self._self_access,
            "SubjectAccessReview": self._subject_access,
            "LocalSubjectAccessReview": self._subject_access,
            "SelfSubjectRulesReview": self._rules,
            "SelfSubjectReview": self._who_am_i,
            "TokenReview": self._token,
        }

    def answer(self, kind: Kind, namespace: str, obj: Manifest, call: Call) -> Manifest:
        """The review with its status filled in."""
        handler = self._handlers.get(kind.resource.kind)
        if handler is None:
            raise method_not_allowed()
        meta = obj["metadata"]
        if not kind.resource.namespaced:
            meta.pop("namespace", None)
        elif meta.setdefault("namespace", namespace) != namespace:
            text = "the namespace of the provided object does not match the namespace sent on the request"
            raise status.bad_request(text)
        if isinstance(kind, BuiltinKind):
            if kind.resource.kind == "SelfSubjectReview":
                # Nothing that comes with the question is a part of the answer.
                obj["metadata"] = {"creationTimestamp": stamp()}
            else:
                obj.setdefault("spec", {})
            if errors := kind.check(obj):
                raise status.invalid(kind.group_kind, "", errors)
        obj["status"] = handler(obj, namespace, call)
        return obj

    def _self_access(self, obj: Manifest, _: str, call: Call) -> Manifest:
        return self._decide(call.user, obj["spec"])

    def _subject_access(self, obj: Manifest, _: str, __: Call) -> Manifest:
        return self._decide(_subject(obj["spec"]), obj["spec"])

    def _decide(self, identity: Identity, spec: Manifest) -> Manifest:
        attributes = spec.get("resourceAttributes")
        if attributes is not None:
            names = ("group", "version", "resource", "subresource", "namespace", "name")
            access = Access(attributes.get("verb", ""), **{n: attributes.get(n) or "" for n in names})
        else:
            other = spec["nonResourceAttributes"]
            access = Access(other.get("verb", ""), path=other.get("path", ""))
        decision = self._authorizer.decide(identity, access)
        out: Manifest = {"allowed": decision.allowed}
        if decision.denied:
            out["denied"] = True
        if decision.reason:
            out["reason"] = decision.reason
        return out

    def _rules(self, obj: Manifest, _: str, call: Call) -> Manifest:
        namespace = obj["spec"].pop("namespace", "")
        if not namespace:
            raise status.bad_request("no namespace on request")
        found = self._authorizer.rules(call.user, namespace)
        rules = [rule.manifest() for rule in found.held]
        out: Manifest = {
            "resourceRules": [rule for rule in rules if "nonResourceURLs" not in rule],
            "nonResourceRules": [rule for rule in rules if "nonResourceURLs" in rule],
            "incomplete": found.incomplete,
        }
        if found.problem:
            out["evaluationError"] = found.problem
        return out

    @staticmethod
    def _who_am_i(_: Manifest, __: str, call: Call) -> Manifest:
        return {"userInfo": call.user.user_info()}

    def _token(self, obj: Manifest, _: str, __: Call) -> Manifest:
        token = obj["spec"].get("token") or ""
        if not token:
            error = status.bad_request("token is required for TokenReview in authentication")
            raise error
        asked = obj["spec"].get("audiences") or ([self._authenticator.audience] if self._authenticator.audience else [])
        bearer = self._authenticator.bearer(token, time.time())
        if bearer is None:
            return {"user": {}, "error": "invalid bearer token"}
        shared = asked if bearer.audiences is None else [name for name in asked if name in bearer.audiences]
        if asked and not shared:
            held, wanted = msgspec.json.encode(bearer.audiences).decode(), msgspec.json.encode(asked).decode()
            problem = f"token audiences {held} is invalid for the target audiences {wanted}"
            return {"user": {}, "error": f"[invalid bearer token, {problem}]"}
        out: Manifest = {"authenticated": True, "user": bearer.identity.user_info()}
        if shared and (obj["spec"].get("audiences") or bearer.audiences is not None):
            out["audiences"] = shared
        return out


def _subject(spec: Manifest) -> Identity:
    return Identity(
        spec.get("user") or "", spec.get("uid") or "", tuple(spec.get("groups") or ()), spec.get("extra") or {}
    )
