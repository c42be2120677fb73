"""`karmadactl interpret` checks scripts and carries out operations with files, without any cluster."""

import io
from pathlib import Path

import pytest
from typer.testing import CliRunner

from services.cli.common.running import Failed
from services.cli.objects import interpret as interpreting
from services.cli.objects.interpret_commands import app
from services.cli.objects.object_options import Inputs

CUSTOMIZATION = """
apiVersion: config.karmada.io/v1alpha1
kind: ResourceInterpreterCustomization
metadata: {name: %s}
spec:
  target: {apiVersion: example.io/v1, kind: Widget}
  customizations:
    replicaResource:
      luaScript: function GetReplicas(obj) return obj.spec.replicas, {resourceRequest = {cpu = "0.5"}} end
    statusAggregation:
      luaScript: "function AggregateStatus(obj, items) obj.status = {n = #items} return obj end"
    retention:
      luaScript: |
        function Retain(desired, observed)
          desired.spec.replicas = desired.spec.replicas * 10 + observed.spec.replicas
          return desired
        end
    replicaRevision:
      luaScript: function ReviseReplica(obj, replicas) obj.spec.replicas = replicas return obj end
    statusReflection:
      luaScript: function ReflectStatus(obj) return {size = obj.spec.replicas} end
    dependencyInterpretation:
      luaScript: function GetDependencies(obj) return {{apiVersion = "v1", kind = "Secret", name = "%s"}} end
"""


@pytest.fixture
def widget(tmp_path: Path) -> Path:
    path = tmp_path / "widget.yaml"
    path.write_text("apiVersion: example.io/v1\nkind: Widget\nmetadata: {name: w}\nspec: {replicas: 4}\n")
    return path


@pytest.fixture
def scripts(tmp_path: Path) -> Path:
    directory = tmp_path / "scripts"
    directory.mkdir()
    (directory / "b.yaml").write_text(CUSTOMIZATION % ("b", "second"))
    (directory / "a.yaml").write_text(CUSTOMIZATION % ("a", "first"))
    (directory / "readme.txt").write_text("none of ours")
    return directory


async def execute(scripts: Path, operation: str, inputs: Inputs, output: str = "yaml") -> str:
    found = [manifest for _, manifest in interpreting.customizations_in(interpreting.files_in([scripts], False))]
    chosen = interpreting.operation_named(operation)
    return await interpreting.execute(found, chosen, interpreting.arguments(chosen, inputs), output)


WIDGET = "apiVersion: example.io/v1\nkind: Widget\nmetadata:\n  name: w\nspec:\n  replicas: {}\n"


@pytest.mark.parametrize(
    ("operation", "inputs", "shown"),
    [
        (
            "interpretreplica",
            ["--observed-file=seen.yaml"],
            "# [1/2] replica:\n6\n---\n# [2/2] requires:\nresourceRequest:\n  cpu: 500m\n",
        ),
        (
            "ReviseReplica",
            ["--observed-file=seen.yaml", "--desired-replica=5"],
            f"# [1/1] revised:\n{WIDGET.format(5)}",
        ),
        (
            "Retain",
            ["--desired-file=widget.yaml", "--observed-file=seen.yaml"],
            f"# [1/1] retained:\n{WIDGET.format(46)}",
        ),
        ("InterpretStatus", ["--observed-file=seen.yaml"], "# [1/1] status:\nsize: 6\n"),
        (
            "AggregateStatus",
            ["--desired-file=widget.yaml", "--status-file=items.yaml"],
            f"# [1/1] aggregatedStatus:\n{WIDGET.format(4)}status:\n  n: 2\n",
        ),
        (
            "InterpretDependency",
            ["--desired-file=widget.yaml"],
            "# [1/1] dependencies:\n- apiVersion: v1\n  kind: Secret\n  name: first\n",
        ),
    ],
)
def test_every_operation_prints_what_it_results_in(
    scripts: Path, widget: Path, monkeypatch: pytest.MonkeyPatch, operation: str, inputs: list[str], shown: str
) -> None:
    monkeypatch.chdir(widget.parent)
    Path("seen.yaml").write_text(WIDGET.format(6))
    Path("items.yaml").write_text("clusterName: m1\n---\nclusterName: m2\n")
    done = CliRunner().invoke(app, ["-f", "scripts/a.yaml", "--operation", operation, *inputs])
    assert (done.exit_code, done.stdout) == (0, f"---\n{shown}")


async def test_status_items_are_documents_and_json_is_offered(scripts: Path, widget: Path, tmp_path: Path) -> None:
    items = tmp_path / "items.yaml"
    items.write_text("clusterName: m1\n---\nclusterName: m2\n")
    text = await execute(scripts, "AggregateStatus", Inputs(desired=widget, status=items), "json")
    assert text.startswith("---\n# [1/1] aggregatedStatus:\n{\n")
    assert '"n": 2' in text


