"""What the calls of a program add up to, and how it becomes a plan. The streams of the API hold nodes of it."""
import collections
import io
import json
import types


class Node:
    """A source, function or sink as the program wrote it."""

    def __init__(self, role, name, inputs, parallelism=None, **what):
        # "source", "function" or "sink"; what else `GraphBuilder` wants is in `what`.
        self.role, self.name, self.inputs, self.what = role, name, inputs, what
        # A number, None for the job's default, or "input": that of the node it reads.
        self.parallelism = parallelism
        self.max_parallelism = None
        self.uid = None
        self.chaining = "always"


def cloudpickled(function):
    """A function as bytes."""
    try:
        import cloudpickle
    except ImportError:
        raise ImportError("flott needs the package cloudpickle to hand Python functions to tasks: pip install cloudpickle")
    # Tracebacks name the user's file; newer versions of cloudpickle put a placeholder in its place.
    reduce_code = cloudpickle.Pickler.dispatch_table[types.CodeType]

    def with_file(code):
        make, arguments = reduce_code(code)[:2]
        return make, tuple(code.co_filename if argument == "<dynamic-code>" else argument for argument in arguments)

    class Pickler(cloudpickle.Pickler):
        dispatch_table = collections.ChainMap({types.CodeType: with_file}, cloudpickle.Pickler.dispatch_table)

    out = io.BytesIO()
    Pickler(out, protocol=5).dump(function)
    return out.getvalue()


def plan(nodes, name, options, parallelism):
    """The bytes of the plan of these nodes, inputs first."""
    from flott import _engine

    builder = _engine.GraphBuilder(name, {**options, "parallelism.default": str(parallelism)})
    numbers = {}
    for node in nodes:
        common = {
            "name": node.name,
            "uid": node.uid or f"{node.name}-{len(numbers)}",
            "parallelism": parallelism_of(node, parallelism),
            "max_parallelism": node.max_parallelism,
            "chaining": node.chaining,
            "inputs": [(numbers[id(of)], _partitioning(of, how, node, parallelism)) for of, how in node.inputs],
        }
        what = node.what
        if node.role == "source":
            number = builder.source(common, what["factory"], what["config"](), what["type"]._to_json())
        elif node.role == "sink":
            number = builder.sink(common, what["factory"], json.dumps(what["config"]), what["type"]._to_json())
        else:
            key = what.get("key")
            function = b"" if what["kind"] == "values" else cloudpickled(what["function"])
            number = builder.function(
                common, what["kind"], function, what["type"]._to_json(), what["output"]._to_json(), key and key._to_json()
            )
        numbers[id(node)] = number
    return builder.encode()


def check_parallelism(tasks):
    """Refuses what is no number of tasks, where it is written."""
    if type(tasks) is not int or not 1 <= tasks < 2**31:
        raise ValueError(f"expected a parallelism of at least 1, found {tasks!r}")
    return tasks


def parallelism_of(node, default):
    """The tasks of a node."""
    if node.parallelism == "input":
        return parallelism_of(node.inputs[0][0], default)
    return default if node.parallelism is None else node.parallelism


def _partitioning(of, how, reader, default):
    # As in Flink: rows go straight on where both sides have the same parallelism, else to all in turn.
    if how is not None:
        return how
    return "forward" if parallelism_of(of, default) == parallelism_of(reader, default) else "rebalance"
