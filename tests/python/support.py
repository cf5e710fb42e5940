"""Drives fused runs of a plan by hand: what tests of the operator share."""
from flott import _engine
from flott.datastream import StreamExecutionEnvironment

testing = _engine._testing


def plan(build, parallelism=1):
    """The plan of `build(environment)`, a stream, printed."""
    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(parallelism)
    build(env).print()
    return env._take_plan("test")


def run(build, uids, values, times=None, kinds=None):
    """What comes out of the run of these uids for one batch of values."""
    harness = testing.Harness(plan(build), uids)
    harness.push(harness.rows(values).with_times(times, kinds))
    return harness.take()


def values(batches):
    return [value for batch in batches for value in batch.values()]


def error(build, uids, inputs):
    """The text of the error of one batch."""
    try:
        run(build, uids, inputs)
    except ValueError as e:
        return str(e)
    raise AssertionError("no error")
