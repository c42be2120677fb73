"""What `fleetlog validate` refuses without a control plane, and how it says so."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from services.apiserver.settings import Settings
from services.cli import fleetlog
from services.cli.objects.manifest_validation import Document, Validator
from services.cli.objects.yaml_positions import line_of

ROOT = Path(__file__).parents[3]
GOOD = """\
apiVersion: policy.karmada.io/v1alpha1
kind: PropagationPolicy
metadata: {name: web, namespace: shop}
spec:
  resourceSelectors: [{apiVersion: apps/v1, kind: Deployment}]
  placement: {spreadConstraints: [{maxGroups: 2}]}
"""
SELECTORS = "  resourceSelectors: [{apiVersion: apps/v1, kind: Deployment}]"
BAD = GOOD.replace("name: web", "name: all").replace("placement:", "preemption: Always\n  placement:")
MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"


def validated(*words: str, stdin: str = "") -> tuple[int, str]:
    ended = CliRunner().invoke(fleetlog.app, ["validate", *words], input=stdin)
    return ended.exit_code, ended.output


def test_good_manifests_and_those_of_other_kinds_pass(tmp_path: Path) -> None:
    file = tmp_path / "all.yaml"
    file.write_text(f"{GOOD}---\n{MAP}---\n")
    assert validated("-f", str(file)) == (0, "1 objects checked, 1 of other kinds not checked, 0 problems\n")


def test_a_refusal_names_file_line_object_field_and_remedy(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    file = tmp_path / "deep" / "all.yaml"
    file.write_text(f"{MAP}---\n{GOOD}---\n{BAD}")
    code, text = validated("-R", "-f", str(tmp_path))
    assert code == 1
    line = len(f"{MAP}---\n{GOOD}---\n".splitlines()) + 1 + BAD.splitlines().index(SELECTORS)
    first = text.splitlines()[0]
    assert first.startswith(f"{file}:{line}: PropagationPolicy shop/all: spec.resourceSelectors[0].name: Invalid value")
    assert "must be set" in first


def test_json_has_every_refusal() -> None:
    code, text = validated("-f", "-", "-o", "json", stdin=BAD)
    found = json.loads(text)
    assert (code, found["checked"], found["skipped"]) == (1, 1, 0)
    (refusal,) = found["refused"]
    assert (refusal["file"], refusal["line"], refusal["field"]) == ("<stdin>", 5, "spec.resourceSelectors[0].name")
    assert refusal["object"] == "PropagationPolicy shop/all"


@pytest.mark.parametrize(
    ("text", "field", "message"),
    [
        (GOOD.replace("placement:", "placment:"), "spec.placment", "unknown field"),
        (GOOD + "  preemption: Sometimes\n", "spec.preemption", "Unsupported value"),
        (GOOD + "  priority: high\n", "spec.priority", "must be of type integer"),
        (GOOD.replace("v1alpha1", "v1"), "apiVersion", "no version of PropagationPolicy"),
        (GOOD.replace("name: web", "name: We_b"), "metadata.name", "Invalid value"),
        ("- a\n", "kind", "Required value"),
        ("metadata: {name: a}\n", "kind", "Required value"),
    ],
)
def test_what_a_manifest_can_have_wrong(text: str, field: str, message: str) -> None:
    code, shown = validated("-f", "-", "-o", "json", stdin=text)
    found = [(one["field"], one["message"]) for one in json.loads(shown)["refused"]]
    assert code == 1
    assert any(place == field and message in said for place, said in found), found


@pytest.mark.parametrize(
    ("field", "line"),
    [
        ("", 1),
        ("kind", 2),
        ("spec.rules", 4),
        ("spec.rules[0].name", 5),
        ("spec.rules[1].name", 8),
        ("spec.rules[1].target.weight", 6),
        ("spec.rules[7].name", 4),
        ("spec.overall[limits.cpu]", 10),
        ("spec.absent.deeper", 3),
        ("spec.overall[a/b", 9),
    ],
)
def test_a_field_is_found_in_its_text(field: str, line: int) -> None:
    text = """\
apiVersion: a/v1
kind: A
spec:
  rules:
  - name: one
  - target:
      name: x
    name: two
  overall:
    limits.cpu: 1
"""
    assert line_of(yaml.compose(text), field) == line


def test_customizations_are_compared_with_those_before_them() -> None:
    rule = {"luaScript": "function GetReplicas(o)\n  return 1\nend"}
    spec = {"target": {"apiVersion": "a.io/v1", "kind": "A"}, "customizations": {"replicaResource": rule}}
    api, kind = "config.karmada.io/v1alpha1", "ResourceInterpreterCustomization"
    validator = Validator("default", Settings())
    found = [
        validator.refusals(
            Document("f", 1, {"apiVersion": api, "kind": kind, "metadata": {"name": name}, "spec": spec})
        )
        for name in ("one", "two")
    ]
    assert found[0] == []
    assert "one already customizes InterpretReplica" in found[1][0].message


def test_settings_of_the_installation_count(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = "{taints: [{key: a, effect: NoExecute}]}"
    policy = f"apiVersion: policy.karmada.io/v1alpha1\nkind: ClusterTaintPolicy\nmetadata: {{name: a}}\nspec: {spec}\n"
    assert validated("-f", "-", stdin=policy)[0] == 1
    monkeypatch.setenv("FLEETLOG_ENABLE_NO_EXECUTE_TAINT_EVICTION", "true")
    assert validated("-f", "-", stdin=policy)[0] == 0


def test_items_of_a_list_are_checked_one_by_one() -> None:
    items = "".join(f"- {line}\n" if not number else f"  {line}\n" for number, line in enumerate(BAD.splitlines()))
    code, text = validated("-f", "-", stdin=f"apiVersion: v1\nkind: List\nitems:\n{items}")
    assert code == 1
    assert text.splitlines()[0].startswith("<stdin>:8: PropagationPolicy shop/all: spec.resourceSelectors[0].name")


def test_items_that_come_by_a_merge_key_are_checked() -> None:
    code, text = validated("-f", "-", stdin="kind: List\n<<: {items: [{kind: 1}]}\n")
    assert (code, text.splitlines()[0].startswith("<stdin>:2: ")) == (1, True)


@pytest.mark.parametrize(
    ("words", "stdin", "text"),
    [
        ((), "", "use -f FILE"),
        (("-f", "/nowhere.yaml"), "", "/nowhere.yaml does not exist"),
        (("-f", "-"), "a: [", "<stdin> is no YAML"),
    ],
)
def test_what_cannot_be_read_is_an_error(words: tuple[str, ...], stdin: str, text: str) -> None:
    code, shown = validated(*words, stdin=stdin)
    assert code == 1
    assert text in shown


def test_the_manifests_of_the_documents_pass() -> None:
    code, text = validated("-R", "-f", str(ROOT / "docs/examples"), "-f", str(ROOT / "services/cli/examples"))
    assert code == 0, text
