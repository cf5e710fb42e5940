//! Which slice a time falls in: [`Slices`]. Slices are equally long, disjoint and cover all time.

use flott_core::Namespace;

/// The slices `[offset + n·size, offset + (n+1)·size)` for all integers n, in ms.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slices {
    /// At least 1.
    size: i64,
    /// In `0..size`, so that taking it from a time overflows only at the very beginning of time.
    offset: i64,
}

/// The slices of a batch.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SlicesOf {
    /// All rows fall in one.
    One(Namespace),
    /// One for each row was written out.
    Each {
        /// The first of them.
        earliest: Namespace,
    },
}

impl Slices {
    /// Slices of `size` ms, at least 1; the offset may be negative.
    pub(super) fn new(size: i64, offset: i64) -> Self {
        Self { size, offset: offset.rem_euclid(size) }
    }

    /// The slice of one time. Bounds stop at the ends of time.
    #[inline]
    pub(super) fn slice(self, time: i64) -> Namespace {
        // Floor, not truncation: -1 falls in [-size, 0).
        let since = time.wrapping_sub(self.offset);
        let start = time.saturating_sub(since.rem_euclid(self.size));
        Namespace(start, start.saturating_add(self.size))
    }

    /// The slices of all `times` (at least one); `each` is filled only where they differ.
    pub(super) fn of(self, times: &[i64], each: &mut Vec<Namespace>) -> SlicesOf {
        let (mut least, mut greatest) = (i64::MAX, i64::MIN);
        for &time in times {
            least = least.min(time);
            greatest = greatest.max(time);
        }
        let earliest = self.slice(least);
        if greatest < earliest.1 || self.slice(greatest) == earliest {
            return SlicesOf::One(earliest);
        }
        each.clear();
        // Neighbouring rows mostly share a slice, which saves the division.
        let mut slice = earliest;
        each.extend(times.iter().map(|&time| {
            if time < slice.0 || time >= slice.1 {
                slice = self.slice(time);
            }
            slice
        }));
        SlicesOf::Each { earliest }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_begin_at_the_offset_on_both_sides_of_the_epoch() {
        // (size, offset, time) → start: the greatest offset + n·size not above time.
        let table = [
            (10, 0, 0, 0),
            (10, 0, 9, 0),
            (10, 0, -1, -10),
            (10, 0, -10, -10),
            (10, 3, 2, -7),
            (10, 3, 3, 3),
            (10, -3, -4, -13),
            (10, -3, -3, -3),
            (10, 23, 2, -7),
            (1, 5, -7, -7),
        ];
        for (size, offset, time, start) in table {
            assert_eq!(Slices::new(size, offset).slice(time), Namespace(start, start + size), "{size} {offset} {time}");
        }
        let day = Slices::new(86_400_000, -28_800_000);
        for time in [i64::MIN, i64::MIN + 1, i64::MAX] {
            let slice = day.slice(time);
            assert!(slice.0 <= time && time <= slice.1, "{slice:?}");
        }
    }

    #[test]
    fn a_batch_of_one_slice_is_found_out() {
        let slices = Slices::new(10, 0);
        let mut each = Vec::new();
        assert_eq!(slices.of(&[3, 0, 9], &mut each), SlicesOf::One(Namespace(0, 10)));
        assert_eq!(slices.of(&[3, -1, 12, 13], &mut each), SlicesOf::Each { earliest: Namespace(-10, 0) });
        assert_eq!(each, [Namespace(0, 10), Namespace(-10, 0), Namespace(10, 20), Namespace(10, 20)]);
    }
}
