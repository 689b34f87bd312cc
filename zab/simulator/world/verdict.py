"""The ways in which a run can fail. Any other exception means that the code under test crashed; it is not caught."""


class SafetyError(Exception):
    """A promise was broken. `rule` names it, in the terms of the paper or of the checkers."""

    def __init__(self, rule: str, reason: str) -> None:
        super().__init__(f"{rule}: {reason}")
        self.rule = rule
        self.reason = reason


class BrokenError(Exception):
    """The code under test failed, in a world that reports this together with the way to it."""


class LivenessError(Exception):
    """The faults are over, and still no progress is made."""


class UndecidedError(Exception):
    """A judge could not decide within its bound: the run neither failed nor passed."""


def demand(holds: bool, rule: str, reason: str) -> None:
    """Raise SafetyError unless `holds`. For reasons that are cheap to make; otherwise raise it in place."""
    if not holds:
        raise SafetyError(rule, reason)
