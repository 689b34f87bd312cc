"""How a run can fail. One more way, any other exception, is that the code under test crashed: it is not caught here."""


class SafetyError(Exception):
    """A promise was broken. `rule` names it in the words of the paper or of the checkers."""

    def __init__(self, rule: str, reason: str) -> None:
        super().__init__(f"{rule}: {reason}")
        self.rule = rule
        self.reason = reason


class LivenessError(Exception):
    """Nothing is broken any more, and still no progress is made."""


class UndecidedError(Exception):
    """A judge could not decide within its bound: nothing is known to be broken, and nothing is shown to be right."""


def demand(holds: bool, rule: str, reason: str) -> None:
    """Raise SafetyError unless `holds`. For reasons that cost nothing to write down; else raise it in place."""
    if not holds:
        raise SafetyError(rule, reason)
