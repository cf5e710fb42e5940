"""A source of numbers."""
from flott.common.typeinfo import Types


class NumberSequenceSource:
    """The numbers from `start` to `end`, both included, read in parallel.

    >>> source = NumberSequenceSource(1, 10)
    """

    def __init__(self, start: int, end: int):
        if start > end:
            raise ValueError(f"expected a sequence that ends at or after its start, found {start} to {end}")
        self._start, self._end = start, end

    def _to_engine(self, environment):
        # A part for each task.
        config = {"from": self._start, "to": self._end, "splits": environment.get_parallelism()}
        return "sequence", config, Types.LONG()
