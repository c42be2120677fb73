"""Pure modules read no clock, draw nothing and reach nothing outside: rules, folds, decisions and what those import."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.syntax_trees import tree_of

ROOT: Final = Path(__file__).parents[2]
IMPURE: Final = frozenset(
    {
        "aiohttp",
        "asyncio",
        "kubernetes_asyncio",
        "logging",
        "nats",
        "os",
        "pathlib",
        "prometheus_client",
        "random",
        "secrets",
        "socket",
        "structlog",
        "subprocess",
        "threading",
        "time",
        "uuid",
    }
)
CLOCKS: Final = frozenset({"now", "utcnow", "today"})
"""Methods of `datetime` and `date` that read the clock."""
ALLOWED: Final = {("services._rules.interpreter.scripts.bundled", "pathlib")}
"""The scripts that come with the product are files of the package."""


def contract() -> dict[str, Any]:
    """The contract of import-linter about pure modules."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    (found,) = [item for item in contracts if item["name"] == "rules, folds and decisions are pure"]
    return dict(found)


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def files_of(module: str) -> list[Path]:
    """The files of a module, or of a package with all in it; `*` stands for one name."""
    pattern = module.replace(".", "/")
    return [*ROOT.glob(f"{pattern}.py"), *ROOT.glob(f"{pattern}/**/*.py")]


def imported(tree: ast.Module) -> Iterator[str]:
    """The modules that a file imports, and what could be one."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (item.name for item in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{item.name}" for item in node.names)


@cache
def pure_files() -> dict[str, ast.Module]:
    """The modules of the contract and all of their own service that they import, at any remove."""
    waiting = [path for module in contract()["source_modules"] for path in files_of(module)]
    found: dict[str, ast.Module] = {}
    while waiting:
        path = waiting.pop()
        module = module_of(path)
        if module in found:
            continue
        tree = found[module] = tree_of(path)
        service = ".".join(module.split(".")[:2])
        own = {name for name in imported(tree) if name.startswith(f"{service}.")}
        waiting += [
            ROOT / f"{name.replace('.', '/')}.py" for name in own if (ROOT / f"{name.replace('.', '/')}.py").exists()
        ]
    return found


def clocks_read(tree: ast.Module) -> Iterator[str]:
    """Calls that read the clock, by line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CLOCKS:
            owner = ast.unparse(node.func.value).rpartition(".")[2]
            if owner in ("datetime", "date"):
                yield f"line {node.lineno}: {owner}.{node.func.attr}()"


def impurities(module: str, tree: ast.Module) -> list[str]:
    """What of a module is not pure."""
    names = {name.partition(".")[0] for name in imported(tree)} & IMPURE
    kit = sorted(name for name in imported(tree) if name.startswith("services._kit"))
    return [*sorted(name for name in names if (module, name) not in ALLOWED), *kit, *clocks_read(tree)]


def test_pure_modules_import_and_call_nothing_impure() -> None:
    found = {module: wrong for module, tree in pure_files().items() if (wrong := impurities(module, tree))}
    assert not found


def test_every_service_that_decides_is_among_them() -> None:
    modules = pure_files()
    decides = [module_of(path) for path in sorted(ROOT.glob("services/*/decide.py"))]
    assert len(decides) > 10
    assert not set(decides) - modules.keys()
    assert {"services.override_renderer.render", "services.cluster_monitor.readiness"} <= modules.keys()


def test_the_contract_names_only_what_there_is() -> None:
    rules = contract()
    assert not [module for module in rules["source_modules"] if not files_of(module)]
    assert "allow_indirect_imports" not in rules
    assert set(rules["forbidden_modules"]) >= IMPURE


@pytest.mark.parametrize(
    "source",
    [
        "import time",
        "from asyncio import sleep",
        "from services._kit.base.clock import Clock",
        "import datetime\ndatetime.datetime.now(datetime.UTC)",
        "from datetime import date\ndate.today()",
    ],
)
def test_impure_code_is_found(source: str) -> None:
    assert impurities("services.x.decide", ast.parse(source))
