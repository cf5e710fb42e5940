//! Tables: CSV in, rows or the exact error out, whatever the pieces it comes in.

use flott_formats::csv::CsvOptions;
use flott_formats::{Decoded, Decoder};

use super::support::{csv, decode, drain, shown};

fn check(options: &CsvOptions, table: &[(&str, &str, &str)]) {
    for (columns, input, expected) in table {
        for piece in [usize::MAX, 1, 3] {
            assert_eq!(decode(columns, options, input.as_bytes(), piece), *expected, "{columns}: {input:?} by {piece}");
        }
    }
}

#[test]
fn rows_and_quotes() {
    check(
        &CsvOptions::default(),
        &[
            ("a BIGINT, b STRING", "", ""),
            ("a BIGINT, b STRING", "1,x", "[1, x]"),
            ("a BIGINT, b STRING", "1,x\n", "[1, x]"),
            ("a BIGINT, b STRING", "1,x\n2,y\n3,z\n", "[1, x] [2, y] [3, z]"),
            ("a BIGINT, b STRING", "1,x\r\n2,y\r\n", "[1, x] [2, y]"),
            ("a STRING, b BIGINT", "x,1\r\ny,2\r", "[x, 1] [y, 2]"),
            ("a BIGINT, b STRING", "\n1,x\n\r\n\n2,y\n\n", "[1, x] [2, y]"),
            ("a BIGINT, b STRING", "1,\"x,y\"\n", "[1, x,y]"),
            ("a BIGINT, b STRING", "1,\"a\"\"b,c\"\n", "[1, a\"b,c]"),
            ("a BIGINT, b STRING", "1,\"\"\"\"\n", "[1, \"]"),
            ("a BIGINT, b STRING", "1,\"x\ny\"\r\n2,z", "[1, x\ny] [2, z]"),
            ("a BIGINT, b STRING", "\"1\",\"x\"", "[1, x]"),
            ("a BIGINT, b STRING", "1,x\"y\n", "[1, x\"y]"),
            ("a BIGINT, b STRING", "1, x \n", "[1,  x ]"),
            ("a BIGINT, b STRING", "1,ä€𝄞\n", "[1, ä€𝄞]"),
            ("a BIGINT, b STRING", "\u{feff}1,x\n", "[1, x]"),
            ("a STRING", "\u{feff}", ""),
            ("a STRING", "x\ry\n", "[x\ry]"),
        ],
    );
}

#[test]
fn null() {
    check(
        &CsvOptions::default(),
        &[
            ("a BIGINT, b STRING", ",\n", "[null, null]"),
            ("a BIGINT, b STRING", "\"\",\"\"\n", "[null, ]"),
            ("a BIGINT, b STRING!", ",\n", "[null, ]"),
            (
                "a BIGINT!, b STRING",
                "1,x\n,x\n",
                "[1, x] error: expected BIGINT NOT NULL, found an empty field (column a, line 2)",
            ),
            ("a DOUBLE, b DATE", ",\n1,1970-01-01", "[null, null] [1.0, 1970-01-01]"),
            ("a BOOLEAN, b DECIMAL(5,2)", ",\n", "[null, null]"),
            ("a TIMESTAMP(3), b U8", ",\n", "[null, null]"),
        ],
    );
    check(
        &CsvOptions { null_literal: Some("NA".into()), ..CsvOptions::default() },
        &[
            (
                "a BIGINT, b STRING",
                "NA,NA\n,\nNAN,\"NA\"",
                "[null, null] [null, ] error: expected BIGINT, found 'NAN' (column a, line 3)",
            ),
            ("a BIGINT, b STRING", "1,\"NA\"\n", "[1, NA]"),
            ("a BIGINT, b STRING!", "1,NA\n", "error: expected STRING NOT NULL, found NULL 'NA' (column b, line 1)"),
        ],
    );
    check(
        &CsvOptions { null_literal: Some("-1".into()), ..CsvOptions::default() },
        &[("a BIGINT, b STRING", "-1,-1\n-2,-2", "[null, null] [-2, -2]")],
    );
}

