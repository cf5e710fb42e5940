//! What functions do to rows: the same fused or not, in batches of any size, and restored between any two elements.

use futures::future::ready;

use flott_datastream::*;

use crate::driver::{Driver, MODES, Mode};
use std::sync::Arc;

/// Runs a program in all modes; what it collects, in order, must be the same.
fn check<T>(expected: &[T], program: impl Fn(&StreamExecutionEnvironment) -> DataStream<T>)
where
    T: Record + PartialEq + std::fmt::Debug,
{
    for mode in MODES {
        assert_eq!(run(mode, &program), expected, "{mode:?}");
    }
}

fn run<T: Record>(mode: Mode, program: &impl Fn(&StreamExecutionEnvironment) -> DataStream<T>) -> Vec<T> {
    let env = StreamExecutionEnvironment::with_executor(Arc::new(Driver::new(mode)));
    let collected = program(&env).collect();
    env.execute("test").unwrap();
    collected.take()
}

fn owned(rows: &[(&str, i64)]) -> Vec<(String, i64)> {
    rows.iter().map(|(k, v)| ((*k).to_owned(), *v)).collect()
}

/// Rows of (key, time) with event time; a watermark one behind the latest follows each row.
fn timed(env: &StreamExecutionEnvironment, rows: &[(&str, i64)]) -> DataStream<(String, i64)> {
    let strategy = WatermarkStrategy::for_monotonous_timestamps().with_every_rows(1);
    env.from_collection(owned(rows)).assign_timestamps_and_watermarks(strategy, |row| Timestamp(row.1))
}

#[test]
fn map_filter_flat_map() {
    check(&[20, 21, 40, 41], |env| {
        let numbers = env.from_collection(vec![1_i64, 2, 3, 4]);
        numbers.filter(|n| n % 2 == 0).map(|n| n * 10).flat_map(|n| [n, n + 1])
    });
    check(&["a".to_owned(), "c".to_owned()], |env| {
        let rows = env.from_collection(vec![Some("a".to_owned()), None, Some("c".to_owned())]);
        rows.flat_map(|row| row).filter(|_| true)
    });
}

#[test]
fn results_of_functions_may_be_results() {
    check(&[8], |env| {
        let parsed = env.from_collection(vec!["8".to_owned(), "9".to_owned()]).map(|text| text.parse::<i64>());
        parsed.filter(|n| Ok::<_, Error>(n % 2 == 0)).flat_map(|n| vec![Ok::<_, String>(n)])
    });
}

/// One row becomes 3 × 10,000, more than a chunk: 30,000 = sum over rows, of which every third is kept.
#[test]
fn a_row_may_become_many() {
    for mode in MODES {
        let rows = run(mode, &|env: &StreamExecutionEnvironment| {
            env.from_collection(vec![0_i64, 1, 2])
                .flat_map(|n| (0..10_000).map(move |i| n * 10_000 + i))
                .filter(|n| n % 3 == 0)
        });
        assert_eq!(rows, (0..30_000).filter(|n| n % 3 == 0).collect::<Vec<_>>(), "{mode:?}");
    }
}

#[test]
fn a_stream_may_be_read_twice_and_united() {
    check(&[1, 2, 10, 20], |env| {
        let numbers = env.from_collection(vec![0_i64, 1]).map(|n| n + 1);
        numbers.map(|n| n).union(&numbers.map(|n| n * 10))
    });
}

#[test]
fn reduce_runs_per_key() {
    check(&owned(&[("a", 1), ("b", 2), ("a", 4), ("b", 6)]), |env| {
        let rows = env.from_collection(owned(&[("a", 1), ("b", 2), ("a", 3), ("b", 4)]));
        rows.key_by(|row| row.0.clone()).reduce(|a, b| (a.0, a.1 + b.1)).map(|row| row)
    });
}

#[test]
fn keys_of_all_kinds() {
    #[derive(Record, Clone, Debug, PartialEq)]
    struct Key {
        text: Option<String>,
        number: f64,
    }
    check(&[1, 2, 1], |env| {
        let rows = env.from_collection(vec![0.0_f64, -0.0, 1.0]);
        let keyed = rows.map(|n| (n, 1_i64)).key_by(|row| Key { text: None, number: row.0 });
        keyed.reduce(|a, b| (a.0, a.1 + b.1)).map(|row| row.1)
    });
}

#[derive(Clone)]
struct Sum;

impl Aggregate for Sum {
    type In = (String, i64);
    type Accumulator = i64;
    type Out = i64;
    fn create(&self) -> i64 {
        0
    }
    fn add(&self, row: (String, i64), sum: &mut i64) -> Result<()> {
        *sum += row.1;
        Ok(())
    }
    fn result(&self, sum: &i64) -> Result<i64> {
        Ok(*sum)
    }
}

