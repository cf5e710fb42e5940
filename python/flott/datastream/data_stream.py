"""Streams: `DataStream`, `KeyedStream`."""
from flott.common.typeinfo import PickledBytesTypeInfo, RowTypeInfo, TupleTypeInfo
from flott.datastream import _print
from flott.datastream._graph import Node, check_parallelism


class DataStream:
    """A stream of values of one type.

    >>> from flott.datastream import StreamExecutionEnvironment
    >>> env = StreamExecutionEnvironment.get_execution_environment()
    >>> words = env.from_collection(["a b", "c"]).flat_map(lambda line: line.split())
    """

    def __init__(self, environment, inputs, type_info):
        # Several inputs are a union: (node, how its rows are dealt out or None).
        self._environment, self._inputs, self._type = environment, inputs, type_info

    # What is made by the last call and can still be named.

    @property
    def _node(self):
        if len(self._inputs) != 1:
            raise ValueError("a union is no operator: it has no name, uid or parallelism of its own")
        return self._inputs[0][0]

    def get_name(self) -> str:
        """The name of the operator this stream comes from."""
        return self._node.name

    def name(self, name: str) -> "DataStream":
        """Names the operator this stream comes from."""
        self._node.name = name
        return self

    def uid(self, uid: str) -> "DataStream":
        """Sets the id by which the operator's state is found again."""
        self._node.uid = uid
        return self

    def set_parallelism(self, parallelism: int) -> "DataStream":
        """Sets how many tasks the operator has."""
        self._node.parallelism = check_parallelism(parallelism)
        return self

    def set_max_parallelism(self, max_parallelism: int) -> "DataStream":
        """Sets how many tasks the operator can ever have."""
        self._node.max_parallelism = check_parallelism(max_parallelism)
        return self

    def start_new_chain(self) -> "DataStream":
        """The operator does not share a task with those before it."""
        self._node.chaining = "head"
        return self

    def disable_chaining(self) -> "DataStream":
        """The operator shares a task with none."""
        self._node.chaining = "never"
        return self

    def get_type(self):
        """The type of the values."""
        return self._type

    def get_execution_environment(self):
        """The environment this stream belongs to."""
        return self._environment

    # Functions.

    def map(self, func, output_type=None) -> "DataStream":
        """A value for each value: `func` is a function or a `MapFunction`."""
        return self._apply("map", "Map", func, "map", output_type or PickledBytesTypeInfo())

    def flat_map(self, func, output_type=None) -> "DataStream":
        """Any number of values for each value: `func` gives an iterable, or is a `FlatMapFunction`."""
        return self._apply("flat_map", "Flat Map", func, "flat_map", output_type or PickledBytesTypeInfo())

    def filter(self, func) -> "DataStream":
        """The values `func` says yes to."""
        return self._apply("filter", "Filter", func, "filter", self._type)

    def key_by(self, key_selector, key_type=None) -> "KeyedStream":
        """The stream dealt out by key: values of one key are seen by one task.

        Without `key_type` keys are equal where Python says so: 1, 1.0 and True are one key. Keys are numbers,
        strings, bytes, truth values and tuples of them.
        """
        _check(key_selector, "get_key", "key_by")
        key = key_type or PickledBytesTypeInfo()
        what = {"kind": "key_by", "function": key_selector, "type": self._type, "output": self._type, "key": key}
        node = self._environment._add(Node("function", "Key By", self._inputs, "input", **what))
        return KeyedStream(self._environment, [(node, "hash")], self._type)

    def union(self, *streams: "DataStream") -> "DataStream":
        """The values of all these streams, which are of one type."""
        streams = [self, *streams]
        inputs = [i for stream in streams for i in stream._plain()._inputs]
        return DataStream(self._environment, inputs, self._type)

    # How values are dealt out.

    def rebalance(self) -> "DataStream":
        """To all tasks in turn."""
        return self._deal("rebalance")

    def rescale(self) -> "DataStream":
        """To a few neighbouring tasks in turn."""
        return self._deal("rescale")

    def shuffle(self) -> "DataStream":
        """To random tasks."""
        return self._deal("shuffle")

    def forward(self) -> "DataStream":
        """To the task of the same number."""
        return self._deal("forward")

    def broadcast(self) -> "DataStream":
        """To every task."""
        return self._deal("broadcast")

    def global_(self) -> "DataStream":
        """To the first task."""
        return self._deal("global")

    # Ends.

    def print(self, sink_identifier: str = None) -> "DataStreamSink":
        """Prints the values to standard output, as Flink does."""
        plain = self._plain()
        what = {"kind": "map", "function": _print.Formatter(plain._type), "type": plain._type, "output": _print.LINE}
        node = self._environment._add(Node("function", "Format", plain._inputs, "input", **what))
        lines = DataStream(self._environment, [(node, None)], _print.LINE)
        return lines._end("Print to Std. Out", "print", {"identifier": sink_identifier, "plain": True})

    def execute_and_collect(self, job_execution_name: str = None, limit: int = None):
        """Runs the job and gives the values of this stream: an iterator, or with `limit` a list of at most so many."""
        plain = self._plain()
        plain._end("Collect", "collect", None)
        values = self._environment._collect(job_execution_name, plain._type)
        return CloseableIterator(values) if limit is None else values[:limit]

    def _apply(self, kind, name, func, method, output):
        _check(func, method, kind)
        what = {"kind": kind, "function": func, "type": self._type, "output": output}
        node = self._environment._add(Node("function", name, self._inputs, **what))
        return DataStream(self._environment, [(node, None)], output)

    def _plain(self):
        return self

    def _deal(self, how):
        plain = self._plain()
        return DataStream(self._environment, [(node, how) for node, _ in plain._inputs], self._type)

    def _end(self, name, factory, config):
        what = {"factory": factory, "config": config, "type": self._type}
        return DataStreamSink(self._environment._add(Node("sink", name, self._inputs, **what)))


