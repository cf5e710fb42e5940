"""Streams and what can be done with them."""
from flott.datastream.data_stream import DataStream, DataStreamSink, KeyedStream
from flott.datastream.functions import (
    FilterFunction,
    FlatMapFunction,
    Function,
    KeySelector,
    MapFunction,
    ReduceFunction,
    RuntimeContext,
)
from flott.datastream.stream_execution_environment import StreamExecutionEnvironment

__all__ = [
    "DataStream",
    "DataStreamSink",
    "FilterFunction",
    "FlatMapFunction",
    "Function",
    "KeySelector",
    "KeyedStream",
    "MapFunction",
    "ReduceFunction",
    "RuntimeContext",
    "StreamExecutionEnvironment",
]
