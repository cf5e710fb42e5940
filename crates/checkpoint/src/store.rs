//! Where manifests are kept: [`CheckpointStore`], in a [`LocalDirectory`] or [`InMemory`]. The only I/O of this crate.
//!
//! A manifest is there whole or not at all. The newest is the one of the highest generation, and in it of the highest
//! id: what an owner of the job writes after another has taken over is never taken for the newest. Savepoints are
//! the user's: they are kept beside the checkpoints but nothing is recovered from them unasked.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use flott_core::config::{CHECKPOINT_DIR, RECOVERY_PATH, local_path_of};
use flott_core::{CheckpointId, CheckpointKind, Config, Error, Result};

use crate::{HEADER_BYTES, Header, Manifest};

/// Where a manifest is; shown to the user and accepted back.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Location(pub String);

impl std::fmt::Display for Location {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a job is recovered from.
#[derive(Debug, Default)]
pub struct Latest {
    /// The newest checkpoint that can be read.
    pub manifest: Option<(Location, Manifest)>,
    /// Those met on the way that cannot be read, and why.
    pub broken: Vec<(CheckpointId, Error)>,
    /// The highest id that was ever given out here: ids go on above it.
    pub highest: Option<CheckpointId>,
    /// The highest generation seen: the next owner takes a higher one.
    pub generation: u64,
}

impl Latest {
    /// Refuses to go on from checkpoint `id`, or from the very beginning, where a newer one is there that cannot be
    /// read: what was committed with that one would be committed again.
    pub fn check_nothing_newer_is_broken(&self, id: Option<CheckpointId>) -> Result<()> {
        let newer = self.broken.iter().filter(|(broken, _)| Some(*broken) > id);
        match newer.max_by_key(|(broken, _)| *broken) {
            Some((_, error)) => Err(error.clone().explain(format_args!(
                "it is the newest checkpoint, and from an older one what was committed since would be committed \
                 again: to do so all the same, name one in {}",
                RECOVERY_PATH.key
            ))),
            None => Ok(()),
        }
    }
}

/// Keeps the checkpoints of one job.
pub trait CheckpointStore: Send {
    /// Makes a manifest durable. Refused where a higher generation has written, and over one that is there already.
    fn write(&mut self, manifest: &Manifest) -> Result<Location>;

    /// The newest checkpoint that can be read.
    fn latest(&self) -> Result<Latest>;

    /// One manifest.
    fn read(&self, location: &Location) -> Result<Manifest>;
}

/// The store of a job with these options: the directory that they name, or memory where they name none.
pub fn store_of(config: &Config) -> Result<Box<dyn CheckpointStore>> {
    let path = local_path_of(config, &CHECKPOINT_DIR)?;
    Ok(if path.is_empty() { Box::new(InMemory::default()) } else { Box::new(LocalDirectory::new(path)) })
}

/// A header, or why it cannot be read.
type Found = (CheckpointId, Location, Result<Header>);

/// The newest first; what cannot be ordered is reported.
fn newest(found: Vec<Found>, read: impl Fn(&Location) -> Result<Manifest>) -> Latest {
    let mut latest = Latest { highest: found.iter().map(|(id, ..)| *id).max(), ..Latest::default() };
    let mut readable = Vec::new();
    for (id, location, header) in found {
        match header {
            Ok(header) => readable.push((header.generation, header.checkpoint, header.kind, location)),
            Err(error) => latest.broken.push((id, error)),
        }
    }
    latest.generation = readable.iter().map(|(generation, ..)| *generation).max().unwrap_or(0);
    readable.retain(|(.., kind, _)| *kind != CheckpointKind::Savepoint);
    readable.sort_by_key(|(generation, id, ..)| std::cmp::Reverse((*generation, *id)));
    for (_, id, _, location) in readable {
        match read(&location) {
            Ok(manifest) => {
                latest.manifest = Some((location, manifest));
                break;
            }
            Err(error) => latest.broken.push((id, error)),
        }
    }
    latest
}

/// Whether a manifest may be written beside those found.
fn check_fence(manifest: &Manifest, found: &[Found]) -> Result<()> {
    let (id, generation) = (manifest.checkpoint, manifest.generation);
    let newer = found.iter().filter_map(|(.., header)| header.as_ref().ok()).map(|h| h.generation).max();
    if let Some(newer) = newer.filter(|newer| *newer > generation) {
        let text =
            format!("generation {newer} has taken this job over from generation {generation}: nothing was written");
        return Err(Error::external(text).final_().at("checkpoint", id));
    }
    let same = found.iter().find(|(there, ..)| *there == id);
    let replaceable = |header: &Result<Header>| header.as_ref().is_ok_and(|h| h.generation < generation);
    match same {
        Some((_, location, header)) if !replaceable(header) => {
            let text = "a checkpoint of this id is there already: nothing was written";
            Err(Error::external(text).final_().at("checkpoint", id).at("file", location))
        }
        _ => Ok(()),
    }
}

/// A directory for the checkpoints of one job, laid out as Flink names it: `chk-<id>/_metadata`, savepoints
/// `savepoint-<id>/_metadata`.
///
/// Written to a temporary file, which is synced and renamed, then its directory is synced. The fence is looked at
/// before the write: it keeps out an owner that comes back later, not one that writes in the same instant.
#[derive(Clone, Debug)]
pub struct LocalDirectory(PathBuf);

const METADATA: &str = "_metadata";
const PREFIXES: [&str; 2] = ["chk-", "savepoint-"];

impl LocalDirectory {
    /// The store in this directory; made with the first write.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self(directory.into())
    }

