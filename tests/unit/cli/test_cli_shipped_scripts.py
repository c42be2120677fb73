"""`karmadactl interpret` shows the scripts that come with the product, and tries them where no files are named."""

from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from services.cli.common.running import Failed
from services.cli.objects import bundled_scripts as shipped_scripts
from services.cli.objects import interpret as interpreting
from services.cli.objects.interpret_commands import app

CLONESET = """
apiVersion: apps.kruise.io/v1alpha1
kind: CloneSet
metadata: {name: web, generation: 1}
spec: {replicas: 2}
status: {observedGeneration: 1, updatedReplicas: 2, availableReplicas: 2}
"""


@pytest.fixture
def cloneset(tmp_path: Path) -> str:
    path = tmp_path / "cloneset.yaml"
    path.write_text(CLONESET)
    return str(path)


def command(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, arguments)
    return done.exit_code, done.stdout + done.stderr


def test_kinds_are_listed_with_their_operations() -> None:
    code, shown = command("--list-shipped")
    lines = [line.split() for line in shown.splitlines()]
    assert code == 0
    assert lines[0] == ["APIVERSION", "KIND", "OPERATIONS"]
    assert ["apps.kruise.io/v1alpha1", "AdvancedCronJob", "AggregateStatus,InterpretDependency"] in lines
    assert len({tuple(line[:2]) for line in lines}) == len(lines)


@pytest.mark.parametrize("name", ["CloneSet", "cloneset.apps.kruise.io", "apps.kruise.io/v1alpha1/CloneSet"])
def test_shown_script_is_a_valid_customization(name: str, tmp_path: Path) -> None:
    code, shown = command("--show", name)
    assert code == 0
    copy = tmp_path / "copy.yaml"
    copy.write_text(shown)
    [(_, customization)] = interpreting.customizations_in([copy])
    assert customization["spec"]["target"] == {"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet"}
    text, sound = interpreting.check([(copy, customization)])
    assert sound
    assert text.count("PASS") == 6


def test_a_name_of_several_kinds_shows_all_of_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = {("a.io/v1", "Job"): tmp_path / "a", ("b.io/v1", "Job"): tmp_path / "b", ("b.io/v1", "Other"): tmp_path}
    monkeypatch.setattr(shipped_scripts, "files", lambda: found)
    monkeypatch.setattr(shipped_scripts, "text", lambda api_version, kind: f"of: {api_version}\n")
    assert list(yaml.safe_load_all(shipped_scripts.written("job"))) == [{"of": "a.io/v1"}, {"of": "b.io/v1"}]
    assert shipped_scripts.written("job.b.io") == "of: b.io/v1\n"


def test_a_kind_without_scripts_is_refused_by_its_name() -> None:
    with pytest.raises(Failed, match=r"no scripts for 'Deployment' come with this product; --list-shipped names"):
        shipped_scripts.written("Deployment")


def test_without_files_the_shipped_scripts_are_tried(cloneset: str) -> None:
    code, shown = command("--operation", "InterpretHealth", "--observed-file", cloneset)
    assert (code, shown) == (0, "---\n# [1/1] healthy:\ntrue\n")


def test_without_files_all_shipped_scripts_are_checked() -> None:
    code, shown = command("--check")
    assert code == 0
    assert shown.count("SOURCE: ") == shown.count("TARGET: ") == len(shipped_scripts.every())
    assert "ERROR" not in shown


def test_operation_without_bundled_script_names_the_remedy(cloneset: str, tmp_path: Path) -> None:
    code, shown = command("--operation", "Retain", "--desired-file", cloneset, "--observed-file", cloneset)
    assert code == 1
    assert "no customization defines Retain for apps.kruise.io/v1alpha1 CloneSet; name files that do with -f" in shown
    other = tmp_path / "other.yaml"
    other.write_text("apiVersion: example.io/v1\nkind: Widget\n")
    code, shown = command("--operation", "InterpretHealth", "--observed-file", str(other))
    assert code == 1
    assert "no scripts for example.io/v1 Widget come with this product; name files with -f" in shown