/// Windows of 10 ms: [0, 10) holds 1, 9 and −; 5 comes when the watermark is at 10 − 1 … and 3 when it is past 9.
const WINDOW_ROWS: &[(&str, i64)] = &[("a", -1), ("a", 1), ("b", 4), ("a", 9), ("b", 12), ("a", 3), ("b", 25)];

#[test]
fn tumbling_windows() {
    let window = TumblingEventTimeWindows::of(10);
    check(&owned(&[("a@-10", -1), ("a@0", 10), ("b@0", 4), ("b@10", 12), ("b@20", 25)]), |env| {
        let keyed = timed(env, WINDOW_ROWS).key_by(|row| row.0.clone());
        let sums =
            keyed.window(window).aggregate_with(Sum, |key, window, sum| (format!("{key}@{}", window.start), sum));
        // Windows come in their order, the keys of one in no particular order: sorted by (window, key) here.
        sums.key_by(|_| 0_u8).process(SortByTime::default())
    });
    check(&[-1, 10, 4, 12, 25], |env| {
        let keyed = timed(env, WINDOW_ROWS).filter(|_| true).key_by(|row| row.0.clone());
        let sums = keyed.window(window).aggregate(Sum).map(|sum| (String::new(), sum));
        sums.key_by(|_| 0_u8).process(SortByTime { descending: true, ..SortByTime::default() }).map(|row| row.1)
    });
    check(&owned(&[("a", 25)]), |env| {
        let rows = timed(env, &[("a", 7), ("a", 9), ("a", 9)]).key_by(|row| row.0.clone());
        rows.window(window.offset(-3)).reduce(|a, b| (a.0, a.1 + b.1))
    });
}

#[test]
fn late_rows_are_counted() {
    for mode in MODES {
        let driver = Driver::new(mode);
        let counters = driver.counters.clone();
        let env = StreamExecutionEnvironment::with_executor(Arc::new(driver));
        let window = TumblingEventTimeWindows::of(10);
        let sums = timed(&env, WINDOW_ROWS).key_by(|row| row.0.clone()).window(window).aggregate(Sum);
        sums.map(|sum| sum).name("After").collect();
        env.execute("test").unwrap();
        let counters = counters.lock().unwrap();
        let count = |name: &str, counter: &str| counters.get(&(name.to_owned(), counter.to_owned())).copied();
        // ("a", 3): the watermark is at 11 when it comes.
        assert_eq!(count("Tumbling Window", "numLateRecordsDropped"), Some(1), "{mode:?}");
        assert_eq!(count("Tumbling Window", "numRecordsIn"), Some(7), "{mode:?}");
        assert_eq!(count("Tumbling Window", "numRecordsOut"), Some(5), "{mode:?}");
        assert_eq!(count("After", "numRecordsIn"), Some(5), "{mode:?}");
        assert_eq!(count("After", "numRecordsOut"), Some(5), "{mode:?}");
    }
}

/// 10,000 keys of one window come in chunks of at most 4,096 (the driver checks), each key once: Σ 0..10,000.
#[test]
fn a_window_of_many_keys_fires_in_chunks() {
    for mode in &MODES[..2] {
        let rows = run(*mode, &|env: &StreamExecutionEnvironment| {
            let strategy = WatermarkStrategy::for_monotonous_timestamps().with_every_rows(100_000);
            let numbers = env.from_collection(0..10_000_i64);
            let timed = numbers.assign_timestamps_and_watermarks(strategy, |_| Timestamp(5));
            let keyed = timed.key_by(|n| *n).window(TumblingEventTimeWindows::of(10));
            keyed.reduce(|a, b| a + b).flat_map(|n| [n]).map(|n| n)
        });
        assert_eq!((rows.len(), rows.iter().sum::<i64>()), (10_000, 49_995_000), "{mode:?}");
    }
}

/// Keeps rows until the watermark has passed their event time.
#[derive(Clone, Default)]
struct SortByTime {
    descending: bool,
    rows: OrderedMapState<i64, Vec<(String, i64)>>,
}

impl KeyedProcessFunction for SortByTime {
    type Key = u8;
    type In = (String, i64);
    type Out = (String, i64);

    fn open(&mut self, ctx: &mut OpenContext<'_, '_>) -> Result<()> {
        self.rows = ctx.ordered_map_state("rows")?;
        Ok(())
    }

    fn process_element(
        &mut self,
        row: Self::In,
        ctx: &mut ProcessContext<'_, u8>,
        _out: &mut Collector<'_, Self::Out>,
    ) -> Result<()> {
        let at = ctx.timestamp().unwrap();
        let mut rows = self.rows.get(ctx, &at.0)?.cloned().unwrap_or_default();
        rows.push(row);
        rows.sort();
        if self.descending {
            rows.reverse();
        }
        self.rows.put(ctx, at.0, rows)?;
        ctx.register_event_time_timer(at)
    }

