"""Errors of overrides: what one step could not do, and the policy and rule that asked for it."""

from services._rules.interpreter.common.interpretation import shortened


class StepError(ValueError):
    """One overrider that cannot be applied: `where` is the overrider and its path, the message is the reason."""

    def __init__(self, where: str, reason: str) -> None:
        where, reason = shortened(where), shortened(reason)
        super().__init__(f"{where}: {reason}")
        self.where = where
        self.reason = reason


class OverrideError(ValueError):
    """A policy that cannot be applied to an object; no override of the object counts then.

    `policy` is `OverridePolicy ns/name` or `ClusterOverridePolicy name`, `rule` counts from 0, `where` names the
    overrider and the path in the object.
    """

    def __init__(self, policy: str, rule: int, where: str, reason: str) -> None:
        super().__init__(f"{policy}: overrideRules[{rule}]: {where}: {reason}")
        self.policy = policy
        self.rule = rule
        self.where = where
        self.reason = reason
