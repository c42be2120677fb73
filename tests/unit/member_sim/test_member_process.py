"""How the process of a simulated member ends."""

from __future__ import annotations

from typing import Any

import pytest

from services._kit.base import logs
from services._kit.runtime.service_wiring import LOG_REPLACED
from services.apiserver.store.store_port import StoreReplaced
from services.member_sim import __main__ as program
from services.member_sim import app
from services.member_sim.settings import MemberSettings


async def test_member_with_a_replaced_store_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    async def replaced(*_: Any) -> None:
        raise StoreReplaced("the stream is another one")

    monkeypatch.setattr(app, "run_member", replaced)
    monkeypatch.setattr(logs, "configure", lambda *_: None)
    with pytest.raises(SystemExit) as ended:
        await program._main(MemberSettings(name="m1"))
    assert ended.value.code == LOG_REPLACED
