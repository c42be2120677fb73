"""Builds kube-apiserver: Debian has its sources, in those of kubectl, and no package of it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

from tests.containers import engine
from tests.containers.debian import Debian

VERSION: Final = "v1.20.2"
"""What Debian 12 has; later releases of Debian have no more than kubectl."""
_SOURCES: Final = "bookworm"
_COMPILER: Final = "bullseye"
"""Its Go 1.15 is the one that these sources were written for: what they use of reflection fails with later ones."""
_GO: Final = "1.15"
_ROOT: Final = "k8s.io/kubernetes"
_MARK: Final = re.compile(r"^\s*// ?\+k8s:openapi-gen=true", re.MULTILINE)
_OTHERS: Final = ("code-generator", "sample-", "/testdata", "/test", "kubelet", "kube-proxy", "kube-scheduler")
"""Parts of the paths of packages that the server does not serve."""


def built(place: Path) -> Path:
    """The program, kept where fetched things are; built below `place` where it is not there yet."""
    kept = engine.KEPT / f"kube-apiserver-{VERSION}"
    if not kept.exists():
        print(f"kube-apiserver {VERSION} from Debian's sources, a quarter of an hour …", flush=True)
        made = _build(place)
        kept.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(made, kept.with_suffix(".part"))
        kept.with_suffix(".part").rename(kept)
    return kept


def _build(place: Path) -> Path:
    compiler = Debian(place, _COMPILER)
    for package in (f"golang-{_GO}-go", f"golang-{_GO}-src"):
        go = compiler.unpacked(package, "go") / f"usr/lib/go-{_GO}"
    # Generators look for packages by their place below this directory.
    sources = place / "gopath/src" / _ROOT
    sources.mkdir(parents=True)
    Debian(place, _SOURCES).source("kubernetes", sources)
    told = {
        **os.environ,
        "PATH": f"{go}/bin:{os.environ['PATH']}",
        "GOROOT": str(go),
        "GOPATH": str(place / "gopath"),
        "GOCACHE": str(place / "gocache"),
        "GO111MODULE": "off",
        "GOPROXY": "off",
        "CGO_ENABLED": "0",
    }

    def run(*words: str) -> None:
        subprocess.run(words, cwd=sources, env=told, check=True)

    run("go", "build", "-o", str(place / "openapi-gen"), "./vendor/k8s.io/kube-openapi/cmd/openapi-gen")
    # What describes the kinds to clients is made before each build and is in no archive of sources.
    run(
        str(place / "openapi-gen"),
        *("--logtostderr", "-h", "hack/boilerplate/boilerplate.generatego.txt"),
        *("-i", ",".join(_described(sources)), "-p", f"{_ROOT}/pkg/generated/openapi"),
        *("-O", "zz_generated.openapi", "-r", str(place / "violations")),
    )
    made = place / "kube-apiserver"
    run("go", "build", "-ldflags", _stamps(), "-o", str(made), "./cmd/kube-apiserver")
    return made


def _described(sources: Path) -> list[str]:
    """Packages with kinds that are described."""
    found = set()
    for part in ("pkg", "staging/src/k8s.io"):
        for file in (sources / part).rglob("*.go"):
            if not file.name.endswith("_test.go") and _MARK.search(file.read_text()):
                inside = str(file.parent.relative_to(sources)).replace("staging/src/", "vendor/")
                if not any(other in inside for other in _OTHERS):
                    found.add(f"{_ROOT}/{inside}")
    return sorted(found)


def _stamps() -> str:
    """The version, at each place where the server and its clients look for it."""
    major, minor, _ = VERSION.removeprefix("v").split(".")
    values = {"gitMajor": major, "gitMinor": minor, "gitVersion": VERSION, "gitTreeState": "clean"}
    vendored = f"{_ROOT}/vendor/k8s.io"
    places = (f"{vendored}/component-base/version", f"{vendored}/client-go/pkg/version")
    return " ".join(("-s -w", *(f"-X {one}.{name}={value}" for one in places for name, value in values.items())))
