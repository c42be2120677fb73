"""Replays recorded behaviour: runs each vector file of a directory that a runner knows, prints one JSON line per file.

    python tests/golden/run.py [DIR]

DIR defaults to ../shared/golden beside the repository, or to tests/golden/data. A file `NAME-dev.jsonl.gz` (or
`NAME.jsonl`, `NAME-final.jsonl`, …) goes to the runners of NAME in tests/golden/runners. Such a module has `FILES`
(name to a function of one case: passed, failed, or None where the case belongs to another module) or `FILE_RUNNERS`
(name to a function of the whole file: cases, passed, failed ids; None where it cannot be
run here). Exit code 1: a case failed, or no file was known.
"""

import gzip
import importlib.util
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec

ROOT = Path(__file__).resolve().parents[2]
RUNNERS = Path(__file__).resolve().parent / "runners"

Case = dict[str, Any]
CaseRunner = Callable[[Case], bool | None]
FileRunner = Callable[[Path], tuple[int, int, list[str]] | None]


@dataclass
class Registry:
    """What the runner modules offer, by the name of the vectors."""

    cases: dict[str, list[CaseRunner]] = field(default_factory=dict)
    files: dict[str, FileRunner] = field(default_factory=dict)

    def add(self, module: ModuleType) -> None:
        """Take over the offers of one module."""
        for name, run in getattr(module, "FILES", {}).items():
            self.cases.setdefault(name, []).append(run)
        self.files.update(getattr(module, "FILE_RUNNERS", {}))

    def known(self, stem: str) -> str | None:
        """The longest known name that is the stem itself or the stem without some `-word` endings."""
        while stem:
            if stem in self.cases or stem in self.files:
                return stem
            stem = stem.rpartition("-")[0]
        return None


def load_runner(path: Path) -> ModuleType:
    """Import one runner module by its path."""
    if str(ROOT) not in sys.path:
        sys.path.insert(0, str(ROOT))
    spec = importlib.util.spec_from_file_location(f"golden_runner_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} cannot be imported as a runner")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def load_runners(directory: Path) -> Registry:
    """Import every runner module of a directory."""
    registry = Registry()
    for path in sorted(directory.glob("*.py")):
        registry.add(load_runner(path))
    return registry


def stem_of(path: Path) -> str:
    """Name of a vector file without `.jsonl` and `.gz`."""
    return path.name.removesuffix(".gz").removesuffix(".jsonl")


def vector_files(directory: Path) -> list[Path]:
    """The vector files of a directory, by name."""
    return sorted([*directory.glob("*.jsonl"), *directory.glob("*.jsonl.gz")])


def read_cases(path: Path) -> Iterator[Case]:
    """The cases of a file, one after the other."""
    decoder = msgspec.json.Decoder(dict[str, Any])
    with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as lines:
        for line in lines:
            if line.strip():
                yield decoder.decode(line)


def run_case(case: Case, runners: Iterable[CaseRunner]) -> bool:
    """Whether the runner that claims the case finds it right; one that raises or that nobody claims has failed."""
    for run in runners:
        try:
            passed = run(case)
        except Exception as problem:  # noqa: BLE001 - whatever goes wrong in a case is a failure of that case only
            print(f"{case.get('id')}: {type(problem).__name__}: {problem}", file=sys.stderr)
            return False
        if passed is not None:
            return passed
    return False


def run_cases(cases: Iterable[Case], runners: list[CaseRunner]) -> tuple[int, int, list[str]]:
    """Number of cases, number of passed ones, ids of failed ones."""
    count, failed = 0, []
    for count, case in enumerate(cases, 1):
        if not run_case(case, runners):
            failed.append(str(case.get("id", f"line {count}")))
    return count, count - len(failed), failed


def run_file(path: Path, registry: Registry) -> dict[str, Any]:
    """The line to print about one file."""
    name = registry.known(stem_of(path))
    if name is None:
        return {"file": path.name, "unknown": True}
    whole = registry.files.get(name)
    result = whole(path) if whole else run_cases(read_cases(path), registry.cases[name])
    if result is None:
        return {"file": path.name, "unknown": True}
    count, passed, failed = result
    return {"file": path.name, "cases": count, "passed": passed, "failed_ids": failed}


def default_directory() -> Path:
    """Where vectors are looked for when no directory is named."""
    shared = ROOT.parent / "shared" / "golden"
    return shared if shared.is_dir() else Path(__file__).resolve().parent / "data"


def main(arguments: list[str]) -> int:
    """Run the files of a directory; returns the exit code."""
    if len(arguments) > 1 or any(argument.startswith("-") for argument in arguments):
        print("usage: python tests/golden/run.py [DIR]", file=sys.stderr)
        return 2
    directory = Path(arguments[0]) if arguments else default_directory()
    if not directory.is_dir():
        print(f"{directory} is no directory: name one that holds *.jsonl or *.jsonl.gz files", file=sys.stderr)
        return 2
    registry = load_runners(RUNNERS)
    known, failed = 0, 0
    for path in vector_files(directory):
        report = run_file(path, registry)
        print(msgspec.json.encode(report).decode(), flush=True)
        known += "cases" in report
        failed += len(report.get("failed_ids", ()))
    if not known:
        print(f"{directory} holds no file that a runner knows", file=sys.stderr)
    return 1 if failed or not known else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