    /// Every manifest with its header; directories without a manifest are what a crash left.
    fn headers(&self) -> Result<(Vec<Found>, Option<CheckpointId>)> {
        let entries = match fs::read_dir(&self.0) {
            Ok(entries) => entries,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok((Vec::new(), None)),
            Err(e) => return Err(Error::io("list the checkpoints", self.0.display(), &e)),
        };
        let (mut found, mut highest) = (Vec::new(), None);
        for entry in entries {
            let entry = entry.map_err(|e| Error::io("list the checkpoints", self.0.display(), &e))?;
            let Some(id) = entry.file_name().to_str().and_then(checkpoint_of) else { continue };
            highest = highest.max(Some(id));
            let path = entry.path().join(METADATA);
            match header_of(&path) {
                Ok(None) => {}
                Ok(Some(header)) => found.push((id, location(&path), Ok(header))),
                Err(error) => found.push((id, location(&path), Err(error))),
            }
        }
        found.sort_by_key(|(id, location, _)| std::cmp::Reverse((*id, location.clone())));
        Ok((found, highest))
    }
}

impl CheckpointStore for LocalDirectory {
    fn write(&mut self, manifest: &Manifest) -> Result<Location> {
        check_fence(manifest, &self.headers()?.0)?;
        let prefix = if manifest.kind == CheckpointKind::Checkpoint { PREFIXES[0] } else { PREFIXES[1] };
        let directory = self.0.join(format!("{prefix}{}", manifest.checkpoint));
        fs::create_dir_all(&directory).map_err(|e| Error::io("make the directory", directory.display(), &e))?;
        let temporary = directory.join(format!(".{METADATA}.{}.tmp", manifest.generation));
        let path = directory.join(METADATA);
        let written = write_synced(&temporary, &manifest.encode()?).and_then(|()| {
            fs::rename(&temporary, &path).map_err(|e| Error::io("write the checkpoint", path.display(), &e))
        });
        if let Err(error) = written {
            // What is left is ignored by every reader; the first error is the one to tell.
            fs::remove_file(&temporary).ok();
            return Err(error);
        }
        sync_directory(&directory)?;
        sync_directory(&self.0)?;
        Ok(location(&path))
    }

    fn latest(&self) -> Result<Latest> {
        let (found, highest) = self.headers()?;
        let mut latest = newest(found, |location| self.read(location));
        latest.highest = latest.highest.max(highest);
        Ok(latest)
    }

    /// Takes the file or its directory.
    fn read(&self, location: &Location) -> Result<Manifest> {
        let given = Path::new(&location.0);
        let path = if given.is_dir() { given.join(METADATA) } else { given.to_owned() };
        let bytes = fs::read(&path).map_err(|e| Error::io("read the checkpoint", path.display(), &e))?;
        Manifest::decode(&bytes).map_err(|e| e.at("file", path.display()))
    }
}