class KeyedStream(DataStream):
    """A stream dealt out by key. Made by `DataStream.key_by`."""

    def reduce(self, func) -> DataStream:
        """For each value, what `func` made so far of all values of its key and this one.

        >>> from flott.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> sums = env.from_collection([1, 2, 3]).key_by(lambda x: x % 2).reduce(lambda a, b: a + b)
        """
        return self._apply("reduce", "Keyed Reduce", func, "reduce", self._type)

    def sum(self, position_to_sum=0) -> DataStream:
        """For each value, the first value of its key with the sum so far in the field at this position or of this
        name; a number is its own sum."""
        if isinstance(self._type, RowTypeInfo) and isinstance(position_to_sum, str):
            if position_to_sum not in self._type.get_field_names():
                names = ", ".join(self._type.get_field_names())
                raise ValueError(f"there is no field '{position_to_sum}' to sum; there are: {names}")
            position_to_sum = self._type.get_field_names().index(position_to_sum)
        if not isinstance(position_to_sum, int):
            raise TypeError(f"expected the position or the name of a field of a Row, found {position_to_sum!r}")
        if isinstance(self._type, (RowTypeInfo, TupleTypeInfo)):
            fields = len(self._type.get_field_types())
            if not 0 <= position_to_sum < fields:
                raise ValueError(f"expected a position from 0 to {fields - 1}, found {position_to_sum}")
        return self._apply("reduce", "Sum", _Sum(position_to_sum), "reduce", self._type)

    def key_by(self, key_selector, key_type=None) -> "KeyedStream":
        """The same values dealt out by another key."""
        return self._plain().key_by(key_selector, key_type)

    def _plain(self):
        # Without the columns of the key, which only keyed operators know how to pass over.
        what = {"kind": "values", "type": self._type, "output": self._type}
        node = self._environment._add(Node("function", "Values", self._inputs, **what))
        return DataStream(self._environment, [(node, None)], self._type)


class DataStreamSink:
    """The end of a stream."""

    def __init__(self, node):
        self._node = node

    def name(self, name: str) -> "DataStreamSink":
        """Names the sink."""
        self._node.name = name
        return self

    def uid(self, uid: str) -> "DataStreamSink":
        """Sets the id by which the sink's state is found again."""
        self._node.uid = uid
        return self

    def set_parallelism(self, parallelism: int) -> "DataStreamSink":
        """Sets how many tasks the sink has."""
        self._node.parallelism = check_parallelism(parallelism)
        return self

    def disable_chaining(self) -> "DataStreamSink":
        """The sink shares a task with none."""
        self._node.chaining = "never"
        return self


class CloseableIterator:
    """The values of a stream; as a context manager it closes itself."""

    def __init__(self, values):
        self._values = iter(values)

    def __iter__(self):
        return self

    def __next__(self):
        return next(self._values)

    def close(self):
        """No more values."""
        self._values = iter(())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class _Sum:
    def __init__(self, position):
        self._position = position

    def reduce(self, so_far, value):
        at = self._position
        if isinstance(so_far, tuple):
            return (*so_far[:at], so_far[at] + value[at], *so_far[at + 1 :])
        if hasattr(so_far, "get_row_kind"):
            fields = list(so_far)
            fields[at] = so_far[at] + value[at]
            return type(so_far)._of(so_far._fields, fields)
        return so_far + value


def _check(func, method, where):
    if not callable(func) and not hasattr(func, method):
        raise TypeError(f"{where} takes a function or an object with a method '{method}', found {func!r}")
