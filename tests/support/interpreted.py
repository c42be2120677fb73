"""Questions to customizations, answered by a function of the test."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from services._rules.interpreter import InterpretError
from services._rules.interpreter.configuration import Configured
from services._rules.interpreter.result_cache import Answers, CachedInterpreter, InterpretationQuery


class Interpretation:
    """What is configured, and what its scripts would answer."""

    def __init__(self, answer: Callable[[InterpretationQuery], Any]) -> None:
        self.configured, self.answers, self.answer = Configured(), Answers(), answer
        self.interpreter = CachedInterpreter(
            lambda *wanted: self.configured.customizations.hook_enabled(*wanted), self.answers
        )

    def take(self, event: Any) -> Any:
        """Take in a customization or its end; the kinds that it touches."""
        touched = self.configured.take(event)
        self.answers.changed(touched)
        return touched

    def ask(self, questions: Iterable[InterpretationQuery]) -> None:
        """Answer questions, or keep why they cannot be answered."""
        for question in questions:
            try:
                self.answers.put(question, self.answer(question))
            except InterpretError as error:
                self.answers.put(question, error)
