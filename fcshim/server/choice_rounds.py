"""The rounds of one reply with several choices: what the upstream has not given is asked for again, one at a time.

Many servers ignore `n`, and several APIs have no such option. An upstream that gives all choices is asked once.
"""

import msgspec

from fcshim.errors import FcshimError
from fcshim.events import Error, Stop
from fcshim.messages import Request
from fcshim.pipeline.attempt import Batch


class ChoiceRounds:
    """The rounds of one reply; each feeds the choices that are still missing, in their order.

    `together`: the upstream's API has `n`, so the first round asks for all. A seed counts up from round to round, or
    all choices would be the same.
    """

    def __init__(self, request: Request, *, together: bool) -> None:
        self.request = request if together else msgspec.structs.replace(request, n=1)
        self._count = request.n
        self._missing = list(range(request.n))
        self._round_choices = self._missing
        self.finished = False

    @property
    def is_committed(self) -> bool:
        """Whether a round has ended, so that the reply can no longer be restarted."""
        return len(self._missing) < self._count

    def restart(self) -> None:
        """Discard the round so far: nothing is kept of it."""

    def feed(self, batch: Batch) -> Batch:
        """Take the events of one upstream read; return those for the client."""
        batch = [(self._round_choices[index], event) for index, event in batch]
        for index, event in batch:
            if isinstance(event, Stop):
                self._missing = [each for each in self._missing if each != index]
            self.finished = self.finished or isinstance(event, Error)
        self.finished = self.finished or not self._missing
        return batch

    async def next_round(self) -> Batch:
        """Begin the next round, with a request for one more choice."""
        seed = self.request.seed
        self.request = msgspec.structs.replace(self.request, n=1, seed=None if seed is None else seed + 1)
        self._round_choices = list(self._missing)
        return []

    def fail(self, batch: Batch, error: FcshimError) -> Batch:
        """Take the last events before an upstream failure; return those for the client, with an error at their end."""
        events = [] if self.finished else self.feed(batch)
        if not self.finished:
            self.finished = True
            events.append((self._missing[0], Error(kind=error.kind, message=error.message)))
        return events
