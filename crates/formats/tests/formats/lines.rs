//! Lines of text.

use flott_formats::Decoder;
use flott_formats::lines::LinesDecoder;

use super::support::{drain, shown};

#[test]
fn lines() {
    for (input, expected) in [
        (&b""[..], ""),
        (b"a", "[a]"),
        (b"a\n", "[a]"),
        (b"a\r\nb\r\n", "[a] [b]"),
        (b"a\r\nb\r", "[a] [b]"),
        (b"\n\na\n\n", "[] [] [a] []"),
        (b"a\rb\n", "[a\rb]"),
        (b"\xc3\xa4\n", "[ä]"),
        (b"a\nb\n\xc3\n", "[a] [b] error: expected UTF-8, found the byte 0xc3 (line 3)"),
    ] {
        for (piece, max_rows) in [(1, 1), (2, 2), (100, 100)] {
            let mut decoder = LinesDecoder::default();
            let (batches, error) = drain(&mut decoder, input, piece, max_rows);
            let mut found = shown(&batches);
            match error {
                Some(error) => found = format!("{found} error: {error}"),
                None => assert_eq!(decoder.input().position(), input.len() as u64),
            }
            assert_eq!(found, expected, "{input:?} by {piece}");
        }
    }
}

#[test]
fn parts_hold_the_lines_that_start_in_them() {
    let text = b"one\ntwo\n\nthree";
    // Starts of lines: 0, 4, 8, 9.
    for (start, stop, expected) in [
        (0, 4, "[one]"),
        (0, 5, "[one] [two]"),
        (4, 8, "[two]"),
        (5, 8, ""),
        (5, 9, "[]"),
        (8, 10, "[] [three]"),
        (10, 14, ""),
    ] {
        let mut decoder = LinesDecoder::default();
        decoder.input_mut().stop_at(stop);
        let mut from = 0;
        if start > 0 {
            decoder.input_mut().seek_inside(start);
            from = start as usize - 1;
        }
        let (batches, error) = drain(&mut decoder, &text[from..], 2, 1);
        assert_eq!((shown(&batches).as_str(), error), (expected, None), "{start}..{stop}");
    }
}
