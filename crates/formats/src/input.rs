//! The bytes a decoder has not decoded yet, and where in the whole input they are: [`Input`].
//!
//! It knows lines but no format.

use std::io::Read;

use memchr::memchr;

/// Undecoded bytes with their place in the input.
///
/// Lines end with `\n` or `\r\n`; the last one may have no end.
#[derive(Debug, Default)]
pub struct Input {
    bytes: Vec<u8>,
    /// Bytes before this index are decoded.
    head: usize,
    /// Of `head`, in the input.
    position: u64,
    /// Lines before `head`.
    lines: u64,
    /// No more bytes follow.
    ended: bool,
    /// The end of the last line was added, so that decoders see only whole lines.
    padded: bool,
    /// Rows that start here or later are not wanted.
    stop: Option<u64>,
    /// `head` is somewhere in a line that is not wanted.
    inside: bool,
}

impl Input {
    /// Adds a piece of the input.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.compact();
        self.bytes.extend_from_slice(bytes);
    }

    /// Adds up to `max_bytes` by one read of `reader` and answers how many; none means that the input has ended.
    pub fn read_from(&mut self, mut reader: impl Read, max_bytes: usize) -> std::io::Result<usize> {
        self.compact();
        let start = self.bytes.len();
        self.bytes.resize(start + max_bytes, 0);
        let read = loop {
            match reader.read(&mut self.bytes[start..]) {
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                other => break other,
            }
        };
        self.bytes.truncate(start + read.as_ref().map_or(0, |read| *read));
        if matches!(read, Ok(0)) {
            self.end();
        }
        read
    }

    /// Says that no more bytes follow.
    pub fn end(&mut self) {
        if !self.ended && self.rest().last().is_some_and(|last| *last != b'\n') {
            self.bytes.push(b'\n');
            self.padded = true;
        }
        self.ended = true;
    }

    /// Goes on at byte `position`, the start of a row; what follows must be fed anew.
    pub fn seek(&mut self, position: u64) {
        *self = Self { bytes: std::mem::take(&mut self.bytes), position, stop: self.stop, ..Self::default() };
        self.bytes.clear();
    }

    /// Goes on with the first row that starts at byte `position` or later; bytes must be fed from `position - 1`
    /// (`position` > 0), which tells whether a row starts right there.
    pub fn seek_inside(&mut self, position: u64) {
        self.seek(position.saturating_sub(1));
        self.inside = true;
    }

    /// Decodes only rows that start before byte `stop`.
    pub fn stop_at(&mut self, stop: u64) {
        self.stop = Some(stop);
    }

    /// The byte after the last row that was given out, from the start of the input.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// The line after the last row that was given out, from 1; counted from where reading began.
    pub fn line(&self) -> u64 {
        self.lines + 1
    }

    /// Says which line the position is in, where reading began in the middle.
    pub fn set_line(&mut self, line: u64) {
        self.lines = line.saturating_sub(1);
    }

    /// The undecoded bytes.
    pub(crate) fn rest(&self) -> &[u8] {
        &self.bytes[self.head..]
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended
    }

    /// Whether no wanted row can follow.
    pub(crate) fn is_finished(&self) -> bool {
        self.stop.is_some_and(|stop| self.position >= stop) || (self.ended && self.rest().is_empty())
    }

    /// How many of the undecoded bytes may hold starts of rows.
    pub(crate) fn wanted(&self) -> usize {
        let len = self.rest().len();
        match self.stop {
            Some(stop) => usize::try_from(stop.saturating_sub(self.position)).map_or(len, |wanted| wanted.min(len)),
            None => len,
        }
    }

    /// Leaves behind `length` bytes that held `lines` ends of lines.
    pub(crate) fn advance(&mut self, length: usize, lines: u64) {
        self.head += length;
        self.position += length as u64;
        self.lines += lines;
        if self.padded && self.head == self.bytes.len() {
            self.padded = false;
            self.position -= 1;
        }
    }

    /// Gets out of an unwanted line; false if more bytes are needed for that.
    pub(crate) fn align(&mut self) -> bool {
        if self.inside {
            match memchr(b'\n', self.rest()) {
                Some(end) => {
                    self.advance(end + 1, 1);
                    self.inside = false;
                }
                None => self.advance(self.rest().len(), 0),
            }
        }
        !self.inside
    }

    fn compact(&mut self) {
        if self.head >= self.bytes.len() / 2 {
            self.bytes.drain(..self.head);
            self.head = 0;
        }
    }
}
