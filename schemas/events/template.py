"""Facts about what users wrote: the template of an object, without status and server-side fields."""

from __future__ import annotations

from msgspec import UNSET, Raw, UnsetType

from schemas.envelope import Event
from schemas.keys import ObjectKey


class TemplateChanged(Event, frozen=True, kw_only=True, omit_defaults=True, tag="TemplateChanged.v1"):
    """The full present state of a claimed template or of a dependency of one.

    `digest` names the manifest bytes (SHA-256); `manifest` holds them inline when they are small and no Secret.
    `labels` and `annotations` are the user's and the claim's. `binding_follows`: it changes what its binding asks
    for, and the event right behind it says so.
    """

    key: ObjectKey
    uid: str
    api_version: str
    kind: str
    digest: str
    generation: int = 0
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    manifest: Raw | UnsetType = UNSET
    binding_follows: bool = False


class TemplateDeleted(Event, frozen=True, kw_only=True, omit_defaults=True, tag="TemplateDeleted.v1"):
    """The template of this uid is gone from the control plane, or no policy claims it any more."""

    key: ObjectKey
    uid: str
    reason: str = ""


TemplateEvent = TemplateChanged | TemplateDeleted
