"""Where a passphrase comes from: a file, or the terminal."""

from __future__ import annotations

import getpass
import sys
from pathlib import Path
from typing import Final

from services.cli.common.running import Failed

SHORTEST: Final = 8
"""Characters of a new passphrase, at least: an attacker with the file can try any number of them."""


def passphrase(file: Path | None, *, new: bool) -> bytes:
    """The passphrase of a backup; one for a `new` backup is asked for twice. Raises Failed where there is none."""
    if file is not None:
        try:
            text = file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise Failed(f"--passphrase-file {file} cannot be read: {error}") from None
        if not text:
            raise Failed(f"--passphrase-file {file} is empty")
    elif sys.stdin.isatty():
        text = getpass.getpass("Passphrase of the backup: ")
        if new and getpass.getpass("The same again: ") != text:
            raise Failed("the two passphrases differ; nothing was written")
    else:
        raise Failed(
            "a backup holds the keys of all Secrets, so it needs a passphrase: give --passphrase-file FILE, or run the "
            "command in a terminal"
        )
    if new and len(text) < SHORTEST:
        raise Failed(f"a passphrase needs {SHORTEST} characters at least")
    return text.encode()
