"""Authorization of bootstrap tokens and anonymous requests: read cluster-info, and request a certificate."""

from __future__ import annotations

from services._rules.identity import bootstrap_tokens as tokens
from services._rules.kubernetes.rbac.policy_rules import Access
from services._rules.kubernetes.rbac.user_names import ANONYMOUS_USER, UNAUTHENTICATED
from services.apiserver.auth.authorization import Authorizer, Decision, Rules
from services.apiserver.core.request_context import Identity

ANONYMOUS = Identity(ANONYMOUS_USER, "", (UNAUTHENTICATED,))
INFO_PATH = f"/api/v1/namespaces/{tokens.INFO_NAMESPACE}/configmaps/{tokens.INFO_NAME}"
REQUESTS = ("certificates.k8s.io", "certificatesigningrequests")
_REVIEWS = "authorization.k8s.io"


def confined(identity: Identity) -> bool:
    """Whether an identity is confined to the rules above, whatever other rules allow to all users."""
    return tokens.BOOTSTRAPPERS in identity.groups or identity.name == ANONYMOUS.name


class Confining:
    """Authorizes bearers of bootstrap tokens and anonymous requests; delegates all others to another authorizer."""

    def __init__(self, inner: Authorizer) -> None:
        self._inner = inner

    @property
    def allows_everything(self) -> bool:
        """Whether `decide` can be skipped for identities that are not confined."""
        return self._inner.allows_everything

    def decide(self, identity: Identity, access: Access) -> Decision:
        """See the module."""
        if not confined(identity):
            return self._inner.decide(identity, access)
        info = (access.resource, access.namespace, access.name) == (
            "configmaps",
            tokens.INFO_NAMESPACE,
            tokens.INFO_NAME,
        )
        if access.verb == "get" and info and not access.group and not access.subresource:
            return Decision(True)
        if tokens.BOOTSTRAPPERS not in identity.groups:
            if not self._inner.allows_everything:
                return self._inner.decide(identity, access)
            return Decision(False, "log in first", denied=True)
        if (access.group, access.resource) == REQUESTS and not access.subresource and access.verb in ("create", "get"):
            return Decision(True)
        if access.group == _REVIEWS and access.resource.startswith("selfsubject") and access.verb == "create":
            return Decision(True)
        return Decision(False, "a bootstrap token is for requesting an agent's identity only", denied=True)

    def rules(self, identity: Identity, namespace: str) -> Rules:
        """What the other authorizer says; nothing of those that are confined."""
        return Rules() if confined(identity) else self._inner.rules(identity, namespace)
