//! The source `files`: [`FilesSourceConfig`].
//!
//! A split is a range of bytes of a file. It holds the rows that start in it: reading begins after the first end of a
//! line at or before its start and goes on past its end to finish the last row.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_schema::{Schema, SchemaRef};
use flott_core::{
    Batch, Error, OperatorInfo, ReaderContext, Result, Source, SourceEvent, SourceReader, Spec, Split, SplitEnumerator,
    StoredForm, Wait,
};
use flott_formats::csv::{CsvDecoder, CsvOptions};
use flott_formats::{Decoded, Decoder, lines};
use serde::{Deserialize, Serialize};

use super::listing::list;
use super::{NAME, Root};
use crate::splits::PendingSplits;

/// A [`FilePart`].
const POSITION: StoredForm = StoredForm::new("the position in a file", 1);

/// Read at once: little enough that it is still in the processor's cache when it is decoded.
const CHUNK_BYTES: usize = 256 << 10;

/// What to read and how.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FilesSourceConfig {
    /// A file, which may not be empty, or a folder: all files in it and its folders, in the order of their names; empty
    /// ones and names that begin with `.` or `_` are passed over, and there may be none.
    pub path: PathBuf,
    /// What is in the files.
    pub format: SourceFormat,
    /// Files are read in parts of so many bytes, in parallel and for watermarks of their own.
    #[serde(default = "split_bytes")]
    pub split_bytes: u64,
    /// Whether a file may be read in parts. In CSV that needs every end of a line to be the end of a row: quoted
    /// fields with ends of lines in them are refused then, in a file of more than one part.
    #[serde(default = "yes")]
    pub splittable: bool,
}

/// What is in the files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum SourceFormat {
    /// CSV.
    Csv {
        /// The columns; with a header a selection of those in the files, in any order.
        schema: Schema,
        /// How it is written.
        #[serde(default)]
        options: CsvOptions,
    },
    /// Lines of text: one column `line`.
    Lines,
}

/// Small, because readers of neighbouring parts are so far apart in event time, and rows between the slowest and the
/// fastest of them are held in windows that cannot fire yet. A part costs about 0.1 ms.
fn split_bytes() -> u64 {
    8 << 20
}

fn yes() -> bool {
    true
}

impl FilesSourceConfig {
    /// The files at `path`, read in parts of 8 MiB.
    pub fn new(path: impl Into<PathBuf>, format: SourceFormat) -> Self {
        Self { path: path.into(), format, split_bytes: split_bytes(), splittable: true }
    }

    /// The schema of the rows.
    pub fn schema(&self) -> SchemaRef {
        match &self.format {
            SourceFormat::Csv { schema, .. } => Arc::new(schema.clone()),
            SourceFormat::Lines => lines::schema(),
        }
    }

    /// The source with this configuration, for a plan.
    pub fn spec(&self) -> Result<Spec> {
        Spec::new(NAME, self)
    }
}

impl SourceFormat {
    /// What a file begins with, for people.
    fn expected(&self) -> String {
        let names =
            |schema: &Schema| schema.fields().iter().map(|field| field.name().as_str()).collect::<Vec<_>>().join(", ");
        match self {
            Self::Csv { schema, options } if options.header => format!("a header with the columns {}", names(schema)),
            Self::Csv { schema, .. } => format!("rows with the columns {}", names(schema)),
            Self::Lines => "lines of text".to_owned(),
        }
    }

    /// A decoder; in `parts` if it will not see the whole file.
    fn decoder(&self, parts: bool) -> Result<AnyDecoder> {
        Ok(match self {
            Self::Csv { schema, options } => {
                let mut decoder = CsvDecoder::new(Arc::new(schema.clone()), options)?;
                decoder.refuse_line_breaks(parts);
                AnyDecoder::Csv(decoder)
            }
            Self::Lines => AnyDecoder::Lines(lines::LinesDecoder::default()),
        })
    }
}

enum AnyDecoder {
    Csv(CsvDecoder),
    Lines(lines::LinesDecoder),
}

impl AnyDecoder {
    fn any(&mut self) -> &mut dyn Decoder {
        match self {
            Self::Csv(decoder) => decoder,
            Self::Lines(decoder) => decoder,
        }
    }

    /// Reads what stands before the first row.
    fn read_header(&mut self, file: &mut File, path: &Path) -> Result<()> {
        let Self::Csv(decoder) = self else {
            return Ok(());
        };
        while decoder.decode_header().map_err(|e| e.at("file", path.display()))? == Decoded::NeedBytes {
            let read = decoder.input_mut().read_from(&mut *file, CHUNK_BYTES >> 2);
            read.map_err(|e| Error::io("read", path.display(), &e))?;
        }
        Ok(())
    }
}

