"""Scripts that come with the product answer as worked examples say that recorded cases do not tell.

A file in `thirdparty` has `kinds`, with the apiVersion of each, and `cases` by operation and name. A case has inputs
(`object`, `replicas`, `items`, `desired`, `observed`) and what comes out: `expected`, the whole answer; `status`, for
AggregateStatus, where the answer is the object with this status and nothing else changed; or `error`, a part of the
error's text. It is tried with every kind of its file or those in its own `kinds`, whose apiVersion and kind are added
to its objects. Members that begin with `x-` are for anchors.
"""

from pathlib import Path
from typing import Any

import pytest
import yaml

from services._kit.interpretation.lua.machine import LuaMachine
from services._rules.interpreter import InterpretError, NativeInterpreter, Operation
from services._rules.interpreter.scripts.bundled import Shipped, files, manifest
from services._rules.interpreter.scripts.customizations import MEMBERS
from services._rules.interpreter.scripts.lua_syntax import problem
from tests.golden.run import read_cases

Case = dict[str, Any]
DATA = Path(__file__).with_name("thirdparty")
RECORDED = Path(__file__).parents[2] / "golden" / "data" / "interpreter-thirdparty-dev.jsonl.gz"
# The columns of the table in docs/interpreters.md.
COLUMNS = (
    "replicaResource",
    "componentResource",
    "replicaRevision",
    "retention",
    "statusReflection",
    "statusAggregation",
    "healthInterpretation",
    "dependencyInterpretation",
)
WHOLE = (Operation.AGGREGATE, Operation.RETAIN, Operation.REVISE)


def _cases() -> list[Any]:
    found = []
    for path in sorted(DATA.glob("*.yaml")):
        data = yaml.load(path.read_text(), Loader=yaml.CSafeLoader)
        assert all(name in ("kinds", "cases") or name.startswith("x-") for name in data), path
        for operation, cases in data["cases"].items():
            for name, case in cases.items():
                for kind in case.get("kinds", data["kinds"]):
                    target = {"apiVersion": data["kinds"][kind], "kind": kind}
                    found.append(
                        pytest.param(target, operation, case, id=f"{kind}-{operation}-{name}".replace(" ", "_"))
                    )
    return found


CASES = _cases()


@pytest.fixture(scope="module")
def machine() -> LuaMachine:
    return LuaMachine(16 << 20)


def _arguments(target: Case, operation: str, case: Case) -> list[Any]:
    if operation == Operation.RETAIN:
        return [{**target, **case["desired"]}, {**target, **case["observed"]}]
    obj = {**target, **case["object"]}
    if operation == Operation.AGGREGATE:
        return [obj, case["items"]]
    return [obj, case["replicas"]] if operation == Operation.REVISE else [obj]


@pytest.mark.parametrize(("target", "operation", "case"), CASES)
def test_a_shipped_script_answers_as_written_down(
    machine: LuaMachine, target: Case, operation: Operation, case: Case
) -> None:
    scripts = Shipped().scripts(target["apiVersion"], target["kind"], operation)
    arguments = _arguments(target, operation, case)
    if "error" in case:
        with pytest.raises(InterpretError) as raised:
            machine.evaluate(operation, scripts[0], arguments)
        assert case["error"] in str(raised.value)
        return
    answer = machine.evaluate(operation, scripts[0], arguments)
    if "status" in case:
        assert answer == {**arguments[0], "status": case["status"]}
    else:
        expected = case["expected"]
        assert answer == ({**target, **expected} if operation in WHOLE else expected)
    assert isinstance(answer, bool) == isinstance(case.get("expected"), bool)


EXAMPLES = {
    *((case.values[0]["apiVersion"], case.values[0]["kind"], case.values[1]) for case in CASES),
    *((case["apiVersion"], case["kind"], case["operation"]) for case in read_cases(RECORDED)),
}
OFFERED = [
    pytest.param(api_version, kind, member, id=f"{api_version}-{kind}-{member}")
    for api_version, kind in files()
    for member in manifest(api_version, kind)["spec"]["customizations"]
]


@pytest.mark.parametrize(("api_version", "kind", "member"), OFFERED)
def test_every_shipped_script_is_sound_and_has_an_example(api_version: str, kind: str, member: str) -> None:
    rule = manifest(api_version, kind)["spec"]["customizations"][member]
    assert problem(rule["luaScript"]) is None
    assert (api_version, kind, MEMBERS[member]) in EXAMPLES


@pytest.mark.parametrize("target", files(), ids="_".join)
def test_bundled_file_customizes_the_kind_in_its_path(target: tuple[str, str]) -> None:
    api_version, kind = target
    found = manifest(api_version, kind)
    assert found["apiVersion"] == "config.karmada.io/v1alpha1"
    assert found["kind"] == "ResourceInterpreterCustomization"
    assert found["metadata"] == {"name": f"{kind}.{api_version.split('/')[0]}".lower()}
    assert found["spec"]["target"] == {"apiVersion": api_version, "kind": kind}
    assert found["spec"]["customizations"].keys() <= MEMBERS.keys()


def test_native_kinds_have_no_bundled_scripts() -> None:
    native = NativeInterpreter()
    # The status of any kind is collected.
    operations = [operation for operation in MEMBERS.values() if operation != Operation.STATUS]
    for api_version, kind in files():
        assert not any(native.hook_enabled(api_version, kind, operation) for operation in operations)


def test_only_files_of_the_kinds_asked_for_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Path] = []
    original = Path.read_text

    def reading(path: Path, *arguments: Any, **options: Any) -> str:
        read.append(path)
        return original(path, *arguments, **options)

    monkeypatch.setattr(Path, "read_text", reading)
    shipped = Shipped()
    assert not shipped.hook_enabled("apps/v1", "Deployment", Operation.RETAIN)
    assert not shipped.hook_enabled("apps.kruise.io/../v1alpha1", "../CloneSet", Operation.RETAIN)
    assert read == []
    for _ in range(2):
        assert shipped.hook_enabled("apps.kruise.io/v1alpha1", "CloneSet", Operation.REVISE)
        assert not shipped.hook_enabled("apps.kruise.io/v1alpha1", "CloneSet", Operation.RETAIN)
    assert [path.name for path in read] == ["CloneSet.yaml"]


def test_the_documented_table_says_which_operations_are_shipped() -> None:
    lines = (Path(__file__).parents[3] / "docs" / "interpreters.md").read_text().splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("| apiVersion | Kind |"))
    documented = {}
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        api_version, kind, *marks = (cell.strip() for cell in line.strip("|").split("|"))
        documented[api_version, kind] = {member for member, mark in zip(COLUMNS, marks, strict=True) if mark == "✔"}
    assert documented == {target: set(manifest(*target)["spec"]["customizations"]) for target in files()}
