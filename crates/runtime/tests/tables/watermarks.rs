//! Watermark generators: where watermarks fall, what they promise, and event times of every type.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray, TimestampMillisecondArray,
    TimestampNanosecondArray, TimestampSecondArray,
};
use flott_core::{Batch, Timestamp, WatermarkStrategy};
use flott_runtime::watermarks::{WatermarkGenerator, WatermarkState};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::gate::rows;

fn strategy(behind: u64, every: u32) -> WatermarkStrategy {
    WatermarkStrategy::for_bounded_out_of_orderness(behind).with_time_column(0).with_every_rows(every)
}

/// (rows before it, watermark) of every watermark among these event times, cut into batches as `cut` says.
fn watermarks(generator: &mut WatermarkGenerator, times: &[i64], mut cut: impl FnMut() -> usize) -> Vec<(usize, i64)> {
    let (mut found, mut seen, mut from) = (Vec::new(), 0, 0);
    while from < times.len() {
        let to = (from + cut().max(1)).min(times.len());
        let mut pieces = Vec::new();
        let batch = rows(times[from..to].iter().copied());
        generator
            .process(&batch, |piece, watermark| {
                seen += piece.num_rows();
                pieces.extend_from_slice(piece.event_times().unwrap());
                found.extend(watermark.map(|at| (seen, at.0)));
            })
            .unwrap();
        assert_eq!(pieces, times[from..to]);
        from = to;
    }
    found
}

#[test]
fn a_watermark_follows_every_so_many_rows() {
    // Event times, rows between watermarks, out-of-orderness → (rows before, watermark): latest − bound − 1.
    type Case = (&'static [i64], u32, u64, &'static [(usize, i64)]);
    let cases: [Case; 6] = [
        (&[10, 20, 30], 1, 0, &[(1, 9), (2, 19), (3, 29)]),
        (&[10, 20, 30, 40, 50], 2, 5, &[(2, 14), (4, 34)]),
        (&[30, 10, 20, 40], 2, 0, &[(2, 29), (4, 39)]),
        (&[30, 10, 20, 25], 2, 0, &[(2, 29)]),
        (&[-20, -10], 1, 3, &[(1, -24), (2, -14)]),
        (&[i64::MIN + 2, i64::MAX], 1, 10, &[(2, i64::MAX - 11)]),
    ];
    for (times, every, behind, expected) in cases {
        let mut generator = WatermarkGenerator::new(strategy(behind, every), WatermarkState::default());
        assert_eq!(watermarks(&mut generator, times, || 100), expected, "{times:?} every {every}");
    }
}

#[test]
fn watermarks_fall_where_the_rows_say_however_batches_are_cut() {
    for seed in 0..200 {
        let mut random = SmallRng::seed_from_u64(seed);
        let times: Vec<i64> = (0..300).map(|i| i * 3 - random.random_range(0..50)).collect();
        let strategy = strategy(random.random_range(0..60), random.random_range(1..40));
        let new = || WatermarkGenerator::new(strategy.clone(), WatermarkState::default());
        let whole = watermarks(&mut new(), &times, || times.len());
        let mut sizes = random.clone();
        assert_eq!(watermarks(&mut new(), &times, || sizes.random_range(1..50)), whole, "seed {seed}");

        // A snapshot in the middle of anything changes nothing.
        let cut = random.random_range(0..times.len());
        let mut first = new();
        let mut found = watermarks(&mut first, &times[..cut], || random.random_range(1..50));
        let mut second = WatermarkGenerator::new(strategy.clone(), first.state());
        found.extend(watermarks(&mut second, &times[cut..], || 7).iter().map(|(seen, at)| (seen + cut, *at)));
        assert_eq!(found, whole, "seed {seed}, cut {cut}");
        assert!(whole.windows(2).all(|pair| pair[0].1 < pair[1].1), "seed {seed}: {whole:?}");
    }
}

#[test]
fn a_watermark_is_owed_once() {
    let mut generator = WatermarkGenerator::new(strategy(5, 3), WatermarkState::default());
    assert_eq!(generator.owed(), None);
    assert_eq!(watermarks(&mut generator, &[10, 20], || 9), []);
    assert_eq!(generator.owed(), Some(Timestamp(14)));
    assert_eq!(generator.owed(), None);
    // Counting has begun again.
    assert_eq!(watermarks(&mut generator, &[30, 31, 32], || 9), [(3, 26)]);
}

fn one(column: ArrayRef) -> Batch {
    Batch::new(RecordBatch::try_from_iter([("t", column)]).unwrap())
}

#[test]
fn event_times_of_every_type_are_milliseconds() {
    let cases: [(ArrayRef, i64); 6] = [
        (Arc::new(Int64Array::from(vec![-1500])), -1500),
        (Arc::new(TimestampSecondArray::from(vec![-2])), -2000),
        (Arc::new(TimestampMillisecondArray::from(vec![-1500])), -1500),
        // Towards the past, also before 1970: −1.5 ms is in the millisecond that begins at −2.
        (Arc::new(TimestampMicrosecondArray::from(vec![-1500])), -2),
        (Arc::new(TimestampNanosecondArray::from(vec![-1_500_000])), -2),
        (Arc::new(TimestampSecondArray::from(vec![i64::MAX])), i64::MAX),
    ];
    for (column, expected) in cases {
        let name = column.data_type().to_string();
        let mut generator = WatermarkGenerator::new(strategy(0, 1), WatermarkState::default());
        let mut found = Vec::new();
        generator.process(&one(column), |piece, _| found.extend_from_slice(piece.event_times().unwrap())).unwrap();
        assert_eq!(found, [expected], "{name}");
    }
}

#[test]
fn rows_without_event_time_are_refused() {
    let cases: [(ArrayRef, Option<usize>, &str); 3] = [
        (
            Arc::new(Int64Array::from(vec![Some(1), None])),
            Some(0),
            "a row has no event time: it is NULL (column t, row of the batch 1)",
        ),
        (
            Arc::new(StringArray::from(vec!["noon"])),
            Some(0),
            "event time must be a TIMESTAMP or a BIGINT of ms, found Utf8 (column t)",
        ),
        (Arc::new(Int64Array::from(vec![1])), None, "rows have no event time; name the column that holds it"),
    ];
    for (column, time_column, expected) in cases {
        let strategy = WatermarkStrategy { time_column, ..strategy(0, 1) };
        let mut generator = WatermarkGenerator::new(strategy, WatermarkState::default());
        let error = generator.process(&one(column), |_, _| ()).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
}
