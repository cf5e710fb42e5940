//! The functions that tables run, as one program nobody executes: [`program`].

use flott_datastream::*;
use futures::future::ready;

#[derive(Record, Clone, Debug)]
struct Sale {
    item: String,
    amount: i64,
}

/// A stream for the schema; tables bring their own rows.
fn rows<T: Record>(env: &StreamExecutionEnvironment) -> DataStream<T> {
    env.from_collection(Vec::new())
}

/// Every function has a name of its own, by which tables find it.
pub(crate) fn program() -> StreamExecutionEnvironment {
    let env = StreamExecutionEnvironment::new();
    rows_alone(&env);
    by_key(&env);
    requests(&env);
    let sessions = sales_by_item(&env).process(Quiet::default()).name("sessions");
    sessions.get_side_output(FIRST).print();
    let sorted = sessions.process(SortOut).name("sort_longer");
    sorted.get_side_output(SMALL).print();
    let spelled = sorted.flat_map(|seen: Seen| (1..=seen.amount).map(move |n| (seen.item.clone(), n))).name("spell");
    spelled.key_by(|row| row.1 % 2 == 0).reduce(|a, _| a).name("parity").print();
    env
}

fn rows_alone(env: &StreamExecutionEnvironment) {
    rows(env).map(|sale: Sale| Sale { amount: sale.amount * 2, ..sale }).name("double").print();
    rows(env).map(|text: String| text.parse::<i64>()).name("parse").print();
    rows(env).filter(|sale: &Sale| sale.amount >= 10).name("large").print();
    rows(env).filter(|text: &String| text.parse::<bool>()).name("yes").print();
    let words = |line: String| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    rows(env).flat_map(words).name("words").print();
    let no_third = |n| if n == 3 { Err("three is refused") } else { Ok(n) };
    rows(env).flat_map(move |n: i64| (1..=n).map(no_third)).name("up_to").print();
    let time = |sale: &Sale| if sale.amount < 0 { Err("no time before the epoch") } else { Ok(Timestamp(sale.amount)) };
    rows(env).assign_timestamps_and_watermarks(WatermarkStrategy::for_monotonous_timestamps(), time).print();
    let sorted = rows::<Sale>(env).process(SortOut).name("sort_out");
    sorted.get_side_output(SMALL).print();
    sorted.print();
}

fn sales_by_item(env: &StreamExecutionEnvironment) -> KeyedStream<String, Sale> {
    rows(env).key_by(|sale: &Sale| sale.item.clone())
}

fn add(a: Sale, Sale { item, amount }: Sale) -> Result<Sale, String> {
    let sum = a.amount.checked_add(amount).ok_or_else(|| format!("too many of {item}"))?;
    Ok(Sale { amount: sum, ..a })
}

fn by_key(env: &StreamExecutionEnvironment) {
    sales_by_item(env).reduce(add).name("sums").print();
    let sum = |a: (f64, i64), b: (f64, i64)| (a.0, a.1 + b.1);
    rows(env).key_by(|row: &(f64, i64)| row.0).reduce(sum).name("sums_by_number").print();
    let both = |row: &(Option<String>, bool, i64)| (row.0.clone(), row.1);
    rows(env).key_by(both).reduce(|a, b| (a.0, a.1, a.2 + b.2)).name("sums_by_both").print();
    let quiet = sales_by_item(env).process(Quiet::default()).name("quiet");
    quiet.get_side_output(FIRST).print();
    quiet.print();
    sales_by_item(env).process(Later::default()).name("later").print();
    sales_by_item(env).process(AllStates::default()).name("all_states").print();
    let windows = TumblingEventTimeWindows::of(10);
    let bar = |item: String, TimeWindow { start, end }, sum: Sale| Bar { item, start, end, sum: sum.amount };
    sales_by_item(env).window(windows).reduce_with(add, bar).name("bars").print();
    sales_by_item(env).window(windows.offset(3)).aggregate(Mean).name("means").print();
}

