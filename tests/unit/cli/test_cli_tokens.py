"""Tokens vouch for a control plane that has no bootstrap signer, as those of a stock kube-apiserver."""

from __future__ import annotations

from typing import Any

import pytest

from services._kit.kube.client import ApiError
from services._rules.identity.bootstrap_tokens import vouches
from services.cli.members import token
from services.cli.members.token import _vouch

ID, SECRET = "abcdef", "0123456789abcdef"
KEY = f"jws-kubeconfig-{ID}"


class Info:
    """The ConfigMap cluster-info, and how a request for it fails."""

    def __init__(self, data: dict[str, str], refused: int = 0) -> None:
        self.data = data
        self.writes = 0
        self._refused = refused

    async def get(self, path: str) -> Any:
        assert path == token._INFO
        if self._refused:
            raise ApiError(self._refused, "", "refused")
        return {"data": dict(self.data)}

    async def patch(self, path: str, change: Any) -> None:
        assert path == token._INFO
        self.writes += 1
        for key, value in change["data"].items():
            if value is None:
                self.data.pop(key, None)
            else:
                self.data[key] = value


async def test_a_token_signs_cluster_info_until_it_is_deleted() -> None:
    info: Any = Info({"kubeconfig": "apiVersion: v1"})
    await _vouch(info, ID, SECRET)
    assert vouches(info.data[KEY], "apiVersion: v1", ID, SECRET)
    # One that a signer has written already stays.
    await _vouch(info, ID, SECRET)
    assert info.writes == 1
    await _vouch(info, ID)
    assert info.data == {"kubeconfig": "apiVersion: v1"}


@pytest.mark.parametrize("refused", [403, 404])
async def test_a_token_is_made_where_nothing_can_be_signed(refused: int) -> None:
    info: Any = Info({}, refused)
    await _vouch(info, ID, SECRET)
    assert info.writes == 0


async def test_other_refusals_are_told() -> None:
    info: Any = Info({}, 500)
    with pytest.raises(ApiError):
        await _vouch(info, ID, SECRET)
