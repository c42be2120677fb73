"""Who joined a member may have left the impersonator without rights: they are made once, and never changed."""

from __future__ import annotations

import pytest

from schemas.manifest import Manifest
from services._kit.kube.client import ApiError
from services._kit.members.impersonator import ensure_impersonation


class Member:
    """Objects of a member by their paths; every creation is refused where `refusal` says so."""

    def __init__(self, refusal: str = "") -> None:
        self.objects: dict[str, Manifest] = {}
        self.refusal = refusal

    async def get(self, path: str) -> Manifest:
        if path not in self.objects:
            raise ApiError(404, "NotFound", path)
        return self.objects[path]

    async def create(self, path: str, manifest: Manifest) -> Manifest:
        if self.refusal:
            raise ApiError(409 if self.refusal == "AlreadyExists" else 403, self.refusal, path)
        self.objects[f"{path}/{manifest['metadata']['name']}"] = manifest
        return manifest


RBAC = "/apis/rbac.authorization.k8s.io/v1"
ROLE, BINDING = (f"{RBAC}/{kind}/karmada-impersonator" for kind in ("clusterroles", "clusterrolebindings"))


async def test_missing_rights_are_made_once() -> None:
    member = Member()
    assert await ensure_impersonation(member, "place")  # type: ignore[arg-type]  # a member without connections
    assert set(member.objects) == {ROLE, BINDING}
    assert member.objects[ROLE]["rules"][0]["verbs"] == ["impersonate"]
    subject = {"kind": "ServiceAccount", "name": "karmada-impersonator", "namespace": "place"}
    assert member.objects[BINDING]["subjects"] == [subject]
    member.objects[ROLE] = {"rules": []}
    assert not await ensure_impersonation(member, "place")  # type: ignore[arg-type]  # the same
    assert member.objects[ROLE] == {"rules": []}


async def test_another_one_may_be_first_and_a_refusal_is_told() -> None:
    assert await ensure_impersonation(Member("AlreadyExists"), "place")  # type: ignore[arg-type]  # the same
    with pytest.raises(ApiError):
        await ensure_impersonation(Member("Forbidden"), "place")  # type: ignore[arg-type]  # the same
