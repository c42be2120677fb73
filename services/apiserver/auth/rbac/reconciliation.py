"""Brings the roles and bindings that a server starts with up to date: what is missing in them is added.

Kubernetes' own are completed and never shortened, so that what an administrator added stays; those of our services are
replaced. An object with the annotation `rbac.authorization.kubernetes.io/autoupdate: "false"` is left alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from schemas.manifest import Manifest
from services._rules.kubernetes.rbac.policy_rules import PolicyRule, not_covered, rules_in
from services._rules.kubernetes.rbac.role_index import GROUP
from services.apiserver.auth.rbac.default_roles import AUTO_UPDATE
from services.apiserver.core.cloning import clone
from services.apiserver.core.status_errors import ApiError

if TYPE_CHECKING:
    from services.apiserver.controllers.in_process_client import LocalClient

_VERSION: Final = f"{GROUP}/v1"
PLURALS: Final = {
    "Role": "roles",
    "ClusterRole": "clusterroles",
    "RoleBinding": "rolebindings",
    "ClusterRoleBinding": "clusterrolebindings",
}


def reconciled(stored: Manifest, wanted: Manifest, *, exact: bool) -> Manifest | None:
    """An object as it should be stored; None where nothing is to be done. `exact` drops what is not wanted."""
    metadata = stored["metadata"]
    if (metadata.get("annotations") or {}).get(AUTO_UPDATE) == "false":
        return None
    made = clone(stored)
    for part in ("labels", "annotations"):
        texts = {**(metadata.get(part) or {}), **(wanted["metadata"].get(part) or {})}
        if texts:
            made["metadata"][part] = texts
    if "roleRef" in wanted:
        made["roleRef"] = wanted["roleRef"]
        made["subjects"] = _all_of(() if exact else stored.get("subjects") or (), wanted.get("subjects") or ())
        if not made["subjects"]:
            del made["subjects"]
    elif "aggregationRule" in wanted:
        own = (stored.get("aggregationRule") or {}).get("clusterRoleSelectors") or ()
        made["aggregationRule"] = {
            "clusterRoleSelectors": _all_of(own, wanted["aggregationRule"]["clusterRoleSelectors"])
        }
    elif exact:
        made["rules"] = wanted["rules"]
    else:
        made["rules"] = [*(stored.get("rules") or ()), *_added(stored, wanted)]
    return made if made != stored else None


def _all_of(first: Iterable[Any], second: Iterable[Any]) -> list[Any]:
    """Items of both, each once."""
    found: list[Any] = []
    for item in (*first, *second):
        if item not in found:
            found.append(item)
    return found


def _added(stored: Manifest, wanted: Manifest) -> list[Manifest]:
    """The wanted rules of which a role lacks something."""
    owned: tuple[PolicyRule, ...] = rules_in(stored)
    return [rule.manifest() for rule in rules_in(wanted) if not_covered(owned, [rule])]


async def write_roles(client: LocalClient, objects: Iterable[Manifest], *, exact: bool = False) -> None:
    """Create the roles and bindings that are missing, and complete the others."""
    await asyncio.gather(*(_write(client, wanted, exact=exact) for wanted in objects))


async def _write(client: LocalClient, wanted: Manifest, *, exact: bool) -> None:
    metadata, plural = wanted["metadata"], PLURALS[wanted["kind"]]
    namespace, name = metadata.get("namespace", ""), metadata["name"]
    stored = client.get(_VERSION, plural, namespace, name)
    made = wanted if stored is None else reconciled(stored, wanted, exact=exact)
    if made is None:
        return
    try:
        if stored is None:
            await client.create(_VERSION, plural, made)
        elif stored.get("roleRef") == made.get("roleRef"):
            await client.update(_VERSION, plural, made)
        else:
            # The role of a binding cannot be changed.
            await client.delete(_VERSION, plural, namespace, name)
            await client.create(_VERSION, plural, wanted)
    except ApiError as error:
        # Another server that starts with the same store may have been first.
        if error.reason not in ("AlreadyExists", "Conflict", "NotFound"):
            raise
