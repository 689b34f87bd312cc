"""What holders write to: it says where two hold it at once, or where tokens do not grow."""

from zab.client.recipes.holding import Held


class Resource:
    """`holders_max` may hold it at once. Tokens grow from one to the next where one at a time holds it."""

    def __init__(self, holders_max: int = 1, *, grows: bool | None = None) -> None:
        self.turns: list[str] = []
        self._holders_max = holders_max
        self._grows = holders_max == 1 if grows is None else grows
        self._inside: dict[str, Held] = {}
        self._last_token = 0

    @property
    def holders(self) -> dict[str, Held]:
        """The clients inside, which may believe that they hold it."""
        return {name: held for name, held in self._inside.items() if held.is_held}

    def enter(self, name: str, held: Held) -> None:
        others = self.holders
        assert len(others) < self._holders_max, f"{name} with {held} beside {others}"
        if self._grows:
            assert held.token > self._last_token, f"{name} with {held} after {self._last_token:#x}"
            self._last_token = held.token
        self._inside[name] = held
        self.turns.append(name)

    def leave(self, name: str) -> None:
        del self._inside[name]

    def forget(self, name: str) -> None:
        """Its session is over, wherever it was."""
        self._inside.pop(name, None)
