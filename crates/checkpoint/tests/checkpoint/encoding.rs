//! The bytes of a manifest: there and back, frozen, and every damage refused.

use flott_checkpoint::{HEADER_BYTES, Header, Manifest};
use flott_core::CheckpointKind;
use flott_plan::Partitioning;
use xxhash_rust::xxh3::xxh3_64;

use crate::graph::{hash, job, manifest};

fn sample() -> Manifest {
    let job = job(&[("source", 2), ("count sink", 3)], &[(0, 1, hash())]);
    let mut sample = manifest(&job, &[(0, 1, 2)]);
    sample.vertices[0].tasks[1] = flott_checkpoint::TaskState::Finished;
    sample
}

#[test]
fn there_and_back() {
    for kind in [CheckpointKind::Checkpoint, CheckpointKind::Savepoint, CheckpointKind::Stop] {
        let manifest = Manifest { kind, ..sample() };
        let bytes = manifest.encode().unwrap();
        assert_eq!(Manifest::decode(&bytes).unwrap(), manifest);
        let header = Header::decode(&bytes[..HEADER_BYTES]).unwrap();
        assert_eq!((header.kind, header.generation, header.checkpoint.0), (kind, 2, 7));
        assert_eq!(header.body_bytes as usize, bytes.len() - HEADER_BYTES);
    }
}

/// Written by format version 1; must be readable, to the same manifest, by every later one. Never written anew: a new
/// version gets a file of its own.
#[test]
fn golden_version_1() {
    let golden = include_bytes!("../golden/manifest_v1.bin");
    assert_eq!(Manifest::decode(golden).unwrap(), sample());
    assert_eq!(sample().encode().unwrap(), golden, "the encoding changed: raise FORMAT_VERSION, keep the old file");
}

#[test]
fn every_truncation_is_refused() {
    let bytes = sample().encode().unwrap();
    for length in 0..bytes.len() {
        let error = Manifest::decode(&bytes[..length]).unwrap_err();
        assert!(error.message().contains("cut off") || error.message().contains("expected"), "{length}: {error}");
    }
    let longer = [&bytes[..], b"x"].concat();
    assert!(Manifest::decode(&longer).unwrap_err().message().contains("damaged"));
}

#[test]
fn every_flipped_byte_is_refused() {
    let bytes = sample().encode().unwrap();
    for at in 0..bytes.len() {
        let mut flipped = bytes.clone();
        flipped[at] ^= 0x10;
        Manifest::decode(&flipped).unwrap_err();
    }
}

/// Bytes that a checksum vouches for but that are no manifest: refused without a panic or a large allocation.
#[test]
fn any_body_under_a_right_checksum_does_not_panic() {
    let good = sample().encode().unwrap();
    for seed in 0..2_000_u64 {
        let mut bytes = good.clone();
        let mut random = flott_core::key::fmix64(seed + 1);
        for _ in 0..1 + seed % 4 {
            random = flott_core::key::fmix64(random);
            let at = HEADER_BYTES + random as usize % (bytes.len() - HEADER_BYTES);
            bytes[at] = (random >> 40) as u8 | 0x80;
        }
        let body = xxh3_64(&bytes[HEADER_BYTES..]);
        bytes[31..39].copy_from_slice(&body.to_le_bytes());
        let header = xxh3_64(&bytes[..39]);
        bytes[39..47].copy_from_slice(&header.to_le_bytes());
        drop(Manifest::decode(&bytes));
    }
}

#[test]
fn unknown_versions_and_other_files_are_refused_by_name() {
    let mut future = sample().encode().unwrap();
    future[4] = 9;
    let error = Manifest::decode(&future).unwrap_err();
    assert!(error.message().contains("format version 1, found version 9"), "{error}");
    let error = Manifest::decode(b"PK\x03\x04 an archive, which is a file of another kind").unwrap_err();
    assert!(error.message().contains("expected a checkpoint of flott"), "{error}");
    assert!(Manifest::decode(b"").is_err());
}

/// Every kind of partitioning is part of the format.
#[test]
fn partitionings_survive() {
    use Partitioning::{Broadcast, Forward, Global, Rebalance, Rescale, Shuffle};
    for partitioning in [Forward, hash(), Rebalance, Rescale, Broadcast, Shuffle, Global] {
        let job = job(&[("source", 2), ("sink", 2)], &[(0, 1, partitioning)]);
        let manifest = manifest(&job, &[]);
        assert_eq!(Manifest::decode(&manifest.encode().unwrap()).unwrap(), manifest);
    }
}
