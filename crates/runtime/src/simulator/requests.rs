//! Requests of simulated tasks: they wait here until the simulation answers one.

use flott_core::{Batch, RequestFuture, Result};
use rand::Rng;
use rand::rngs::SmallRng;

use super::{Shared, lock};
use crate::environment::RequestRunner;

type Pending = Vec<(RequestFuture, Box<dyn FnOnce(Result<Batch>) + Send>)>;

/// Requests in flight.
#[derive(Clone, Default)]
pub(super) struct Requests(Shared<Pending>);

impl RequestRunner for Requests {
    fn start(&self, future: RequestFuture, done: Box<dyn FnOnce(Result<Batch>) + Send>) {
        lock(&self.0).push((future, done));
    }
}

impl Requests {
    pub(super) fn are_asked(&self) -> bool {
        !lock(&self.0).is_empty()
    }

    /// Answers one of them.
    pub(super) fn answer(&self, random: &mut SmallRng) {
        let (future, done) = {
            let mut asked = lock(&self.0);
            let which = random.random_range(0..asked.len());
            asked.remove(which)
        };
        // A future of the simulation waits for nothing but itself.
        done(futures::executor::block_on(future));
    }
}
