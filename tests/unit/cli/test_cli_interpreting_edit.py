"""`karmadactl interpret --edit` shows the scripts of a customization as one Lua file and writes back what was saved."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from services.cli.common.running import Failed
from services.cli.objects import bundled_scripts as shipped_scripts
from services.cli.objects.script_editor import as_lua, edit, from_lua

CUSTOMIZATION = """
apiVersion: config.karmada.io/v1alpha1
kind: ResourceInterpreterCustomization
metadata: {name: widgets, labels: {team: a}}
spec:
  target: {apiVersion: example.io/v1, kind: Widget}
  customizations:
    healthInterpretation:
      luaScript: |
        -- what counts is the phase
        function InterpretHealth(obj)
          return obj.status.phase == "Up"
        end
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "widgets.yaml"
    path.write_text(CUSTOMIZATION)
    return path


def replacing(old: str, new: str, *, times: int = 1) -> Callable[[Path], None]:
    """An editor in which a person replaces a text, the first so many times that it is opened."""
    opened: list[Path] = []

    def editor(place: Path) -> None:
        opened.append(place)
        if len(opened) <= times:
            text = place.read_text()
            assert old in text
            place.write_text(text.replace(old, new))

    return editor


def test_saved_script_is_written_back(path: Path) -> None:
    said = edit(path, documented=True, editor=replacing('"Up"', '"Ready"'))
    assert said == "resourceinterpretercustomization.config.karmada.io/widgets edited\n"
    before, after = yaml.safe_load(CUSTOMIZATION), yaml.safe_load(path.read_text())
    script = before["spec"]["customizations"]["healthInterpretation"]
    script["luaScript"] = script["luaScript"].replace("Up", "Ready")
    assert after == before
    assert "luaScript: |\n" in path.read_text()


def test_rules_are_added_and_removed_and_the_target_is_changed(path: Path) -> None:
    def editor(place: Path) -> None:
        head, _, _ = place.read_text().partition("---@rule: Retain")
        head = head.replace("---@kind: Widget", "---@kind: Gadget")
        place.write_text(f"{head}---@rule: InterpretReplica\nfunction GetReplicas(obj) return 1 end\n")

    edit(path, documented=False, editor=editor)
    spec = yaml.safe_load(path.read_text())["spec"]
    assert spec["target"] == {"apiVersion": "example.io/v1", "kind": "Gadget"}
    assert spec["customizations"] == {"replicaResource": {"luaScript": "function GetReplicas(obj) return 1 end\n"}}


def test_a_file_saved_as_it_was_cancels_the_edit(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert edit(path, documented=True, editor=lambda _: None) == ""
    assert "no changes made" in capsys.readouterr().err
    assert path.read_text() == CUSTOMIZATION


def test_mistake_opens_the_editor_again_with_the_error(path: Path) -> None:
    seen: list[str] = []

    def editor(place: Path) -> None:
        seen.append(place.read_text())
        place.write_text(seen[-1].replace("end\n", "") if len(seen) == 1 else seen[-1].replace('"Up"', '"Up" end'))

    edit(path, documented=False, editor=editor)
    assert "-- InterpretHealth: line 3: " in seen[1]
    assert yaml.safe_load(path.read_text())["spec"]["customizations"]["healthInterpretation"]


def test_abandoned_edit_is_kept_in_a_file(path: Path) -> None:
    with pytest.raises(Failed, match="nothing valid was saved") as told:
        edit(path, documented=False, editor=replacing("end\n", ""))
    kept = Path(str(told.value).rsplit(" ", 1)[1])
    assert 'phase == "Up"' in kept.read_text()
    kept.unlink()
    assert path.read_text() == CUSTOMIZATION


def test_json_stays_json_and_a_missing_file_begins_a_new_one(path: Path, tmp_path: Path) -> None:
    path.write_text(json.dumps(yaml.safe_load(CUSTOMIZATION)))
    edit(path, documented=False, editor=replacing('"Up"', '"Ready"'))
    assert "Ready" in json.loads(path.read_text())["spec"]["customizations"]["healthInterpretation"]["luaScript"]

    def editor(place: Path) -> None:
        text = place.read_text().replace("---@name: ", "---@name: new").replace("---@kind: ", "---@kind: Widget")
        place.write_text(text.replace("---@apiVersion: ", "---@apiVersion: v1"))

    new = tmp_path / "new.yaml"
    assert edit(new, documented=False, editor=editor).endswith("/new edited\n")
    assert yaml.safe_load(new.read_text())["metadata"] == {"name": "new"}


def test_only_one_customization_is_edited_at_a_time(path: Path) -> None:
    path.write_text(f"{CUSTOMIZATION}---{CUSTOMIZATION}")
    with pytest.raises(Failed, match="holds 2 customizations"):
        edit(path, documented=False, editor=lambda _: None)
    with pytest.raises(Failed, match="needs one file"):
        edit(path.parent, documented=False, editor=lambda _: None)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("---@rule: Retain\nreturn 1", "---@name: is empty"),
        ("---@rule: Prune", "rule 'Prune' is none of Retain"),
        ("function f() end", "below the line ---@rule:"),
    ],
)
def test_unreadable_edit_is_reported(text: str, said: str) -> None:
    assert said in "\n".join(from_lua({}, text)[1])


def test_every_shipped_customization_survives_unchanged() -> None:
    for _, manifest in shipped_scripts.every():
        assert from_lua(manifest, as_lua(manifest, documented=True)) == (manifest, [])


def test_editor_that_cannot_start_is_reported(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBE_EDITOR", "/nowhere/editor --wait")
    monkeypatch.setattr("tempfile.tempdir", str(path.parent))
    with pytest.raises(Failed, match="set KUBE_EDITOR or EDITOR"):
        edit(path, documented=False)
    assert list(path.parent.iterdir()) == [path]
