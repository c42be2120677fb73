"""How the small shell reads command lines."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.member_sim.containers.command_lines import MOST_BYTES, Unreadable, expand, parse

VARIABLES = {"A": "one two", "HOME": "/root", "?": "3"}


def words(text: str) -> list[list[str]]:
    """The commands of a line with their words, variables filled in."""
    return [
        [part for word in command.words for part in expand(word, lambda name: VARIABLES.get(name, ""))]
        for pipeline in parse(text)
        for command in pipeline.commands
    ]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", []),
        ("echo a  b # c", [["echo", "a", "b"]]),
        ("echo 'a  $A' \"b $A\" $A", [["echo", "a  $A", "b one two", "one", "two"]]),
        ("echo \"\" '' $NONE x$NONE", [["echo", "", "", "x"]]),
        (r"echo \$A a\ b \"", [["echo", "$A", "a b", '"']]),
        ('echo "\\$A \\x" ${HOME}/x $?', [["echo", "$A \\x", "/root/x", "3"]]),
        ("a;b && c || d | e\nf", [["a"], ["b"], ["c"], ["d"], ["e"], ["f"]]),
        ("a &&\n b |\n c;\n", [["a"], ["b"], ["c"]]),
        ("a b\\\n c", [["a", "b", "c"]]),
        ("echo $ 1$", [["echo", "$", "1$"]]),
    ],
)
def test_words_are_found(text: str, found: list[list[str]]) -> None:
    assert words(text) == found


def test_operators_join_pipelines() -> None:
    found = parse("a | b && c || d; e")
    assert [(len(pipeline.commands), pipeline.joined) for pipeline in found] == [
        (2, ""),
        (1, "&&"),
        (1, "||"),
        (1, ";"),
    ]


def test_redirections_are_taken_off() -> None:
    command = parse("ls 2>/dev/null > /dev/null x 2>&1")[0].commands[0]
    assert command.redirections == ("2>/dev/null", ">/dev/null", "2>&1")
    assert len(command.words) == 2


@pytest.mark.parametrize(
    "text",
    [
        "echo 'a",
        'echo "a',
        "a |",
        "| a",
        "a && ",
        "&& a",
        "a | | b",
        "echo > file",
        "while true",
        "for x in y",
        "echo $(date)",
        "echo `date`",
        "echo ${A:-b}",
        "(a)",
        "a &",
        "x" * (MOST_BYTES + 1),
        "a;" * 2000,
        "a|" * 20 + "a",
    ],
)
def test_what_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(Unreadable):
        parse(text)


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(Unreadable):
        for pipeline in parse(text):
            assert all(command.words or command.redirections for command in pipeline.commands)