pub(super) struct FilesSource {
    config: Arc<FilesSourceConfig>,
    root: Root,
}

impl FilesSource {
    pub(super) fn new(config: FilesSourceConfig) -> Result<Self> {
        Ok(Self { root: Root::new(&config.path)?, config: Arc::new(config) })
    }

    fn check_header(&self, path: &Path) -> Result<()> {
        let mut file = open(path)?;
        self.config.format.decoder(false)?.read_header(&mut file, path)
    }
}

impl Source for FilesSource {
    fn enumerator(&self, restored: Option<&[u8]>) -> Result<Box<dyn SplitEnumerator>> {
        if let Some(bytes) = restored {
            return Ok(Box::new(PendingSplits::restore(bytes)?));
        }
        if self.config.split_bytes == 0 {
            return Err(Error::user("expected split_bytes of at least 1, found 0").at("source", NAME));
        }
        let mut splits = Vec::new();
        for listed in list(&self.config.path)? {
            if listed.bytes == 0 {
                // A task that had no rows may have left an empty part in a folder; a file by name was meant.
                if listed.path == self.config.path {
                    let text = format!("expected {}, found an empty file", self.config.format.expected());
                    return Err(Error::user(text).at("file", listed.path.display()));
                }
                continue;
            }
            if listed.path.to_str().is_none() {
                return Err(Error::user("expected a file name in UTF-8").at("file", listed.path.display()));
            }
            self.check_header(&listed.path)?;
            let size = if self.config.splittable { self.config.split_bytes } else { listed.bytes };
            let mut start = 0;
            while start < listed.bytes {
                let end = start.saturating_add(size).min(listed.bytes);
                let whole = start == 0 && end == listed.bytes;
                let part = FilePart { path: self.root.absolute(&listed.path), start, end, next: start, whole };
                let id = if whole { listed.name.clone() } else { format!("{} {start}..{end}", listed.name) };
                splits.push(Split { id: id.into(), position: POSITION.encode(&part)? });
                start = end;
            }
        }
        Ok(Box::new(PendingSplits::new(splits)))
    }

    fn reader(&self, _info: &Arc<OperatorInfo>) -> Result<Box<dyn SourceReader>> {
        Ok(Box::new(FilesReader { config: self.config.clone(), root: self.root.clone(), splits: Vec::new(), last: 0 }))
    }
}

fn open(path: &Path) -> Result<File> {
    File::open(path).map_err(|e| Error::io("open", path.display(), &e))
}

/// The position of a split: rows that start in `start..end`, from `next` on.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct FilePart {
    /// Absolute.
    path: PathBuf,
    start: u64,
    end: u64,
    /// A row starts here, unless it is `start`.
    next: u64,
    /// There are no other parts of the file.
    whole: bool,
}

struct FilesReader {
    config: Arc<FilesSourceConfig>,
    root: Root,
    splits: Vec<Active>,
    /// The split of the last batch.
    last: usize,
}

struct Active {
    id: Arc<str>,
    part: FilePart,
    /// Where the last batch began.
    batch_start: u64,
    paused: bool,
    /// Opened when its first batch is due.
    open: Option<OpenPart>,
}

impl SourceReader for FilesReader {
    fn add_split(&mut self, split: Split) -> Result<()> {
        let part: FilePart = POSITION.decode(&split.position)?;
        self.splits.push(Active { id: split.id, batch_start: part.next, part, paused: false, open: None });
        Ok(())
    }

    fn next_batch(&mut self, ctx: &ReaderContext<'_>) -> Result<SourceEvent> {
        if self.splits.is_empty() {
            return Ok(SourceEvent::NeedSplit);
        }
        let Some(index) = self.splits.iter().position(|split| !split.paused) else {
            return Ok(SourceEvent::Wait(Wait::Waker));
        };
        let active = &mut self.splits[index];
        let open = match &mut active.open {
            Some(open) => open,
            None => active.open.insert(OpenPart::new(&self.config.format, &active.part, &self.root)?),
        };
        match open.next_batch(ctx.max_rows)? {
            Some(batch) => {
                self.last = index;
                active.batch_start = active.part.next;
                active.part.next = open.decoder.any().input().position();
                Ok(SourceEvent::Batch(active.id.clone(), batch))
            }
            None => Ok(SourceEvent::SplitFinished(self.splits.remove(index).id)),
        }
    }