    fn on_timer(
        &mut self,
        at: Timestamp,
        ctx: &mut ProcessContext<'_, u8>,
        out: &mut Collector<'_, Self::Out>,
    ) -> Result<()> {
        for row in self.rows.remove(ctx, &at.0)?.unwrap_or_default() {
            out.collect(row)?;
        }
        Ok(())
    }
}

const SMALL: OutputTag<i64> = OutputTag::new("small");
const NOBODY: OutputTag<String> = OutputTag::new("nobody reads it");

/// Touches every kind of state: what comes out is what it holds.
#[derive(Clone, Default)]
struct AllStates {
    value: ValueState<i64>,
    list: ListState<i64>,
    map: MapState<String, i64>,
    ordered: OrderedMapState<i64, String>,
    reducing: ReducingState<i64>,
    aggregating: AggregatingState<Sum>,
}

impl KeyedProcessFunction for AllStates {
    type Key = String;
    type In = (String, i64);
    type Out = String;

    fn open(&mut self, ctx: &mut OpenContext<'_, '_>) -> Result<()> {
        self.value = ctx.value_state("value")?;
        self.list = ctx.list_state("list")?;
        self.map = ctx.map_state("map")?;
        self.ordered = ctx.ordered_map_state("ordered")?;
        self.reducing = ctx.reducing_state("reducing", |a: i64, b| Ok(a.max(b)))?;
        self.aggregating = ctx.aggregating_state("aggregating", Sum)?;
        Ok(())
    }

    fn process_element(
        &mut self,
        row: Self::In,
        ctx: &mut ProcessContext<'_, String>,
        out: &mut Collector<'_, String>,
    ) -> Result<()> {
        assert_eq!((ctx.current_key(), ctx.time_domain()), (row.0.clone(), None));
        let n = row.1;
        if n < 3 {
            ctx.output(SMALL, n)?;
            ctx.output(NOBODY, "dropped".to_owned())?;
        }
        let count = self.value.value(ctx)?.copied().unwrap_or(0) + 1;
        self.value.update(ctx, count)?;
        self.list.add(ctx, n)?;
        self.map.put(ctx, format!("n{}", n % 2), n)?;
        self.ordered.put(ctx, -n, n.to_string())?;
        self.reducing.add(ctx, n)?;
        self.aggregating.add(ctx, row)?;
        let mut map: Vec<_> = self.map.entries(ctx)?.map(|(k, v)| format!("{k}={v}")).collect();
        map.sort();
        let ordered: Vec<_> = self.ordered.entries(ctx)?.values().map(String::as_str).collect();
        let (list, max) = (self.list.get(ctx)?, self.reducing.get(ctx)?.unwrap());
        let sum = self.aggregating.get(ctx)?.unwrap();
        let text = format!("{count} {list:?} {} {} {max} {sum}", map.join(","), ordered.join(","));
        out.collect(text)?;
        if n == 9 {
            self.value.clear(ctx)?;
            self.list.clear(ctx)?;
            self.map.clear(ctx)?;
        }
        ctx.register_event_time_timer(Timestamp(100))?;
        ctx.register_event_time_timer(Timestamp(50))?;
        ctx.delete_event_time_timer(Timestamp(50))
    }

    fn on_timer(
        &mut self,
        at: Timestamp,
        ctx: &mut ProcessContext<'_, String>,
        out: &mut Collector<'_, String>,
    ) -> Result<()> {
        assert_eq!((ctx.timestamp(), ctx.time_domain()), (Some(at), Some(TimeDomain::EventTime)));
        let sum = self.aggregating.get(ctx)?.unwrap();
        out.collect(format!("{} at {at}: {sum}", ctx.current_key()))
    }
}

#[test]
fn keyed_process_state_timers_and_side_outputs() {
    let rows = [("a", 1), ("a", 2), ("b", 9), ("b", 5), ("a", 4)];
    let expected: Vec<String> = [
        "1 [1] n1=1 1 1 1",
        "2 [1, 2] n0=2,n1=1 2,1 2 3",
        "1 [9] n1=9 9 9 9",
        "1 [5] n1=5 9,5 9 14",
        "3 [1, 2, 4] n0=4,n1=1 4,2,1 4 7",
        "a at 100: 7",
        "b at 100: 14",
    ]
    .map(str::to_owned)
    .into();
    for mode in MODES {
        let env = StreamExecutionEnvironment::with_executor(Arc::new(Driver::new(mode)));
        let processed = timed(&env, &rows).key_by(|row| row.0.clone()).process(AllStates::default());
        let small = processed.get_side_output(SMALL).map(|n| n * 10).collect();
        let main = processed.map(|text| text).collect();
        env.execute("test").unwrap();
        let mut found = main.take();
        // The two timers are due at the same time, in no particular order.
        found[5..].sort();
        assert_eq!(found, expected, "{mode:?}");
        assert_eq!(small.take(), [10, 20], "{mode:?}");
    }
}