fn requests(env: &StreamExecutionEnvironment) {
    for (name, order) in [("ask", RequestOrder::Ordered), ("ask_anyhow", RequestOrder::Unordered)] {
        rows(env).async_request(order, |sales: Vec<Sale>| ready(answers(sales))).name(name).print();
    }
}

/// The amounts times two; an error for `bad`, and none for `lost`.
fn answers(sales: Vec<Sale>) -> Result<Vec<Sale>, String> {
    if sales.iter().any(|sale| sale.item == "bad") {
        return Err("the service refuses 'bad'".to_owned());
    }
    let known = sales.into_iter().filter(|sale| sale.item != "lost");
    Ok(known.map(|sale| Sale { amount: sale.amount * 2, ..sale }).collect())
}

#[derive(Record, Clone, Debug)]
struct Bar {
    item: String,
    start: Timestamp,
    end: Timestamp,
    sum: i64,
}

#[derive(Clone)]
struct Mean;

impl Aggregate for Mean {
    type In = Sale;
    /// Sum and number.
    type Accumulator = (i64, i64);
    type Out = (i64, i64);
    fn create(&self) -> (i64, i64) {
        (0, 0)
    }
    fn add(&self, sale: Sale, (sum, number): &mut (i64, i64)) -> Result<()> {
        *sum += sale.amount;
        *number += 1;
        Ok(())
    }
    fn result(&self, (sum, number): &(i64, i64)) -> Result<(i64, i64)> {
        Ok((sum / number, *number))
    }
}

const SMALL: OutputTag<String> = OutputTag::new("small");
const FIRST: OutputTag<(String, i64)> = OutputTag::new("first");

#[derive(Record, Clone, Debug)]
struct Seen {
    item: String,
    amount: i64,
    /// The clocks when it was seen.
    watermark: Timestamp,
    now: Timestamp,
}

/// Amounts below 3 go aside.
#[derive(Clone)]
struct SortOut;

impl ProcessFunction for SortOut {
    type In = Sale;
    type Out = Seen;

    fn process_element(&mut self, sale: Sale, ctx: &mut RowContext<'_>, out: &mut Collector<'_, Seen>) -> Result<()> {
        match sale.amount {
            ..0 => Err(Error::user("less than nothing")),
            0..3 => ctx.output(SMALL, sale.item),
            amount => {
                let (watermark, now) = (ctx.current_watermark(), ctx.current_processing_time());
                out.collect(Seen { item: sale.item, amount, watermark, now })
            }
        }
    }
}

/// How much an item sold when 10 ms have passed without a sale; the first goes aside too.
#[derive(Clone, Default)]
struct Quiet {
    sum: ValueState<i64>,
    timer: ValueState<i64>,
}

impl KeyedProcessFunction for Quiet {
    type Key = String;
    type In = Sale;
    type Out = Sale;

    fn open(&mut self, ctx: &mut OpenContext<'_, '_>) -> Result<()> {
        self.sum = ctx.value_state("sum")?;
        self.timer = ctx.value_state("timer")?;
        Ok(())
    }

    fn process_element(
        &mut self,
        sale: Sale,
        ctx: &mut ProcessContext<'_, String>,
        _out: &mut Collector<'_, Sale>,
    ) -> Result<()> {
        let at = ctx.timestamp().ok_or_else(|| Error::user("a sale without time"))?.saturating_add(10);
        let sum = self.sum.value(ctx)?.copied();
        if sum.is_none() {
            ctx.output(FIRST, (ctx.current_key(), sale.amount))?;
        }
        self.sum.update(ctx, sum.unwrap_or(0) + sale.amount)?;
        if let Some(before) = self.timer.value(ctx)?.copied() {
            ctx.delete_event_time_timer(Timestamp(before))?;
        }
        self.timer.update(ctx, at.millis())?;
        ctx.register_event_time_timer(at)
    }

    fn on_timer(
        &mut self,
        _at: Timestamp,
        ctx: &mut ProcessContext<'_, String>,
        out: &mut Collector<'_, Sale>,
    ) -> Result<()> {
        let amount = self.sum.value(ctx)?.copied().unwrap_or(-1);
        self.sum.clear(ctx)?;
        out.collect(Sale { item: ctx.current_key(), amount })
    }
}

