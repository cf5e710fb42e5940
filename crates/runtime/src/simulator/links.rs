//! Connections between simulated hosts: each two of them share one in memory. Some are slow, some have little room.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow_schema::SchemaRef;
use flott_core::{Error, Result};
use flott_plan::{ChannelId, HostId};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::{Shared, lock};
use crate::channel::{ChannelQueue, ChannelSender};
use crate::deploy::RemoteChannels;
use crate::network::Connection;
use crate::network::memory::{MemoryEnd, link};

/// Bytes on their way in one direction of a connection at most: less than a frame, some frames, many.
const CAPACITIES: [usize; 3] = [200, 4 << 10, 256 << 10];

/// A connection goes on once in so many turns.
const TURNS: [u32; 4] = [1, 1, 3, 30];

/// The connections of one attempt.
#[derive(Default)]
pub(super) struct Links {
    links: Vec<Link>,
    /// Hosts whose connection has ended, and why; they have not noticed yet.
    lost: Shared<Vec<(HostId, Error)>>,
}

struct Link {
    hosts: [HostId; 2],
    ends: [MemoryEnd; 2],
    turns: u32,
}

/// Something a connection can do: at this end of it.
#[derive(Clone, Copy)]
pub(super) enum LinkMove {
    /// The end writes what it has and reads what has arrived.
    Run(usize, usize),
    /// Bytes arrive.
    Arrive(usize, usize),
}

impl Links {
    /// A connection for each two of `hosts`.
    pub(super) fn new(hosts: &BTreeSet<HostId>, seed: u64) -> Self {
        let mut random = SmallRng::seed_from_u64(seed);
        let pairs = hosts.iter().flat_map(|a| hosts.iter().filter(move |b| a < b).map(move |b| [*a, *b]));
        let links = pairs.map(|hosts| Link {
            hosts,
            ends: link(hosts[0], hosts[1], CAPACITIES[random.random_range(0..CAPACITIES.len())]),
            turns: TURNS[random.random_range(0..TURNS.len())],
        });
        Self { links: links.collect(), lost: Shared::default() }
    }

    /// Begins to read and write, once the channels are there.
    pub(super) fn start(&self) -> Result<()> {
        for link in &self.links {
            for (host, end) in link.hosts.into_iter().zip(&link.ends) {
                let lost = Arc::clone(&self.lost);
                let on_end = move |result: Result<()>| lock(&lost).extend(result.err().map(|error| (host, error)));
                end.connection().start(|_| (), on_end)?;
            }
        }
        Ok(())
    }

    pub(super) fn moves(&self) -> impl Iterator<Item = LinkMove> + '_ {
        self.links.iter().enumerate().flat_map(|(at, link)| {
            link.ends.iter().enumerate().flat_map(move |(side, end)| {
                let run = end.is_woken().then_some(LinkMove::Run(at, side));
                let arrive = (end.arriving() > 0).then_some(LinkMove::Arrive(at, side));
                run.into_iter().chain(arrive)
            })
        })
    }

    /// Lets a connection go on, or break.
    pub(super) fn go_on(&mut self, what: LinkMove, breaks: bool, random: &mut SmallRng) {
        let (LinkMove::Run(at, side) | LinkMove::Arrive(at, side)) = what;
        let link = &mut self.links[at];
        if breaks {
            return link.ends[side].cut();
        }
        if random.random_range(0..link.turns) > 0 {
            return;
        }
        let end = &mut link.ends[side];
        match what {
            LinkMove::Run(..) => end.run(),
            LinkMove::Arrive(..) => {
                let all = end.arriving();
                end.arrive(if random.random() { all } else { random.random_range(1..=all) });
            }
        }
    }

    pub(super) fn has_lost(&self) -> bool {
        !lock(&self.lost).is_empty()
    }

    /// The next host to notice that a connection of its has ended.
    pub(super) fn lose(&self) -> Option<(HostId, Error)> {
        lock(&self.lost).pop()
    }

    /// Batches of a channel on their way from one host to another; none where the connection is over.
    pub(super) fn on_the_way(&self, channel: ChannelId, from: HostId, to: HostId) -> u64 {
        match (self.end(from, to), self.end(to, from)) {
            (Some(sender), Some(receiver)) if !sender.is_over() && !receiver.is_over() => {
                sender.connection().sent(channel) - receiver.connection().received(channel)
            }
            _ => 0,
        }
    }

    /// The end in `host` of the connection to `peer`.
    fn end(&self, host: HostId, peer: HostId) -> Option<&MemoryEnd> {
        self.links.iter().find_map(|link| match link.hosts {
            [a, b] if [a, b] == [host, peer] => Some(&link.ends[0]),
            [a, b] if [b, a] == [host, peer] => Some(&link.ends[1]),
            _ => None,
        })
    }
}

/// Channels of one host over the connections.
pub(super) struct Remote<'a>(pub(super) &'a Links, pub(super) HostId);

impl Remote<'_> {
    fn connection(&self, peer: HostId) -> Result<&Connection> {
        let end = self.0.end(self.1, peer);
        Ok(end.ok_or_else(|| Error::internal("a channel between hosts without a connection"))?.connection())
    }
}

impl RemoteChannels for Remote<'_> {
    fn open_receiver(&self, peer: HostId, id: ChannelId, schema: &SchemaRef, credit: u32) -> Result<Arc<ChannelQueue>> {
        self.connection(peer)?.open_receiver(id, Arc::clone(schema), credit)
    }

    fn open_sender(&self, peer: HostId, channel: ChannelId) -> Result<ChannelSender> {
        self.connection(peer)?.open_sender(channel)
    }
}
