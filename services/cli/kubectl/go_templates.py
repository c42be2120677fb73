"""Fills Go templates with documents by the kubectl on PATH, without a server."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from services.cli.common.running import Failed
from services.cli.kubectl.kubectl_process import find_kubectl

_SECONDS: Final = 60.0
_DEFINES: Final = re.compile(r"\{\{-?\s*(define|block)\b")


def fill_templates(text: str, documents: Sequence[Any]) -> str:
    """What a template makes of each document, one after the other; raises Failed."""
    if _DEFINES.search(text):
        raise Failed("go-template: templates that define others cannot be used here; write it without define and block")
    # kubectl takes lists apart where it works without a server, unless they are a field of another object.
    wrapped = [
        {"apiVersion": "cli.fleetlog.io/v1", "kind": "Printed", "metadata": {"name": "one"}, "value": document}
        for document in documents
    ]
    template = f'{{{{define "fleetlog"}}}}{text}{{{{end}}}}{{{{template "fleetlog" .value}}}}'
    words = ["annotate", "--local", "-f", "-", "fleetlog.io/printed=true", "-o", f"go-template={template}"]
    ended = subprocess.run(
        [find_kubectl("-o go-template"), *words],
        input=b"\n".join(map(msgspec.json.encode, wrapped)),
        capture_output=True,
        env={**os.environ, "KUBECONFIG": os.devnull},
        timeout=_SECONDS,
        check=False,
    )
    if ended.returncode:
        lines = ended.stderr.decode(errors="replace").strip().splitlines()
        raise Failed(f"go-template: {lines[-1].removeprefix('error: ') if lines else 'kubectl refused it'}")
    return ended.stdout.decode(errors="replace")
