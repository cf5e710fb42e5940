"""Functions with a life: what a lambda is too small for."""


class RuntimeContext:
    """What a function can know of the task it runs in."""

    def __init__(self, task_name, index, parallelism, max_parallelism):
        self._task_name, self._index = task_name, index
        self._parallelism, self._max_parallelism = parallelism, max_parallelism

    def get_task_name(self) -> str:
        """The name of the operator."""
        return self._task_name

    def get_index_of_this_subtask(self) -> int:
        """Which of the parallel tasks this is, from 0."""
        return self._index

    def get_number_of_parallel_subtasks(self) -> int:
        """How many parallel tasks there are."""
        return self._parallelism

    def get_max_number_of_parallel_subtasks(self) -> int:
        """How many there can ever be."""
        return self._max_parallelism

    def get_task_name_with_subtasks(self) -> str:
        """The name of the operator and which task of how many this is, from 1."""
        return f"{self._task_name} ({self._index + 1}/{self._parallelism})"


class Function:
    """What all functions have: `open` before the first value, `close` after the last."""

    def open(self, runtime_context: RuntimeContext):
        """Called in the task before the first value."""

    def close(self):
        """Called after the last value, and where the job fails."""


class MapFunction(Function):
    """Makes a value of a value."""

    def map(self, value):
        """The value to give for this one."""
        raise NotImplementedError


class FlatMapFunction(Function):
    """Makes any number of values of a value."""

    def flat_map(self, value):
        """The values to give for this one: an iterable, or yielded."""
        raise NotImplementedError


class FilterFunction(Function):
    """Decides which values stay."""

    def filter(self, value):
        """Whether the value stays."""
        raise NotImplementedError


class KeySelector(Function):
    """Finds the key of a value."""

    def get_key(self, value):
        """The key; the same each time for the same value."""
        raise NotImplementedError


class ReduceFunction(Function):
    """Combines two values into one of the same type."""

    def reduce(self, value1, value2):
        """What was combined so far, and the next."""
        raise NotImplementedError
