//! The sink `files`: [`FilesSinkConfig`].
//!
//! A writer writes to a hidden file; preparing a commit closes it, committing gives it its name. What is visible is
//! whole and committed.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flott_core::{
    Batch, Committable, Committer, Error, OperatorInfo, Result, RowKind, Sink, SinkWriter, Spec, StoredForm,
};
use flott_formats::csv::{CsvOptions, CsvWriter};
use serde::{Deserialize, Serialize};

use super::{NAME, Root};

/// A [`Part`].
const PART: StoredForm = StoredForm::new("a part of a files sink", 1);
/// A writer's entry: the number of its next part.
const NEXT_PART: StoredForm = StoredForm::new("the number of the next part", 1);

/// Written at once.
const BUFFER_BYTES: usize = 1 << 18;

/// Where to write and how.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FilesSinkConfig {
    /// The folder; made if it is not there. A part is called `part-<task>-<number>.csv`; files that are there are
    /// never touched.
    pub path: PathBuf,
    /// What to write.
    pub format: SinkFormat,
}

/// What to write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum SinkFormat {
    /// CSV; with `header` every part has one.
    Csv(CsvOptions),
}

impl FilesSinkConfig {
    /// The sink with this configuration, for a plan.
    pub fn spec(&self) -> Result<Spec> {
        Spec::new(NAME, self)
    }
}

pub(super) struct FilesSink {
    format: SinkFormat,
    root: Root,
}

impl FilesSink {
    pub(super) fn new(FilesSinkConfig { path, format }: FilesSinkConfig) -> Result<Self> {
        Ok(Self { format, root: Root::new(&path)? })
    }
}

impl FilesSink {
    fn no_folder(&self, error: &std::io::Error) -> Error {
        match self.root.absolute.ancestors().find(|path| path.exists()) {
            Some(path) if path.is_file() => {
                let path: &Path = if path == self.root.absolute { &self.root.written } else { path };
                Error::user("expected a folder to write to, found a file").at("file", path.display())
            }
            _ => Error::io("make the folder", self.root.written.display(), error),
        }
    }
}

impl Sink for FilesSink {
    fn writer(&self, info: &Arc<OperatorInfo>, restored: &[Vec<u8>]) -> Result<Box<dyn SinkWriter>> {
        let SinkFormat::Csv(options) = &self.format;
        let schema = info.inputs.first().ok_or_else(|| Error::internal("a sink without an input"))?;
        let format = CsvWriter::new(schema.clone(), options)?;
        let made = std::fs::create_dir_all(&self.root.absolute);
        made.map_err(|e| self.no_folder(&e))?;
        let numbers = restored.iter().map(|entry| NEXT_PART.decode(entry));
        let next_part = numbers.collect::<Result<Vec<u64>>>()?.into_iter().max().unwrap_or(0);
        let writer =
            FilesWriter { folder: self.root.absolute.clone(), task: info.index, format, next_part, open: None };
        Ok(Box::new(writer))
    }

    fn committer(&self) -> Result<Option<Box<dyn Committer>>> {
        Ok(Some(Box::new(FilesCommitter)))
    }
}

/// What is to be committed: the hidden file and its name when it is. Both are absolute.
#[derive(Debug, Serialize, Deserialize)]
struct Part {
    hidden: PathBuf,
    visible: PathBuf,
}

struct FilesWriter {
    folder: PathBuf,
    task: u32,
    format: CsvWriter,
    next_part: u64,
    open: Option<OpenPart>,
}

struct OpenPart {
    part: Part,
    file: File,
    buffer: Vec<u8>,
}

impl OpenPart {
    fn write_out(&mut self) -> Result<()> {
        let written = self.file.write_all(&self.buffer);
        self.buffer.clear();
        written.map_err(|e| Error::io("write", self.part.hidden.display(), &e))
    }
}

