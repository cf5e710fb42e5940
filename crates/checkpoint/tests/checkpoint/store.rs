//! Stores: what is written is found again, damage is told, other generations are kept out.

use std::fs;
use std::path::PathBuf;

use flott_checkpoint::{CheckpointStore, InMemory, LocalDirectory, Location, Manifest, store_of};
use flott_core::{CheckpointId, CheckpointKind, Config};
use tempfile::TempDir;

use crate::graph::{hash, job, manifest};

fn sample(id: u64, generation: u64) -> Manifest {
    let job = job(&[("source", 2), ("count sink", 3)], &[(0, 1, hash())]);
    Manifest { checkpoint: CheckpointId(id), generation, ..manifest(&job, &[]) }
}

fn newest(store: &dyn CheckpointStore) -> Option<u64> {
    store.latest().unwrap().manifest.map(|(_, manifest)| manifest.checkpoint.0)
}

fn both(check: impl Fn(&mut dyn CheckpointStore)) {
    let directory = TempDir::new().unwrap();
    check(&mut LocalDirectory::new(directory.path().join("not/yet/there")));
    check(&mut InMemory::default());
}

#[test]
fn the_newest_is_found() {
    both(|store| {
        let empty = store.latest().unwrap();
        assert!(empty.manifest.is_none() && empty.broken.is_empty() && empty.highest.is_none());
        for id in [1, 2, 10, 9] {
            let location = store.write(&sample(id, 1)).unwrap();
            assert_eq!(store.read(&location).unwrap(), sample(id, 1));
        }
        let latest = store.latest().unwrap();
        let (location, manifest) = latest.manifest.unwrap();
        assert_eq!(manifest, sample(10, 1));
        assert_eq!(store.read(&location).unwrap(), manifest);
        assert_eq!((latest.highest, latest.generation), (Some(CheckpointId(10)), 1));
    });
}

#[test]
fn memory_holds_the_newest_checkpoint_and_all_savepoints() {
    let mut store = InMemory::default();
    let savepoint = store.write(&Manifest { kind: CheckpointKind::Savepoint, ..sample(1, 1) }).unwrap();
    let old = store.write(&sample(2, 1)).unwrap();
    let stop = store.write(&Manifest { kind: CheckpointKind::Stop, ..sample(3, 1) }).unwrap();
    for id in 4..100 {
        store.write(&sample(id, 1)).unwrap();
    }
    assert_eq!((newest(&store), store.latest().unwrap().highest), (Some(99), Some(CheckpointId(99))));
    assert_eq!((store.read(&savepoint).unwrap().checkpoint.0, store.read(&stop).unwrap().checkpoint.0), (1, 3));
    for gone in [old, Location("98".into())] {
        assert_eq!(store.read(&gone).unwrap_err().message(), "there is no such checkpoint");
    }
    // What the next owner writes replaces what the one before it wrote, whatever the ids.
    store.write(&sample(50, 2)).unwrap();
    assert_eq!((newest(&store), store.latest().unwrap().highest), (Some(50), Some(CheckpointId(99))));
    assert!(store.read(&Location("99".into())).is_err());
}

#[test]
fn savepoints_are_kept_but_not_recovered_from() {
    both(|store| {
        store.write(&sample(1, 1)).unwrap();
        let location = store.write(&Manifest { kind: CheckpointKind::Savepoint, ..sample(2, 1) }).unwrap();
        assert_eq!(newest(store), Some(1));
        assert_eq!(store.latest().unwrap().highest, Some(CheckpointId(2)));
        assert_eq!(store.read(&location).unwrap().kind, CheckpointKind::Savepoint);
        store.write(&Manifest { kind: CheckpointKind::Stop, ..sample(3, 1) }).unwrap();
        assert_eq!(newest(store), Some(3));
    });
}

#[test]
fn generations_are_fenced() {
    both(|store| {
        store.write(&sample(7, 1)).unwrap();
        let error = store.write(&sample(7, 1)).unwrap_err();
        assert!(error.message().contains("there already"), "{error}");
        store.write(&sample(9, 1)).unwrap();
        // The next owner took over at 6 and did not see 7 and 9, written late.
        store.write(&sample(7, 2)).unwrap();
        assert_eq!(newest(store), Some(7), "what the old owner wrote is never the newest");
        let error = store.write(&sample(10, 1)).unwrap_err();
        assert!(error.message().contains("generation 2 has taken this job over from generation 1"), "{error}");
        let latest = store.latest().unwrap();
        assert_eq!((latest.highest, latest.generation), (Some(CheckpointId(9)), 2));
    });
}

/// Three checkpoints, the newest spoilt.
fn spoilt(spoil: impl Fn(Vec<u8>) -> Vec<u8>) -> (TempDir, PathBuf, LocalDirectory) {
    let directory = TempDir::new().unwrap();
    let mut store = LocalDirectory::new(directory.path());
    for id in 1..=3 {
        store.write(&sample(id, 1)).unwrap();
    }
    let file = directory.path().join("chk-3").join("_metadata");
    fs::write(&file, spoil(fs::read(&file).unwrap())).unwrap();
    (directory, file, store)
}

