"""Where a program begins and runs: `StreamExecutionEnvironment`."""
import json

from flott._workers import Workers
from flott.common.typeinfo import PickledBytesTypeInfo
from flott.datastream import _graph
from flott.datastream.data_stream import DataStream


class StreamExecutionEnvironment:
    """The context of a program: makes the first streams and runs what became of them.

    >>> env = StreamExecutionEnvironment.get_execution_environment()
    >>> env.set_parallelism(2).get_parallelism()
    2
    """

    #: How many processes beside this one run tasks (`python -m flott.worker`); not in PyFlink. They and this one share
    #: the tasks of each operator evenly, so that a parallelism of at least `python_workers + 1` makes use of all.
    python_workers = 0
    #: Whether jobs go on from the newest checkpoint in `execution.checkpointing.dir`, if there is one; not in PyFlink.
    resume = False

    def __init__(self):
        self._nodes, self._options, self._parallelism = [], {}, 1
        self._max_parallelism = None

    @staticmethod
    def get_execution_environment(configuration=None) -> "StreamExecutionEnvironment":
        """An environment that runs jobs in this process. `configuration`: a dict of options."""
        environment = StreamExecutionEnvironment()
        for key, value in dict(configuration or {}).items():
            environment._options[key] = str(value).lower() if isinstance(value, bool) else str(value)
        tasks = environment._options.get("parallelism.default", "1")
        # What is no number is refused as any other option, with the plan.
        environment._parallelism = int(tasks) if tasks.isdecimal() else tasks
        return environment

    def set_parallelism(self, parallelism: int) -> "StreamExecutionEnvironment":
        """Sets how many tasks an operator has that does not say otherwise."""
        self._parallelism = _graph.check_parallelism(parallelism)
        return self

    def get_parallelism(self) -> int:
        """How many tasks an operator has that does not say otherwise."""
        return self._parallelism

    def set_max_parallelism(self, max_parallelism: int) -> "StreamExecutionEnvironment":
        """Sets how many tasks an operator can ever have."""
        self._options["pipeline.max-parallelism"] = str(_graph.check_parallelism(max_parallelism))
        return self

    def disable_operator_chaining(self) -> "StreamExecutionEnvironment":
        """Every operator has a task of its own."""
        self._options["pipeline.operator-chaining.enabled"] = "false"
        return self

    def from_collection(self, collection, type_info=None) -> DataStream:
        """A stream of these values."""
        of = type_info or PickledBytesTypeInfo()
        values = list(collection)

        def config():
            from flott import _engine

            return _engine.collection(values, of._to_json(), 1)

        return self._source("Collection Source", "collection", config, of, 1)

    def from_source(self, source, watermark_strategy, source_name: str, type_info=None) -> DataStream:
        """A stream of what a source reads."""
        factory, config, of = source._to_engine(self)
        return self._source(source_name, factory, lambda: json.dumps(config), type_info or of)

    def from_sequence(self, start: int, end: int) -> DataStream:
        """A stream of the numbers from `start` to `end`, both included."""
        from flott.datastream.connectors.number_seq import NumberSequenceSource

        return self.from_source(NumberSequenceSource(start, end), None, "Sequence Source")

    def execute(self, job_name: str = None):
        """Runs the program to its end."""
        from flott import _engine

        _engine.execute(self._take_plan(job_name), self._workers(), self.resume)

    def _collect(self, job_name, of):
        from flott import _engine

        return _engine.collect(self._take_plan(job_name), of._to_json(), self._workers(), self.resume)

    def _workers(self):
        return Workers(self.python_workers) if self.python_workers else None

    def _take_plan(self, job_name):
        """The plan of all that was written since the last time."""
        plan = _graph.plan(self._nodes, job_name or "Flink Streaming Job", self._options, self._parallelism)
        self._nodes = []
        return plan

    def _source(self, name, factory, config, of, parallelism=None):
        what = {"factory": factory, "config": config, "type": of}
        return DataStream(self, [(self._add(_graph.Node("source", name, [], parallelism, **what)), None)], of)

    def _add(self, node):
        self._nodes.append(node)
        return node
