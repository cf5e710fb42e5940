//! Where a field begins and ends, and what is in it when the quotes are gone. It knows no types.

use memchr::{memchr, memchr_iter, memchr2};

use super::Dialect;

/// A field at the start of some bytes.
pub(super) enum Field<'a> {
    Whole {
        /// What is in it; doubled quotes and all, see `doubled`.
        text: &'a [u8],
        quoted: bool,
        /// Quotes in `text` are doubled.
        doubled: bool,
        /// Bytes up to the delimiter or `\n` that ends it.
        length: usize,
        /// Ends of lines in it.
        breaks: u64,
    },
    /// Its end is not among the bytes.
    Partial,
    /// Something else than the end of the field follows the closing quote at this index.
    Malformed(usize),
}

/// The field that `bytes` begin with.
pub(super) fn field<'a>(bytes: &'a [u8], dialect: &Dialect) -> Field<'a> {
    match dialect.quote {
        Some(quote) if bytes.first() == Some(&quote) => quoted(bytes, quote, dialect.delimiter),
        _ => unquoted(bytes, dialect.delimiter),
    }
}

fn unquoted(bytes: &[u8], delimiter: u8) -> Field<'_> {
    let Some(length) = memchr2(delimiter, b'\n', bytes) else {
        return Field::Partial;
    };
    let text = &bytes[..length];
    let text = if bytes[length] == b'\n' { text.strip_suffix(b"\r").unwrap_or(text) } else { text };
    Field::Whole { text, quoted: false, doubled: false, length, breaks: 0 }
}

fn quoted(bytes: &[u8], quote: u8, delimiter: u8) -> Field<'_> {
    let mut at = 1;
    let mut doubled = false;
    let end = loop {
        let Some(found) = memchr(quote, &bytes[at..]) else {
            return Field::Partial;
        };
        at += found + 1;
        match bytes.get(at) {
            None => return Field::Partial,
            Some(next) if *next == quote => {
                doubled = true;
                at += 1;
            }
            Some(_) => break at,
        }
    };
    let length = match (bytes[end], bytes.get(end + 1)) {
        (next, _) if next == delimiter || next == b'\n' => end,
        (b'\r', Some(b'\n')) => end + 1,
        (b'\r', None) => return Field::Partial,
        // The rest of the line belongs into the error.
        _ if memchr(b'\n', &bytes[end..]).is_none() => return Field::Partial,
        _ => return Field::Malformed(end),
    };
    let text = &bytes[1..end - 1];
    Field::Whole { text, quoted: true, doubled, length, breaks: memchr_iter(b'\n', text).count() as u64 }
}

/// `text` with each doubled quote made one.
pub(super) fn undouble(text: &[u8], quote: u8) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = memchr(quote, rest) {
        out.extend_from_slice(&rest[..=at]);
        rest = rest.get(at + 2..).unwrap_or_default();
    }
    out.extend_from_slice(rest);
    out
}

/// Bytes for an error message: as text, at most 80 characters.
pub(super) fn shown(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(400)]);
    match text.char_indices().nth(80) {
        Some((cut, _)) => format!("{}…", &text[..cut]),
        None => text.into_owned(),
    }
}
