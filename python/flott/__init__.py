"""flott: a stream processor that runs PyFlink's DataStream programs without a JVM.

`flott.common` and `flott.datastream` have the names and the behaviour of `pyflink.common` and `pyflink.datastream`:

>>> from flott.datastream import StreamExecutionEnvironment
>>> env = StreamExecutionEnvironment.get_execution_environment()
>>> _ = env.from_collection([1, 2, 3]).map(lambda x: x + 1)
"""
