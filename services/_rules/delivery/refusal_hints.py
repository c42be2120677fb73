"""Returns a remedy for a refusal of a member's API server, by its code, reason and message."""

from __future__ import annotations

from typing import Final

RETRIED: Final = "it is tried again by itself"

# What the words of a refusal contain, and what helps; the first that fits counts.
_BY_WORDS: Final = (
    ("exceeded quota", "raise the ResourceQuota there, or place fewer replicas in this cluster"),
    ("must specify", "the ResourceQuota there wants these amounts set: set them in the template or by an override"),
    ("failed calling webhook", "mend the admission webhook there or its failurePolicy"),
    (
        "admission webhook",
        "change the template, or by an OverridePolicy what this cluster gets, to what the webhook wants",
    ),
    (
        "ValidatingAdmissionPolicy",
        "change the template, or by an OverridePolicy what this cluster gets, to what it wants",
    ),
    ("violates PodSecurity", "change the template to what the namespace's Pod Security level allows, or the level"),
    ("is being terminated", "wait until the namespace is gone there, or find out what holds it"),
    ("immutable", "delete the object there so that it is created again, or create the template under another name"),
    ("may not change once set", "delete the object there so that it is created again"),
)
_TOO_LARGE: Final = ("too large", "Too long", "too long")
_BY_CODE: Final = {
    401: "renew the credentials in the Secret that the Cluster names",
    403: "give the account that delivers there the right to do this",
    405: "the kind cannot be written there; leave this cluster out of the policy",
    409: RETRIED,
    413: "make the object smaller, for example by splitting it",
    415: "the cluster's API server is too old for this kind; leave this cluster out of the policy",
    422: "correct the template, or by an OverridePolicy what this cluster gets",
    400: "correct the template, or by an OverridePolicy what this cluster gets",
    429: RETRIED,
    500: RETRIED,
    503: RETRIED,
    504: RETRIED,
}


def hint_for(status: int, reason: str, message: str) -> str:
    """What a person can do about a refusal; empty where nothing better than its own words is known."""
    if status in (400, 403, 422, 500):
        for words, remedy in _BY_WORDS:
            if words in message:
                return remedy
    if status == 404:
        if "namespaces" in message:
            return "let the namespace be propagated to this cluster, or create it there"
        return "the cluster does not serve this kind, or not in this version"
    if status in (400, 422, 500) and any(words in message for words in _TOO_LARGE):
        return _BY_CODE[413]
    if reason == "AlreadyExists":
        return RETRIED
    return _BY_CODE.get(status, "")