    fn at_row(&self, error: Error, row: usize) -> Error {
        let Some(active) = self.splits.get(self.last) else { return error.at("row of the batch", row) };
        let part = FilePart { next: active.batch_start, ..active.part.clone() };
        let line = OpenPart::new(&self.config.format, &part, &self.root).and_then(|part| part.line_of(row));
        let error = match line {
            Ok(line) => error.at("line", line),
            // The file has gone since.
            Err(_) => error.at("row of the batch", row),
        };
        error.at("file", self.root.shown(&part.path).display())
    }

    fn pause(&mut self, split: &str, paused: bool) {
        for active in self.splits.iter_mut().filter(|active| &*active.id == split) {
            active.paused = paused;
        }
    }

    /// Until they end.
    fn has_rows(&self, _split: &str) -> bool {
        true
    }

    fn snapshot(&mut self) -> Result<Vec<Split>> {
        let splits = self.splits.iter();
        splits.map(|split| Ok(Split { id: split.id.clone(), position: POSITION.encode(&split.part)? })).collect()
    }
}

/// A part with its file and its decoder.
struct OpenPart {
    path: PathBuf,
    /// The path for people.
    shown: PathBuf,
    file: File,
    decoder: AnyDecoder,
    /// Lines are counted from the start of the file.
    lines_known: bool,
}

impl OpenPart {
    fn new(format: &SourceFormat, part: &FilePart, root: &Root) -> Result<Self> {
        let shown = root.shown(&part.path);
        let io = |doing: &'static str| {
            let shown = shown.clone();
            move |e: std::io::Error| Error::io(doing, shown.display(), &e)
        };
        let mut file = File::open(&part.path).map_err(io("open"))?;
        let bytes = file.metadata().map_err(io("read"))?.len();
        if bytes < part.end {
            let text = format!("expected a file of at least {} bytes, found {bytes}: it has been cut", part.end);
            return Err(Error::user(text).at("file", shown.display()));
        }
        let mut decoder = format.decoder(!part.whole)?;
        decoder.read_header(&mut file, &shown)?;
        let input = decoder.any().input_mut();
        input.stop_at(part.end);
        let header_end = input.position();
        let mut lines_known = true;
        if part.next > header_end {
            lines_known = false;
            let aligned = part.next > part.start;
            let seek_to = if aligned {
                input.seek(part.next);
                part.next
            } else {
                input.seek_inside(part.next);
                part.next - 1
            };
            file.seek(SeekFrom::Start(seek_to)).map_err(io("read"))?;
        }
        Ok(Self { path: part.path.clone(), shown, file, decoder, lines_known })
    }

    /// `None`: no row is left.
    fn next_batch(&mut self, max_rows: usize) -> Result<Option<Batch>> {
        loop {
            let decoder = self.decoder.any();
            match decoder.decode(max_rows) {
                Ok(Decoded::Rows(rows)) => return Ok(Some(Batch::new(rows))),
                Ok(Decoded::Finished) => return Ok(None),
                Ok(Decoded::NeedBytes) => {
                    let read = decoder.input_mut().read_from(&mut self.file, CHUNK_BYTES);
                    read.map_err(|e| Error::io("read", self.shown.display(), &e))?;
                }
                // Only an error is worth the reading of all that stands before: then decode it again, to the same
                // error with the right line.
                Err(_) if !self.lines_known => self.find_line()?,
                Err(e) => return Err(e.at("file", self.shown.display())),
            }
        }
    }

    /// Counts lines from the start of the file.
    fn find_line(&mut self) -> Result<()> {
        let input = self.decoder.any().input_mut();
        let before = count_lines(&self.path, input.position());
        input.set_line(before.map_err(|e| Error::io("read", self.shown.display(), &e))? + 1);
        self.lines_known = true;
        Ok(())
    }

    /// The line in which a row ends, counted from where this part goes on; it is read again for that.
    fn line_of(mut self, row: usize) -> Result<u64> {
        if !self.lines_known {
            self.find_line()?;
        }
        let mut left = row + 1;
        while left > 0 {
            // No further row: it is behind the last one.
            left -= self.next_batch(left)?.map_or(left, |batch| batch.num_rows());
        }
        Ok(self.decoder.any().input().line() - 1)
    }
}

/// Ends of lines among the first `bytes` of a file.
fn count_lines(path: &Path, bytes: u64) -> std::io::Result<u64> {
    let mut file = File::open(path)?.take(bytes);
    let mut chunk = vec![0; 1 << 16];
    let mut lines = 0;
    loop {
        match file.read(&mut chunk)? {
            0 => return Ok(lines),
            read => lines += memchr::memchr_iter(b'\n', &chunk[..read]).count() as u64,
        }
    }
}
