//! A sink that counts rows and forgets them: `blackhole`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flott_core::{Batch, OperatorInfo, Registry, Result, Sink, SinkWriter, Spec};

/// Its name in the registry.
pub const NAME: &str = "blackhole";

/// The sink. Clones share the count.
#[derive(Clone, Debug, Default)]
pub struct Blackhole(Arc<AtomicU64>);

impl Blackhole {
    /// The sink, for a plan.
    pub fn spec() -> Result<Spec> {
        Spec::new(NAME, &())
    }

    /// Puts this very sink into `registry`, so that its count can be read.
    pub fn register(&self, registry: &mut Registry) {
        let sink = self.clone();
        registry.add_sink(NAME, Arc::new(move |_| Ok(Box::new(sink.clone()))));
    }

    /// Rows it has swallowed, in this process.
    pub fn rows(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Puts the sink into `registry`.
pub fn register(registry: &mut Registry) {
    Blackhole::default().register(registry);
}

impl Sink for Blackhole {
    fn writer(&self, _info: &Arc<OperatorInfo>, _restored: &[Vec<u8>]) -> Result<Box<dyn SinkWriter>> {
        Ok(Box::new(self.clone()))
    }
}

impl SinkWriter for Blackhole {
    fn write(&mut self, batch: &Batch) -> Result<()> {
        self.0.fetch_add(batch.num_rows() as u64, Ordering::Relaxed);
        Ok(())
    }
}
