"""Documents name what exists: paths, modules, links, classes of the glossary, rooms and files of the walk."""

from __future__ import annotations

import ast
import re
import tomllib
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *DOCS.rglob("*.md")])
MOST_FILES = 40
PATH = re.compile(r"(?<![\w./<>-])(?:services|schemas|tests|docs|k8s)/[\w./*<>-]*")
MODULE = re.compile(r"(?<![\w./-])(?:services|schemas|tests)(?:\.\w+)+")
SOURCES = re.compile(r"docs/sources\.md((?:,?\s*#[a-z-]+)+)")
LINK = re.compile(r"\]\(([^)\s]+)\)")
CODE = re.compile(r"`([^`]+)`")
STEP = re.compile(r"^(\d+)\. `([^`]+)` \S", re.MULTILINE)

CHANGELOG = ROOT / "CHANGELOG.md"
HEADINGS = ["Added", "Changed", "Deprecated", "Fixed", "Removed", "Security"]

every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
every_text = pytest.mark.parametrize("page", [CHANGELOG, *PAGES], ids=lambda page: str(page.relative_to(ROOT)))


def unfenced(text: str) -> str:
    """A page without its blocks of code."""
    return re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)


def matches(path: str) -> bool:
    """Whether a path of the repository exists; `*` and `<name>` stand for any part of a name."""
    return any(True for _ in ROOT.glob(re.sub(r"<[\w-]+>", "*", path).rstrip("/")))


def anchors(page: Path) -> set[str]:
    """Anchors of a page's headings."""
    titles = re.findall(r"^#+ (.+)$", unfenced(page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


@cache
def names(path: Path) -> frozenset[str]:
    """Classes, functions and constants of a module; of a package those of its modules."""
    if path.is_dir():
        return frozenset(name for module in path.glob("*.py") for name in names(module))
    found = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found.update(target.id for target in targets if isinstance(target, ast.Name))
    return frozenset(found)


def is_module(dotted: str) -> bool:
    """Whether a dotted name is a module or package, or a name of one."""
    path = ROOT.joinpath(*dotted.split("."))
    if path.is_dir() or path.with_suffix(".py").is_file():
        return True
    module = path.parent.with_suffix(".py")
    return module.is_file() and path.name in names(module)


def rows(page: Path) -> list[list[str]]:
    """Rows of all tables of a page, without their heads."""
    found = []
    for block in re.findall(r"^\|.*\n\|[-| ]+\|\n((?:\|.*\n?)+)", page.read_text(encoding="utf-8"), re.MULTILINE):
        found += [[cell.strip() for cell in line.strip("|").split("|")] for line in block.splitlines()]
    return found


def test_sources_in_docstrings_lead_to_a_heading() -> None:
    known = anchors(DOCS / "sources.md")
    modules = [path for room in ("services", "schemas") for path in (ROOT / room).rglob("*.py")]
    text = "\n".join(path.read_text(encoding="utf-8") for path in modules)
    named = {name for group in SOURCES.findall(text) for name in re.findall(r"#([a-z-]+)", group)}
    assert len(named) > 30
    assert named <= known
    assert not re.search("§", text), "name docs/sources.md#… instead"


@every_page
def test_paths_and_modules_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    missing = [path for path in PATH.findall(text) if not matches(path.rstrip("."))]
    assert not missing + [module for module in MODULE.findall(text) if not is_module(module)]


@every_text
def test_links_lead_somewhere(page: Path) -> None:
    broken = []
    for link in LINK.findall(unfenced(page.read_text(encoding="utf-8"))):
        path, _, anchor = link.partition("#")
        if "://" in path:
            continue
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert not broken


def test_changelog_has_the_usual_headings() -> None:
    for release in re.split(r"^## ", CHANGELOG.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        found = re.findall(r"^### (.+)$", release, re.MULTILINE)
        assert found, "entries stand below a heading"
        assert found == [heading for heading in HEADINGS if heading in found]


def test_every_decision_record_has_its_number() -> None:
    numbers = [int(page.name[:4]) for page in sorted((DOCS / "adr").glob("*.md"))]
    assert numbers == list(range(len(numbers)))
    for page in (DOCS / "adr").glob("*.md"):
        assert page.read_text(encoding="utf-8").startswith(f"# {page.name[:4]}: ")


@pytest.mark.parametrize("row", rows(DOCS / "glossary.md"), ids=lambda row: row[0])
def test_glossary_names_code_that_exists(row: list[str]) -> None:
    tokens = CODE.findall(row[2])
    files = [ROOT / token for token in tokens if "/" in token]
    files += [path for token in tokens if re.fullmatch(r"\w+\.py", token) for path in ROOT.glob(f"services/*/{token}")]
    known = {name for path in files for name in names(path)}
    assert files or LINK.search(row[2]), "a term says where it is"
    assert not [token for token in tokens if token.isidentifier() and token not in known]


def test_glossary_terms_are_sorted_and_unique() -> None:
    terms = [row[0] for row in rows(DOCS / "glossary.md")]
    assert len(set(terms)) == len(terms)
    for table in re.split(r"^## ", (DOCS / "glossary.md").read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        found = re.findall(r"^\| (?!Term |-)([^|]+?) \|", table, re.MULTILINE)
        assert found == sorted(found, key=str.lower)


def test_walk_has_few_files_that_exist() -> None:
    steps = STEP.findall((DOCS / "architecture.md").read_text(encoding="utf-8"))
    assert [int(number) for number, _ in steps] == list(range(1, len(steps) + 1))
    assert 0 < len(steps) <= MOST_FILES
    assert len({path for _, path in steps}) == len(steps)
    assert all((ROOT / path).is_file() for _, path in steps)


@pytest.mark.parametrize("package", ["services._rules", "services._kit"])
def test_layers_are_those_of_the_contract(package: str) -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    (layers,) = [contract["layers"] for contract in contracts if contract.get("containers") == [package]]
    wanted = {
        (len(layers) - index, f"{package.replace('.', '/')}/{room.strip()}")
        for index, layer in enumerate(layers)
        for room in layer.split("|")
    }
    shown = {
        (int(row[0]), path.rstrip("/").removesuffix(".py"))
        for row in rows(DOCS / "architecture.md")
        if row[0].isdigit()
        for path in CODE.findall(row[1])
    }
    assert {(layer, path) for layer, path in shown if path.startswith(package.replace(".", "/"))} == wanted