/// How often an item was sold, half a second of processing time after its first sale.
#[derive(Clone, Default)]
struct Later {
    count: ValueState<i64>,
}

impl KeyedProcessFunction for Later {
    type Key = String;
    type In = Sale;
    type Out = Sale;

    fn open(&mut self, ctx: &mut OpenContext<'_, '_>) -> Result<()> {
        self.count = ctx.value_state("count")?;
        Ok(())
    }

    fn process_element(
        &mut self,
        _sale: Sale,
        ctx: &mut ProcessContext<'_, String>,
        _out: &mut Collector<'_, Sale>,
    ) -> Result<()> {
        let count = self.count.value(ctx)?.copied().unwrap_or(0) + 1;
        self.count.update(ctx, count)?;
        let now = ctx.current_processing_time();
        ctx.register_processing_time_timer(now.saturating_add(700))?;
        ctx.delete_processing_time_timer(now.saturating_add(700))?;
        if count == 1 { ctx.register_processing_time_timer(now.saturating_add(500)) } else { Ok(()) }
    }

    fn on_timer(
        &mut self,
        _at: Timestamp,
        ctx: &mut ProcessContext<'_, String>,
        out: &mut Collector<'_, Sale>,
    ) -> Result<()> {
        let amount = self.count.value(ctx)?.copied().unwrap_or(0);
        self.count.clear(ctx)?;
        out.collect(Sale { item: ctx.current_key(), amount })
    }
}

/// Touches every kind of state; what comes out is what they hold.
#[derive(Clone, Default)]
struct AllStates {
    value: ValueState<i64>,
    list: ListState<i64>,
    map: MapState<String, i64>,
    ordered: OrderedMapState<i64, String>,
    reducing: ReducingState<i64>,
    aggregating: AggregatingState<Mean>,
}

#[derive(Record, Clone, Debug)]
struct Held {
    value: Option<i64>,
    list: String,
    map: String,
    ordered: String,
    greatest: Option<i64>,
    mean: Option<i64>,
}

impl KeyedProcessFunction for AllStates {
    type Key = String;
    type In = Sale;
    type Out = Held;

    fn open(&mut self, ctx: &mut OpenContext<'_, '_>) -> Result<()> {
        self.value = ctx.value_state("value")?;
        self.list = ctx.list_state("list")?;
        self.map = ctx.map_state("map")?;
        self.ordered = ctx.ordered_map_state("ordered")?;
        self.reducing = ctx.reducing_state("reducing", |a: i64, b| Ok(a.max(b)))?;
        self.aggregating = ctx.aggregating_state("aggregating", Mean)?;
        Ok(())
    }

    fn process_element(
        &mut self,
        sale: Sale,
        ctx: &mut ProcessContext<'_, String>,
        out: &mut Collector<'_, Held>,
    ) -> Result<()> {
        let n = sale.amount;
        self.value.update(ctx, n)?;
        self.list.add(ctx, n)?;
        self.map.put(ctx, format!("n{}", n % 2), n)?;
        self.ordered.put(ctx, -n, n.to_string())?;
        self.reducing.add(ctx, n)?;
        self.aggregating.add(ctx, sale)?;
        if n == 0 {
            self.value.clear(ctx)?;
            self.list.clear(ctx)?;
            self.map.clear(ctx)?;
            self.reducing.clear(ctx)?;
        }
        let mut map: Vec<_> = self.map.entries(ctx)?.map(|(k, v)| format!("{k}={v}")).collect();
        map.sort();
        let list: Vec<_> = self.list.get(ctx)?.iter().map(i64::to_string).collect();
        let ordered: Vec<_> = self.ordered.entries(ctx)?.values().map(String::as_str).collect();
        out.collect(Held {
            value: self.value.value(ctx)?.copied(),
            list: list.join(","),
            map: map.join(","),
            ordered: ordered.join(","),
            greatest: self.reducing.get(ctx)?.copied(),
            mean: self.aggregating.get(ctx)?.map(|(mean, _)| mean),
        })
    }
}
