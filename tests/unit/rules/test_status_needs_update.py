"""Whether a write would change the live object: defaults are none of ours, drift and removed fields are."""

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from schemas.manifest import Manifest
from services._rules.delivery.semantic_equal import needs_update
from tests.support.case_files import Case, cases_of

CASES = Path(__file__).with_name("needs_update.yaml")
OBJECTS = yaml.load(CASES.read_text(), Loader=yaml.CSafeLoader)["objects"]


def changed(obj: Manifest, changes: Manifest) -> Manifest:
    """The object with these fields set, by their paths; null takes a field away."""
    result = copy.deepcopy(obj)
    for path, value in changes.items():
        at: Any = result
        *way, last = path.split("/")
        for name in way:
            at = at[int(name)] if isinstance(at, list) else at.setdefault(name, {})
        if isinstance(at, list):
            at.insert(int(last), value)
        elif value is None:
            at.pop(last)
        else:
            at[last.replace("~1", "/")] = value
    return result


@pytest.mark.parametrize("case", cases_of(CASES))
def test_write_is_needed_when_it_changes_the_object(case: Case) -> None:
    known = OBJECTS[case["object"]]
    desired = changed(known["desired"], case.get("desired", {}))
    live = changed(known["live"], case.get("live", {}))
    applied = desired
    if "applied" in case:
        applied = case["applied"] and changed(known["desired"], case["applied"])
    assert needs_update(desired, live, applied) is case["write"]
