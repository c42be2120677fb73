"""Every path answers over HTTPS as recorded: what is let pass, and the object with its patch."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from services._rules.admission import Context
from services._rules.admission.webhook_table import DELETION, HOOKS
from tests.golden.run import read_cases
from tests.golden.runners.admission import NOW, as_recorded
from tests.support.reviews import Known, hooks_of, reviewing

Case = dict[str, Any]
SAMPLE = Path(__file__).parents[2] / "golden" / "data" / "admission-dev.jsonl.gz"
CASES = list(read_cases(Path(os.environ.get("FLEETLOG_TEST_ADMISSION_CASES", str(SAMPLE)))))
AT = "2031-07-09T11:12:13Z"
UUID = re.compile(rb"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def without_ids(stored: Case, given: Case) -> Case:
    """The object with `<uuid>` and `<now>` in place of what the server drew."""
    known = set(UUID.findall(msgspec.json.encode(given)))
    shown = UUID.sub(lambda found: found[0] if found[0] in known else b"<uuid>", msgspec.json.encode(stored))
    return dict(msgspec.json.decode(shown.replace(AT.encode(), NOW.encode())))


@pytest.mark.parametrize("flag", [False, True])
async def test_reviews_come_out_as_recorded(tmp_path: Path, flag: bool) -> None:
    stored = Known()
    standing = Context(allow_no_execute_taint_policy=flag)
    wrong = []
    async with reviewing(tmp_path, stored, standing, now=lambda: AT) as caller:
        for case in CASES:
            if bool(case.get("allowNoExecuteTaintPolicy")) is not flag:
                continue
            stored.existing = case.get("existing") or ()
            kind, operation = case["kind"], case["operation"]
            old = case.get("old") if operation != "CREATE" else None
            namespace = case.get("namespace") or ""
            found, answer = await caller.admit(kind, operation, case.get("object"), old, namespace)
            if found is None:
                status = answer["status"]
                right = not case["allowed"] and status["message"] and 400 <= status["code"] <= 500
            else:
                right = as_recorded(case, without_ids(found, case))
            if not right:
                wrong.append((case["id"], answer))
    assert wrong == []


def test_recorded_kinds_have_a_path_each() -> None:
    recorded = {case["kind"] for case in CASES}
    assert recorded - {hook.kind for hook in HOOKS.values()} == set()
    assert DELETION in recorded
    assert [hook.step for hook in hooks_of("PropagationPolicy", "CREATE")] == ["mutating", "validating"]
    assert [hook.path for hook in hooks_of("ResourceBinding", "UPDATE")] == ["/validate-resourcebinding"]
