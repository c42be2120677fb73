"""Commands of docs/deploy.md, run as they are written there: nothing else of the document is ever run."""

from __future__ import annotations

from k8s.shared import ROOT


def commands(after: str, end: str = "") -> str:
    """The first block of commands after a line that begins so, up to a line of it; all of it without one."""
    text = (ROOT / "docs/deploy.md").read_text()
    _, found, rest = text.partition(f"\n{after}")
    section = rest.partition("\n## ")[0]
    _, opened, block = section.partition("\n```sh\n")
    block, closed, _ = block.partition("\n```\n")
    script, stop, _ = f"{block}\n".partition(f"\n{end}\n") if end else (block, "\n", "")
    assert all((found, opened, closed, stop)), f"docs/deploy.md has no block with {end!r} after {after!r}"
    return f"{script}\n"