fn checkpoint_of(name: &str) -> Option<CheckpointId> {
    let digits = PREFIXES.iter().find_map(|prefix| name.strip_prefix(prefix))?;
    digits.parse().ok().map(CheckpointId)
}

fn location(path: &Path) -> Location {
    Location(path.display().to_string())
}

/// The header of a manifest; `None` where there is no such file.
fn header_of(path: &Path) -> Result<Option<Header>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return Ok(None),
        Err(e) => return Err(Error::io("read the checkpoint", path.display(), &e)),
    };
    let mut bytes = Vec::with_capacity(HEADER_BYTES);
    file.take(HEADER_BYTES as u64)
        .read_to_end(&mut bytes)
        .map_err(|e| Error::io("read the checkpoint", path.display(), &e))?;
    Header::decode(&bytes).map(Some).map_err(|e| e.at("file", path.display()))
}

fn write_synced(path: &Path, bytes: &[u8]) -> Result<()> {
    let error = |e: std::io::Error| Error::io("write the checkpoint", path.display(), &e);
    let mut file = File::create(path).map_err(error)?;
    file.write_all(bytes).map_err(error)?;
    file.sync_all().map_err(error)
}

fn sync_directory(path: &Path) -> Result<()> {
    let synced = File::open(path).and_then(|directory| directory.sync_all());
    synced.map_err(|e| Error::io("sync the directory", path.display(), &e))
}

/// A store in memory: for tests, the simulator, and jobs that only have to survive their own failures. It holds bytes,
/// so that what is read is what was encoded. Clones share it.
///
/// It keeps savepoints, and one checkpoint (Flink's default of `execution.checkpointing.num-retained`): a newer one
/// takes the place of those before it.
#[derive(Clone, Debug, Default)]
pub struct InMemory(Arc<Mutex<Manifests>>);

#[derive(Debug, Default)]
struct Manifests {
    bytes: BTreeMap<CheckpointId, Vec<u8>>,
    /// The highest id ever written.
    highest: Option<CheckpointId>,
}

impl InMemory {
    fn lock(&self) -> MutexGuard<'_, Manifests> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Manifests {
    fn found(&self) -> Vec<Found> {
        self.bytes.iter().rev().map(|(id, bytes)| (*id, Location(id.to_string()), Header::decode(bytes))).collect()
    }

    /// Drops checkpoints behind the newest. What was just written stays, also where another owner's is newer.
    fn retain(&mut self, written: CheckpointId) {
        let header = |bytes: &Vec<u8>| Header::decode(bytes).ok();
        let checkpoints = self.bytes.values().filter_map(header).filter(|h| h.kind == CheckpointKind::Checkpoint);
        let Some(newest) = checkpoints.map(|h| (h.generation, h.checkpoint)).max() else { return };
        self.bytes.retain(|id, bytes| {
            let is_behind = |h: Header| {
                h.kind == CheckpointKind::Checkpoint && (h.generation, h.checkpoint) < newest && *id != written
            };
            !header(bytes).is_some_and(is_behind)
        });
    }
}

impl CheckpointStore for InMemory {
    fn write(&mut self, manifest: &Manifest) -> Result<Location> {
        let mut manifests = self.lock();
        check_fence(manifest, &manifests.found())?;
        manifests.bytes.insert(manifest.checkpoint, manifest.encode()?);
        manifests.highest = manifests.highest.max(Some(manifest.checkpoint));
        manifests.retain(manifest.checkpoint);
        Ok(Location(manifest.checkpoint.to_string()))
    }

    fn latest(&self) -> Result<Latest> {
        let (found, highest) = {
            let manifests = self.lock();
            (manifests.found(), manifests.highest)
        };
        Ok(Latest { highest, ..newest(found, |location| self.read(location)) })
    }

    fn read(&self, location: &Location) -> Result<Manifest> {
        let manifests = self.lock();
        let bytes = location.0.parse().ok().and_then(|id| manifests.bytes.get(&CheckpointId(id)));
        let bytes = bytes.ok_or_else(|| Error::user("there is no such checkpoint").at("checkpoint", location))?;
        Manifest::decode(bytes).map_err(|e| e.at("checkpoint", location))
    }
}