async def test_dependencies_of_all_customizations_are_united(scripts: Path, widget: Path) -> None:
    text = await execute(scripts, "InterpretDependency", Inputs(desired=widget))
    assert [line for line in text.splitlines() if "name:" in line] == ["  name: first", "  name: second"]


def test_script_error_goes_to_standard_error(scripts: Path, widget: Path) -> None:
    broken = scripts / "a.yaml"
    broken.write_text(broken.read_text().replace("return desired", 'error("cannot")'))
    inputs = ["--desired-file", str(widget), "--observed-file", str(widget)]
    done = CliRunner().invoke(app, ["-f", str(broken), "--operation", "Retain", *inputs])
    assert done.stdout == ""
    assert "Retain: script:3: cannot" in done.stderr


async def test_missing_input_is_named(scripts: Path, widget: Path, tmp_path: Path) -> None:
    for operation, inputs, said in (
        ("Retain", Inputs(desired=widget), "--observed-file"),
        ("AggregateStatus", Inputs(desired=widget), "--status-file"),
        ("ReviseReplica", Inputs(observed=widget), "--desired-replica"),
        (
            "InterpretHealth",
            Inputs(observed=widget),
            "defines InterpretHealth for example.io/v1",
        ),
        ("Prune", Inputs(), "'Prune' is none of Retain, "),
        ("InterpretReplica", Inputs(observed=tmp_path / "none.yaml"), "cannot be read"),
    ):
        with pytest.raises(Failed) as refused:
            await execute(scripts, operation, inputs)
        assert said in str(refused.value)
    with pytest.raises(Failed, match="holds a Widget"):
        interpreting.customizations_in([widget])


async def test_one_object_may_be_given_as_desired_or_as_observed(scripts: Path, widget: Path, tmp_path: Path) -> None:
    items = tmp_path / "items.yaml"
    items.write_text("clusterName: m1\n")
    for operation, more in (
        ("InterpretReplica", Inputs()),
        ("InterpretDependency", Inputs()),
        ("AggregateStatus", Inputs(status=items)),
    ):
        desired = await execute(scripts, operation, more._replace(desired=widget))
        assert desired
        assert await execute(scripts, operation, more._replace(observed=widget)) == desired
        with pytest.raises(Failed, match="not both"):
            await execute(scripts, operation, more._replace(desired=widget, observed=widget))


async def test_a_dash_is_standard_input(scripts: Path, widget: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("clusterName: m1\n---\nclusterName: m2\n"))
    text = await execute(scripts, "AggregateStatus", Inputs(desired=widget, status=Path("-")))
    assert "n: 2" in text
    with pytest.raises(Failed, match="for one option only"):
        await execute(scripts, "Retain", Inputs(desired=Path("-"), observed=Path("-")))
    monkeypatch.setattr("sys.stdin", io.StringIO(CUSTOMIZATION % ("a", "first")))
    assert interpreting.files_in([Path("-")], False) == [Path("-")]
    assert interpreting.check(interpreting.customizations_in([Path("-")]))[1]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("kind: Widget", "other: Widget", "target.kind is not set"),
        ("apiVersion: example.io/v1,", "", "target.apiVersion is not set"),
        ("return obj.spec.replicas,", "goto done ::done::return 1,", "InterpretReplica:       ERROR: script:1: "),
    ],
)
def test_check_refuses_incomplete_customizations(scripts: Path, old: str, new: str, said: str) -> None:
    broken = scripts / "a.yaml"
    broken.write_text(broken.read_text().replace(old, new))
    text, sound = interpreting.check(interpreting.customizations_in([broken]))
    assert not sound
    assert said in text


@pytest.mark.parametrize(
    "spec", ["5", "[a]", "{target: 5}", "{customizations: [a]}", "{customizations: {retention: 5}}"]
)
def test_malformed_customization_is_refused_with_its_file(tmp_path: Path, spec: str) -> None:
    path = tmp_path / "odd.yaml"
    path.write_text(f"kind: ResourceInterpreterCustomization\nmetadata: {{name: a}}\nspec: {spec}\n")
    with pytest.raises(Failed, match=r"odd\.yaml: .*spec"):
        interpreting.customizations_in([path])


def test_a_check_lists_every_rule(scripts: Path) -> None:
    broken = scripts / "a.yaml"
    broken.write_text(broken.read_text().replace("Retain(desired, observed)", "Retain(desired"))
    text, sound = interpreting.check(interpreting.customizations_in([broken]))
    assert not sound
    assert text.splitlines()[:4] == ["-" * 35, f"SOURCE: {broken}", "TARGET: example.io/v1 Widget", "RULERS:"]
    verdicts = {line.split(":")[0].strip(): line.split(":", 1)[1].strip() for line in text.splitlines()[4:]}
    assert verdicts["InterpretReplica"] == "PASS"
    assert verdicts["InterpretHealth"] == "UNSET"
    assert verdicts["Retain"].startswith("ERROR: line 2: ")
    assert interpreting.check(interpreting.customizations_in([scripts / "b.yaml"]))[1]