impl FilesWriter {
    /// The part to write to, begun if there is none.
    ///
    /// Its number is one that neither a visible nor a hidden file has: after a restore at another parallelism a task
    /// may not know which numbers its predecessor has used, and hidden files may still have to be committed.
    fn open_part(&mut self) -> Result<&mut OpenPart> {
        if self.open.is_none() {
            let (part, file) = loop {
                let name = format!("part-{}-{}", self.task, self.next_part);
                self.next_part += 1;
                let part = Part {
                    hidden: self.folder.join(format!(".{name}.inprogress")),
                    visible: self.folder.join(format!("{name}.csv")),
                };
                if exists(&part.visible)? {
                    continue;
                }
                match File::create_new(&part.hidden) {
                    Ok(file) => break (part, file),
                    Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
                    Err(e) => return Err(Error::io("make", part.hidden.display(), &e)),
                }
            };
            let mut buffer = Vec::with_capacity(BUFFER_BYTES);
            self.format.write_header(&mut buffer);
            self.open = Some(OpenPart { part, file, buffer });
        }
        self.open.as_mut().ok_or_else(|| Error::internal("the part was not opened"))
    }
}

fn exists(path: &Path) -> Result<bool> {
    path.try_exists().map_err(|e| Error::io("look for", path.display(), &e))
}

impl SinkWriter for FilesWriter {
    fn write(&mut self, batch: &Batch) -> Result<()> {
        if batch.is_empty() {
            return Ok(());
        }
        if batch.row_kinds().is_some_and(|kinds| kinds.iter().any(|kind| *kind != RowKind::Insert as u8)) {
            return Err(Error::user("expected only new rows (+I), found an update or a removal").at("sink", NAME));
        }
        let mut buffer = std::mem::take(&mut self.open_part()?.buffer);
        let written = self.format.write(batch.columns(), &mut buffer);
        let open = self.open_part()?;
        open.buffer = buffer;
        written?;
        if open.buffer.len() >= BUFFER_BYTES { open.write_out() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<()> {
        self.open.as_mut().map_or(Ok(()), OpenPart::write_out)
    }

    fn prepare_commit(&mut self) -> Result<Vec<Committable>> {
        self.flush()?;
        let Some(OpenPart { part, file, .. }) = self.open.take() else {
            return Ok(Vec::new());
        };
        file.sync_all().map_err(|e| Error::io("make durable", part.hidden.display(), &e))?;
        Ok(vec![Committable(PART.encode(&part)?)])
    }

    fn snapshot(&mut self) -> Result<Vec<Vec<u8>>> {
        Ok(vec![NEXT_PART.encode(&self.next_part)?])
    }

    /// Prepared parts stay: a checkpoint may count on them.
    fn abandon(&mut self) {
        if let Some(OpenPart { part, .. }) = self.open.take() {
            // It is hidden: what cannot be removed does no harm.
            drop(std::fs::remove_file(part.hidden));
        }
    }
}

struct FilesCommitter;

impl Committer for FilesCommitter {
    fn commit(&mut self, committables: &[Committable]) -> Result<()> {
        let mut folders = BTreeSet::new();
        for committable in committables {
            let part: Part = PART.decode(&committable.0)?;
            match (exists(&part.hidden)?, exists(&part.visible)?) {
                (true, false) => std::fs::rename(&part.hidden, &part.visible)
                    .map_err(|e| Error::io("rename", part.hidden.display(), &e))?,
                (false, true) => {}
                (true, true) => {
                    let text = format!("cannot commit {}: the name is taken", part.hidden.display());
                    return Err(Error::user(text).at("file", part.visible.display()));
                }
                (false, false) => {
                    let text = "cannot commit a part: somebody has removed it; its rows are lost";
                    return Err(Error::user(text).at("file", part.hidden.display()));
                }
            }
            folders.extend(part.visible.parent().map(Path::to_owned));
        }
        for folder in folders {
            let synced = File::open(&folder).and_then(|folder| folder.sync_all());
            synced.map_err(|e| Error::io("make durable", folder.display(), &e))?;
        }
        Ok(())
    }
}
