//! [`KeyedStream`] and [`WindowedStream`]: rows whose state is kept by key.

use std::marker::PhantomData;

use flott_core::Error;
use flott_core::state::columns::Aggregate;

use crate::process::KeyedProcessFunction;
use crate::stage::Function;
use crate::stage::process::KeyedProcess;
use crate::stage::reduce::Reduce;
use crate::stage::window::{ReduceWindow, ResultOnly, WindowAggregate, WindowFunction, WithWindow};
use crate::stream::cloner;
use crate::windows::{TimeWindow, TumblingEventTimeWindows};
use crate::{DataStream, Outcome, Record};

/// Rows of type `T` by key `K`: rows of a key are processed by one task, in order per sender.
pub struct KeyedStream<K, T> {
    stream: DataStream<T>,
    key: PhantomData<fn(K)>,
}

impl<K: Record, T: Record> KeyedStream<K, T> {
    pub(crate) fn new(stream: DataStream<T>) -> Self {
        Self { stream, key: PhantomData }
    }

    /// For each row its key's rows so far, combined with `f(so far, row)`.
    pub fn reduce<R, F>(&self, f: F) -> DataStream<T>
    where
        T: Clone,
        R: Outcome<Out = T> + 'static,
        F: FnMut(T, T) -> R + Clone + Send + 'static,
    {
        let f = cloner(f);
        self.function(("reduce", "Keyed Reduce"), move || Reduce::new(f()))
    }

    /// What a [`KeyedProcessFunction`] makes of each row, with state and timers.
    pub fn process<F: KeyedProcessFunction<Key = K, In = T>>(&self, f: F) -> DataStream<F::Out> {
        let f = cloner(f);
        self.function(("process", "Keyed Process"), move || KeyedProcess::new(f()))
    }

    /// Cuts each key's rows into windows.
    pub fn window(&self, windows: TumblingEventTimeWindows) -> WindowedStream<K, T> {
        if windows.size_ms() <= 0 {
            let text = format!("expected windows of at least 1 ms, found {} ms", windows.size_ms());
            self.stream.env.note(Error::user(text));
        }
        WindowedStream { stream: self.stream.clone(), windows, key: PhantomData }
    }

    fn function<F: Function>(
        &self,
        names: (&'static str, &str),
        make: impl Fn() -> F + Send + Sync + 'static,
    ) -> DataStream<F::Out> {
        self.stream.env.add_function(names, self.stream.upstreams.clone(), Vec::new(), true, make)
    }
}

/// Rows by key and window. A result comes when the watermark passes the window's end, with the event time of the
/// window's last ms; rows that come later are dropped and counted (`numLateRecordsDropped`).
pub struct WindowedStream<K, T> {
    stream: DataStream<T>,
    windows: TumblingEventTimeWindows,
    key: PhantomData<fn(K)>,
}

impl<K: Record, T: Record> WindowedStream<K, T> {
    /// The rows of each key and window, combined.
    pub fn reduce<R, F>(&self, f: F) -> DataStream<T>
    where
        T: Clone,
        R: Outcome<Out = T> + 'static,
        F: Fn(T, T) -> R + Clone + Send + 'static,
    {
        self.windowed(ReduceWindow { f, rows: PhantomData }, ResultOnly)
    }

    /// The rows of each key and window, combined, and what `then(key, window, combined)` makes of it.
    pub fn reduce_with<R, F, Q, G>(&self, f: F, then: G) -> DataStream<Q::Out>
    where
        T: Clone,
        R: Outcome<Out = T> + 'static,
        F: Fn(T, T) -> R + Clone + Send + 'static,
        Q: Outcome + 'static,
        G: FnMut(K, TimeWindow, T) -> Q + Clone + Send + 'static,
    {
        self.windowed(ReduceWindow { f, rows: PhantomData }, WithWindow(then))
    }

    /// The aggregate of each key and window.
    pub fn aggregate<A>(&self, aggregate: A) -> DataStream<A::Out>
    where
        A: Aggregate<In = T> + Clone,
        A::Out: Record,
    {
        self.windowed(aggregate, ResultOnly)
    }

    /// The aggregate of each key and window, and what `then(key, window, aggregate)` makes of it.
    pub fn aggregate_with<A, Q, G>(&self, aggregate: A, then: G) -> DataStream<Q::Out>
    where
        A: Aggregate<In = T> + Clone,
        A::Out: 'static,
        Q: Outcome + 'static,
        G: FnMut(K, TimeWindow, A::Out) -> Q + Clone + Send + 'static,
    {
        self.windowed(aggregate, WithWindow(then))
    }

    fn windowed<A, W>(&self, aggregate: A, function: W) -> DataStream<W::Out>
    where
        A: Aggregate<In = T> + Clone,
        W: WindowFunction<K, A::Out> + Clone,
    {
        let windows = self.windows;
        let parts = cloner((aggregate, function));
        let make = move || {
            let (aggregate, function) = parts();
            WindowAggregate::<K, T, A, W>::new(windows, aggregate, function)
        };
        let names = ("window", "Tumbling Window");
        self.stream.env.add_function(names, self.stream.upstreams.clone(), Vec::new(), true, make)
    }
}
