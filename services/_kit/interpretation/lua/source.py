"""Rewrites the text of a script: every `..` gets a middle operand, so that numbers become texts as Go formats them.

Lua itself joins numbers with fourteen significant digits and offers no way to change that. Lines stay where they are.
"""

import re
from typing import Final

# Texts, comments and numbers may hold two dots, as may `...`; what else begins none of these is passed over.
_TOKEN: Final = re.compile(
    r"""--\[(?P<comment>=*)\[ | --[^\n]* | \[(?P<long>=*)\[
    | "(?:[^"\\\n]|\\.)*" | '(?:[^'\\\n]|\\.)*'
    | [A-Za-z_][A-Za-z0-9_]*
    | 0[xX][0-9a-fA-F]+ | (?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?
    | \.\.\. | (?P<join>\.\.)""",
    re.VERBOSE | re.DOTALL,
)


def prepared(script: str) -> tuple[str, str]:
    """The text to compile, and the name under which its environment must hold the middle operand."""
    name = "__join"
    while name in script:
        name += "_"
    pieces = [f"local {name}={name};_G.{name}=nil;"]
    done = position = 0
    while found := _TOKEN.search(script, position):
        position = found.end()
        level = found["comment"] if found["comment"] is not None else found["long"]
        if level is not None:
            closing = f"]{level}]"
            end = script.find(closing, position)
            if end < 0:
                break
            position = end + len(closing)
        elif found["join"]:
            pieces += (script[done:position], name, "..")
            done = position
    pieces.append(script[done:])
    return "".join(pieces), name
