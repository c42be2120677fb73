"""Decides whether a lazy policy waits until its template's user changes the template (docs/sources.md#policies)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from schemas.events.template import TemplateChanged
from schemas.manifest import Manifest
from services._rules import constants as const
from services.detector.policies.policy_view import PolicyView, version_of

_OURS: Final = ".karmada.io"
"""Part of the names of labels and annotations that are no change by a user."""
encode = msgspec.json.Encoder(order="deterministic").encode
"""The bytes of a manifest; their digest is that of the fact about it."""


def held_back(
    view: PolicyView,
    recorded: TemplateChanged | None,
    manifest: Manifest,
    digest: Callable[[bytes], str],
    *,
    bears: bool,
    waited: bool,
) -> bool:
    """Whether the binding stays as it is, or is not made, because only policies have changed.

    The template `bears` the policy's claim before this decision, or it `waited` for a policy. `recorded` is the fact
    about it, if there is one of this uid, `manifest` the object without status.
    """
    if not view.lazy:
        return False
    if recorded is None:
        return waited
    return (bears or waited) and not _edited(recorded, manifest, digest)


def precedes(manifest: Manifest, view: PolicyView) -> bool:
    """Whether a template that no policy matched so far is older than the policy, as it stands.

    One that was written later may be seen earlier: watches of two kinds are not in step. Versions of objects of several
    kinds grow together where one store keeps them, as the store of a control plane does.
    """
    return not 0 < view.since < version_of(manifest)


def ours(name: str) -> bool:
    """Whether a label or annotation is set by controllers, and a change of it no change by a user."""
    return _OURS in name and name != const.SKIP_AUTO_PROPAGATION_LABEL


def _edited(recorded: TemplateChanged, manifest: Manifest, digest: Callable[[bytes], str]) -> bool:
    """Whether more than generation, labels and annotations of controllers differs from what is recorded."""
    metadata: dict[str, Any] = dict(manifest["metadata"])
    if "generation" in metadata:
        metadata["generation"] = recorded.generation
    for part, before in (("labels", recorded.labels), ("annotations", recorded.annotations)):
        metadata[part] = _with_ours_of(metadata.get(part) or {}, before)
        if not metadata[part]:
            del metadata[part]
    return digest(encode({**manifest, "metadata": metadata})) != recorded.digest


def _with_ours_of(present: Mapping[str, str], before: Mapping[str, str]) -> dict[str, str]:
    """Labels or annotations of users as they are, those of controllers as they were."""
    users = {name: value for name, value in present.items() if not ours(name)}
    return users | {name: value for name, value in before.items() if ours(name)}