#[test]
fn a_broken_newest_is_reported_beside_the_newest_that_can_be_read() {
    type Spoil = fn(Vec<u8>) -> Vec<u8>;
    let cases: [(&str, Spoil); 5] = [
        ("fewer than its header", |_| Vec::new()),
        ("bytes after its header, found", |mut bytes| {
            bytes.truncate(bytes.len() / 2);
            bytes
        }),
        ("header of the checkpoint is damaged", |mut bytes| {
            bytes[16] ^= 1;
            bytes
        }),
        ("checksum does not match", |mut bytes| {
            bytes[500] ^= 1;
            bytes
        }),
        ("format version 1, found version 77", |mut bytes| {
            bytes[4] = 77;
            bytes
        }),
    ];
    for (expected, spoil) in cases {
        let (_directory, file, store) = spoilt(spoil);
        let latest = store.latest().unwrap();
        assert_eq!(latest.manifest.as_ref().unwrap().1, sample(2, 1), "{expected}");
        let [(id, error)] = latest.broken.as_slice() else { panic!("one is broken: {:?}", latest.broken) };
        assert!(error.message().contains(expected), "{error}");
        assert_eq!((*id, error.place("file")), (CheckpointId(3), Some(file.to_str().unwrap())));
        // Nobody goes back behind it unasked.
        for behind in [None, Some(CheckpointId(2))] {
            let refused = latest.check_nothing_newer_is_broken(behind).unwrap_err();
            assert!(refused.message().contains(expected), "{refused}");
            assert!(refused.message().ends_with("name one in execution.state-recovery.path"), "{refused}");
            assert_eq!(refused.place("file"), Some(file.to_str().unwrap()));
        }
        assert_eq!(latest.check_nothing_newer_is_broken(Some(CheckpointId(4))), Ok(()));
        assert_eq!(latest.highest, Some(CheckpointId(3)), "its id is not given out again");
    }
}

#[test]
fn a_broken_one_is_never_overwritten() {
    let (_directory, file, mut store) = spoilt(|_| b"something else".to_vec());
    assert!(store.write(&sample(3, 5)).unwrap_err().message().contains("nothing was written"));
    assert_eq!(fs::read(file).unwrap(), b"something else");
}

#[test]
fn leftovers_are_ignored() {
    let directory = TempDir::new().unwrap();
    let mut store = LocalDirectory::new(directory.path());
    store.write(&sample(1, 1)).unwrap();
    for name in ["chk-5", "chk-x", "chk-", "shared", "savepoint-9"] {
        fs::create_dir(directory.path().join(name)).unwrap();
    }
    fs::write(directory.path().join("chk-5/._metadata.1.tmp"), b"half").unwrap();
    fs::write(directory.path().join("chk-6"), b"a file").unwrap();
    let latest = store.latest().unwrap();
    assert_eq!(latest.manifest.unwrap().1, sample(1, 1));
    assert_eq!(latest.highest, Some(CheckpointId(9)));
    store.write(&sample(5, 1)).unwrap();
    assert_eq!(newest(&store), Some(5));
}

#[test]
fn a_location_is_a_file_or_its_directory() {
    let directory = TempDir::new().unwrap();
    let mut store = LocalDirectory::new(directory.path());
    store.write(&sample(1, 1)).unwrap();
    let of = |path: PathBuf| Location(path.to_str().unwrap().to_owned());
    for path in [directory.path().join("chk-1"), directory.path().join("chk-1/_metadata")] {
        assert_eq!(store.read(&of(path)).unwrap(), sample(1, 1));
    }
    let missing = directory.path().join("chk-8/_metadata");
    let error = store.read(&of(missing.clone())).unwrap_err();
    assert_eq!(error.place("file"), Some(missing.to_str().unwrap()));
}

/// A place that cannot be written: an error with the path, what is there stays valid.
#[test]
fn a_directory_that_is_none() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("file");
    fs::write(&file, b"x").unwrap();
    let mut store = LocalDirectory::new(&file);
    let error = store.write(&sample(1, 1)).unwrap_err();
    assert_eq!(error.place("file"), Some(file.to_str().unwrap()));
    assert!(store.latest().is_err());
}

#[test]
fn the_store_of_a_job_is_where_its_options_say() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().display();
    for (dir, is_there) in [(path.to_string(), 1), (format!("file://{path}"), 2), (String::new(), 2)] {
        let mut config = Config::default();
        config.set("execution.checkpointing.dir", &dir).unwrap();
        let mut store = store_of(&config).unwrap();
        let id = newest(&*store).unwrap_or_default() + 1;
        store.write(&sample(id, id)).unwrap();
        assert_eq!(newest(&*store), Some(id), "{dir}");
        // Without a directory: nowhere else.
        assert_eq!(newest(&LocalDirectory::new(directory.path())), Some(is_there), "{dir}");
    }
}