#[test]
fn numbers() {
    check(
        &CsvOptions::default(),
        &[
            ("a TINYINT, b SMALLINT", "127,-32768\n-128,32767", "[127, -32768] [-128, 32767]"),
            ("a TINYINT", "128", "error: expected TINYINT, found '128' (column a, line 1)"),
            ("a INT, b INT", "2147483647,-2147483648", "[2147483647, -2147483648]"),
            ("a INT", "-2147483649", "error: expected INT, found '-2147483649' (column a, line 1)"),
            (
                "a BIGINT, b BIGINT",
                "9223372036854775807,-9223372036854775808",
                "[9223372036854775807, -9223372036854775808]",
            ),
            (
                "a BIGINT",
                "9223372036854775808",
                "error: expected BIGINT, found '9223372036854775808' (column a, line 1)",
            ),
            ("a BIGINT, b BIGINT", "+7, 8 \n0000000000000000000012,-0", "[7, 8] [12, 0]"),
            ("a BIGINT", "1\n2\nx1\n", "[1] [2] error: expected BIGINT, found 'x1' (column a, line 3)"),
            ("a BIGINT", "1.0", "error: expected BIGINT, found '1.0' (column a, line 1)"),
            ("a BIGINT", "-", "error: expected BIGINT, found '-' (column a, line 1)"),
            ("a U8, b U64", "255,18446744073709551615", "[255, 18446744073709551615]"),
            ("a U8", "-1", "error: expected TINYINT UNSIGNED, found '-1' (column a, line 1)"),
            ("a U8", "256", "error: expected TINYINT UNSIGNED, found '256' (column a, line 1)"),
            ("a DOUBLE, b FLOAT", "1.5,1e10\n-0.0,0.1", "[1.5, 1.0E10] [-0.0, 0.1]"),
            ("a DOUBLE, b DOUBLE", "NaN,Infinity\n-Infinity,1e-5", "[NaN, Infinity] [-Infinity, 1.0E-5]"),
            ("a DOUBLE", "1,5", "error: expected 1 field, found 2: '1,5' (line 1)"),
            ("a DOUBLE", "abc", "error: expected DOUBLE, found 'abc' (column a, line 1)"),
            ("a BOOLEAN, b BOOLEAN", "true,FALSE", "[true, false]"),
            ("a BOOLEAN", "yes", "error: expected BOOLEAN, found 'yes' (column a, line 1)"),
            ("a DECIMAL(5,2), b DECIMAL(5,2)", "1,-2.345\n.5,+999.994", "[1.00, -2.35] [0.50, 999.99]"),
            ("a DECIMAL(5,2), b DECIMAL(5,2)", "1e2,12345e-4\n5e-3,4e-3", "[100.00, 1.23] [0.01, 0.00]"),
            ("a DECIMAL(5,2)", "999.995", "error: expected DECIMAL(5, 2), found '999.995' (column a, line 1)"),
            ("a DECIMAL(5,2)", "1.2.3", "error: expected DECIMAL(5, 2), found '1.2.3' (column a, line 1)"),
            ("a DECIMAL(5,2)", "1e999999999", "error: expected DECIMAL(5, 2), found '1e999999999' (column a, line 1)"),
            ("a DECIMAL(5,2)", "0e999999999", "[0.00]"),
            (
                "a DECIMAL(38,0)",
                "99999999999999999999999999999999999999\n100000000000000000000000000000000000000",
                "[99999999999999999999999999999999999999] error: expected DECIMAL(38, 0), found '100000000000000000000000000000000000000' (column a, line 2)",
            ),
        ],
    );
}

