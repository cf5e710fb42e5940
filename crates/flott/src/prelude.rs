//! What most programs use: `use flott::prelude::*`.

pub use crate::{
    Aggregate, AggregatingState, Collected, Collector, DataStream, KeyedProcessFunction, KeyedStream, ListState,
    MapState, OpenContext, OrderedMapState, OutputTag, ProcessContext, ProcessFunction, Record, ReducingState,
    RequestOrder, Result, RowContext, StreamExecutionEnvironment, TimeWindow, Timestamp, TumblingEventTimeWindows,
    ValueState, WatermarkStrategy, WindowedStream,
};
