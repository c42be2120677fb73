"""A refusal comes with what helps; what nobody can help with is said to be tried again."""

from __future__ import annotations

import pytest

from services._rules.delivery.refusal_hints import RETRIED, hint_for


@pytest.mark.parametrize(
    ("status", "reason", "message", "remedy"),
    [
        (403, "Forbidden", 'pods "x" is forbidden: exceeded quota: team, requested: pods=1', "raise the ResourceQuota"),
        (403, "Forbidden", "failed quota: team: must specify cpu", "set them in the template"),
        (403, "Forbidden", 'User "x" cannot create resource "pods"', "give the account"),
        (403, "Forbidden", "unable to create new content in namespace x because it is being terminated", "wait until"),
        (403, "Forbidden", 'violates PodSecurity "restricted:latest"', "Pod Security level"),
        (400, "BadRequest", 'admission webhook "a.b" denied the request: no', "what the webhook wants"),
        (422, "Invalid", "ValidatingAdmissionPolicy 'p' denied request", "what it wants"),
        (500, "InternalError", 'failed calling webhook "a.b": timed out', "mend the admission webhook"),
        (500, "InternalError", "etcd is tired", RETRIED),
        (422, "Invalid", "spec.selector: Invalid value: field is immutable", "delete the object there"),
        (422, "Invalid", "data: Too long: must have at most 1048576 bytes", "smaller"),
        (413, "RequestEntityTooLarge", "Request entity too large: limit is 3145728", "smaller"),
        (404, "NotFound", 'namespaces "x" not found', "let the namespace be propagated"),
        (404, "NotFound", "the server could not find the requested resource", "does not serve this kind"),
        (401, "Unauthorized", "Unauthorized", "renew the credentials"),
        (409, "Conflict", "the object has been modified", RETRIED),
        (409, "AlreadyExists", "already exists", RETRIED),
        (429, "TooManyRequests", "slow down", RETRIED),
        (422, "Invalid", "spec.replicas: must be positive", "correct the template"),
        (418, "", "no coffee", ""),
    ],
)
def test_refusal_has_a_hint(status: int, reason: str, message: str, remedy: str) -> None:
    found = hint_for(status, reason, message)
    assert remedy in found
    assert bool(found) == bool(remedy)