#[test]
fn dates_and_times() {
    check(
        &CsvOptions::default(),
        &[
            (
                "a DATE, b DATE",
                "2024-02-29,1969-12-31\n0001-01-01,9999-12-31",
                "[2024-02-29, 1969-12-31] [0001-01-01, 9999-12-31]",
            ),
            ("a DATE", "2023-02-29", "error: expected DATE, found '2023-02-29' (column a, line 1)"),
            ("a DATE", "1900-02-29", "error: expected DATE, found '1900-02-29' (column a, line 1)"),
            ("a DATE", "2024-13-01", "error: expected DATE, found '2024-13-01' (column a, line 1)"),
            ("a DATE", "2024-1-01", "error: expected DATE, found '2024-1-01' (column a, line 1)"),
            ("a DATE", "2024-01-01 ", "[2024-01-01]"),
            ("a DATE", "2024-01-011", "error: expected DATE, found '2024-01-011' (column a, line 1)"),
            (
                "a TIMESTAMP(3), b TIMESTAMP(0)",
                "2024-01-01 00:00:00.123,2024-01-01T23:59:59\n1969-12-31 23:59:59.9,2024-01-01 00:00:00Z",
                "[2024-01-01T00:00:00.123, 2024-01-01T23:59:59] [1969-12-31T23:59:59.900, 2024-01-01T00:00]",
            ),
            ("a TIMESTAMP(3)", "2024-01-01 00:00:00.1239", "[2024-01-01T00:00:00.123]"),
            ("a TIMESTAMP(9)", "2024-01-01 00:00:00.123456789", "[2024-01-01T00:00:00.123456789]"),
            (
                "a TIMESTAMP(9)",
                "2300-01-01 00:00:00",
                "error: expected TIMESTAMP(9), found '2300-01-01 00:00:00' (column a, line 1)",
            ),
            ("a TIMESTAMP(3)", "2024-01-01", "error: expected TIMESTAMP(3), found '2024-01-01' (column a, line 1)"),
            (
                "a TIMESTAMP(3)",
                "2024-01-01 24:00:00",
                "error: expected TIMESTAMP(3), found '2024-01-01 24:00:00' (column a, line 1)",
            ),
            (
                "a TIMESTAMP(3)",
                "2024-01-01 00:00:00.",
                "error: expected TIMESTAMP(3), found '2024-01-01 00:00:00.' (column a, line 1)",
            ),
            (
                "a TIMESTAMP(3)",
                "2024-01-01 00:00:00+01:00",
                "error: expected TIMESTAMP(3), found '2024-01-01 00:00:00+01:00' (column a, line 1)",
            ),
            (
                "a LTZ(3)",
                "2024-01-01 00:00:00+01:00\n2024-01-01T00:00:00Z\n2024-01-01 00:00:00",
                "[2023-12-31T23:00:00Z] [2024-01-01T00:00:00Z] [2024-01-01T00:00:00Z]",
            ),
            (
                "a LTZ(3)Berlin",
                "2024-01-01 00:00:00",
                "error: expected TIMESTAMP_LTZ(3), found '2024-01-01 00:00:00' (column a, line 1)",
            ),
        ],
    );
}

#[test]
fn malformed_rows() {
    check(
        &CsvOptions::default(),
        &[
            ("a BIGINT, b BIGINT", "1,2\n3\n", "[1, 2] error: expected 2 fields, found 1: '3' (line 2)"),
            ("a BIGINT, b BIGINT", "1,2\n3,4,5\r\n", "[1, 2] error: expected 2 fields, found 3: '3,4,5' (line 2)"),
            ("a BIGINT, b BIGINT", "1,2,\n", "error: expected 2 fields, found 3: '1,2,' (line 1)"),
            (
                "a STRING, b BIGINT",
                "\"x\n\ny\",1\nz,a\n",
                "[x\n\ny, 1] error: expected BIGINT, found 'a' (column b, line 4)",
            ),
            (
                "a STRING, b BIGINT",
                "\"x\"y,1\n",
                "error: expected a delimiter after the closing quote, found 'y,1' (line 1)",
            ),
            (
                "a STRING, b BIGINT",
                "x,1\n\"y,1\n",
                "[x, 1] error: expected a closing quote, found the end of the input (line 2)",
            ),
            ("a BYTES", "", "refused: CSV has no form for the type BYTES (column a)"),
        ],
    );
    for piece in [1, 100] {
        let found = decode("a STRING", &CsvOptions::default(), b"x\n\xff\n", piece);
        assert_eq!(found, "[x] error: expected STRING, found bytes that are no UTF-8: '\u{fffd}' (column a, line 2)");
        let short = CsvOptions { max_row_bytes: 8, ..CsvOptions::default() };
        assert_eq!(
            decode("a STRING", &short, b"1234567\n12345678\n", piece),
            "[1234567] error: expected a row of at most 8 bytes, found a longer one; is a quote not closed? (line 2)"
        );
    }
}