/// Says how many rows a key had half a second of processing time after its first.
#[derive(Clone, Default)]
struct CountLater {
    count: ValueState<u64>,
}

impl KeyedProcessFunction for CountLater {
    type Key = i64;
    type In = i64;
    type Out = (i64, u64);

    fn open(&mut self, ctx: &mut OpenContext<'_, '_>) -> Result<()> {
        self.count = ctx.value_state("count")?;
        Ok(())
    }

    fn process_element(
        &mut self,
        _row: i64,
        ctx: &mut ProcessContext<'_, i64>,
        _out: &mut Collector<'_, Self::Out>,
    ) -> Result<()> {
        let count = self.count.value(ctx)?.copied().unwrap_or(0) + 1;
        self.count.update(ctx, count)?;
        let now = ctx.current_processing_time();
        ctx.register_processing_time_timer(now.saturating_add(700))?;
        ctx.delete_processing_time_timer(now.saturating_add(700))?;
        ctx.register_processing_time_timer(now.saturating_add(500))
    }

    fn on_timer(
        &mut self,
        at: Timestamp,
        ctx: &mut ProcessContext<'_, i64>,
        out: &mut Collector<'_, Self::Out>,
    ) -> Result<()> {
        assert_eq!((at, ctx.timestamp()), (Timestamp(500), None));
        assert_eq!(ctx.time_domain(), Some(TimeDomain::ProcessingTime));
        out.collect((ctx.current_key(), self.count.value(ctx)?.copied().unwrap_or(0)))
    }
}

#[test]
fn processing_time_timers() {
    for mode in MODES {
        let mut rows = run(mode, &|env: &StreamExecutionEnvironment| {
            env.from_collection([7_i64, 8, 7, 9, 7]).key_by(|n| *n).process(CountLater::default())
        });
        rows.sort();
        assert_eq!(rows, [(7, 3), (8, 1), (9, 1)], "{mode:?}");
    }
}

#[derive(Clone)]
struct Split;

impl ProcessFunction for Split {
    type In = i64;
    type Out = i64;
    fn process_element(&mut self, n: i64, ctx: &mut RowContext<'_>, out: &mut Collector<'_, i64>) -> Result<()> {
        assert_eq!(ctx.timestamp(), None);
        if n < 3 { ctx.output(SMALL, n) } else { out.collect(n) }
    }
}

#[test]
fn process_in_the_middle_of_a_run() {
    for mode in MODES {
        let env = StreamExecutionEnvironment::with_executor(Arc::new(Driver::new(mode)));
        let split = env.from_collection(vec![1_i64, 2, 3, 4]).map(|n| n).process(Split);
        let small = split.get_side_output(SMALL).collect();
        let large = split.map(|n| n).collect();
        env.execute("test").unwrap();
        assert_eq!((small.take(), large.take()), (vec![1, 2], vec![3, 4]), "{mode:?}");
    }
}

#[test]
fn requests_are_answered_row_by_row() {
    check(&[11, 21, 31], |env| {
        let numbers = env.from_collection(vec![1_i64, 2, 3]).map(|n| n * 10);
        let asked = numbers.async_request(RequestOrder::Ordered, |rows| {
            ready(Ok::<_, Error>(rows.into_iter().map(|n| n + 1).collect::<Vec<i64>>()))
        });
        asked.map(|n| n)
    });
}

#[test]
fn event_times_pass_every_stage() {
    check(&[(1, 5), (1, 5), (3, 7)], |env| {
        let rows = timed(env, &[("1", 5), ("2", 6), ("3", 7)]);
        let numbers = rows.map(|row| row.0.parse::<i64>()).filter(|n| *n != 2);
        numbers.flat_map(|n| if n == 1 { vec![n, n] } else { vec![n] }).process(WithTime)
    });
}

#[derive(Clone)]
struct WithTime;

impl ProcessFunction for WithTime {
    type In = i64;
    type Out = (i64, i64);
    fn process_element(&mut self, n: i64, ctx: &mut RowContext<'_>, out: &mut Collector<'_, (i64, i64)>) -> Result<()> {
        out.collect((n, ctx.timestamp().unwrap().0))
    }
}

/// The same program may be run again; handles then hold what the second run brought.
#[test]
fn a_program_can_be_run_twice() {
    let env = StreamExecutionEnvironment::with_executor(Arc::new(Driver::new(MODES[0])));
    let collected = env.from_collection(vec![1_i64]).collect();
    env.execute("first").unwrap();
    assert_eq!(collected.take(), [1]);
    env.execute("second").unwrap();
    assert_eq!(collected.take(), [1]);
}