#[test]
fn options() {
    let options = |delimiter, quote, comment| CsvOptions { delimiter, quote, comment, ..CsvOptions::default() };
    check(
        &options(';', Some('\''), Some('#')),
        &[("a BIGINT, b STRING", "# c\n1;'x;y'\n#\n2;#z", "[1, x;y] [2, #z]"), ("a STRING", "#x", "")],
    );
    check(&options('\t', None, None), &[("a BIGINT, b STRING", "1\t\"x\n", "[1, \"x]")]);
    // A delimiter that is part of values: the field ends at the first one all the same.
    check(
        &options('-', None, None),
        &[
            ("a BIGINT, b BIGINT", "1-2\n", "[1, 2]"),
            ("a DATE", "2024-01-01", "error: expected 1 field, found 3: '2024-01-01' (line 1)"),
        ],
    );
    check(&options(' ', None, None), &[("a STRING, b TIMESTAMP(0)", "x 2024-01-01T00:00:00", "[x, 2024-01-01T00:00]")]);
    for (refused, why) in [
        (options('ä', None, None), "refused: expected one ASCII character for the delimiter, found 'ä'"),
        (options('\n', None, None), "refused: expected one ASCII character for the delimiter, found '\\n'"),
        (options('"', Some('"'), None), "refused: expected a delimiter, a quote and a comment character that differ"),
    ] {
        assert_eq!(decode("a BIGINT", &refused, b"", 1), why);
    }
}

#[test]
fn header() {
    let options = CsvOptions { header: true, comment: Some('#'), ..CsvOptions::default() };
    check(
        &options,
        &[
            ("b BIGINT, a STRING", "a,x,b\nq,\"1,2\n3\",7\n", "[7, q]"),
            ("b BIGINT, a STRING", "\u{feff}# c\n\n\"a\",b\r\nq,7\r\n", "[7, q]"),
            ("a BIGINT", "a\n", ""),
            ("a BIGINT", "a", ""),
            ("a BIGINT", "", "error: expected a header with the columns a, found the end of the input"),
            ("a BIGINT, c STRING", "a,b\n1,2\n", "error: the column 'c' is not in the header: a, b (line 1)"),
            ("a BIGINT", "b,a,a\n", "error: the column 'a' is more than once in the header: b, a, a (line 1)"),
            ("b BIGINT", "a,b\n1\n", "error: expected 2 fields, found 1: '1' (line 2)"),
        ],
    );
}

#[test]
fn goes_on_at_a_position() {
    let text = "a,b\n1,x\n2,\"y\nz\"\n3,w\n";
    let options = CsvOptions { header: true, ..CsvOptions::default() };
    let mut decoder = csv("a BIGINT, b STRING", &options).unwrap();
    decoder.input_mut().feed(text.as_bytes());
    let mut places = Vec::new();
    while let Decoded::Rows(_) = decoder.decode(1).unwrap() {
        places.push((decoder.input().position(), decoder.input().line()));
    }
    // Each row's end: the header has 4 bytes, the rows 4, 8 (two lines) and 4.
    assert_eq!(places, [(8, 3), (16, 5), (20, 6)]);
    for (position, rows) in [(4, "[1, x] [2, y\nz] [3, w]"), (8, "[2, y\nz] [3, w]"), (16, "[3, w]"), (20, "")] {
        decoder.input_mut().seek(position);
        let (batches, error) = drain(&mut decoder, &text.as_bytes()[position as usize..], 5, 10);
        assert_eq!((shown(&batches).as_str(), error), (rows, None), "from {position}");
    }
}

#[test]
fn in_parts_line_breaks_are_refused() {
    let mut decoder = csv("a STRING", &CsvOptions::default()).unwrap();
    decoder.refuse_line_breaks(true);
    let (batches, error) = drain(&mut decoder, b"x\n\"y\nz\"\n", 100, 10);
    assert_eq!(shown(&batches), "[x]");
    let expected =
        "found an end of line inside quotes in a file that is read in parts; set splittable to false (line 2)";
    assert_eq!(error.unwrap().to_string(), expected);
}
