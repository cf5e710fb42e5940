//! [`StreamExecutionEnvironment`]: the DataStream API's, with something to run jobs with.

use std::ops::Deref;
use std::sync::Arc;

use flott_datastream::Executor;

use crate::LocalExecutor;

/// The beginning of every program: [`flott_datastream::StreamExecutionEnvironment`], whose methods it has, with an
/// executor.
#[derive(Clone)]
pub struct StreamExecutionEnvironment(flott_datastream::StreamExecutionEnvironment);

impl StreamExecutionEnvironment {
    /// An environment whose jobs run in this process.
    pub fn new() -> Self {
        Self::with_executor(Arc::new(LocalExecutor::default()))
    }

    /// An environment whose jobs `executor` runs.
    pub fn with_executor(executor: Arc<dyn Executor>) -> Self {
        Self(flott_datastream::StreamExecutionEnvironment::with_executor(executor))
    }
}

impl Default for StreamExecutionEnvironment {
    fn default() -> Self {
        Self::new()
    }
}

impl Deref for StreamExecutionEnvironment {
    type Target = flott_datastream::StreamExecutionEnvironment;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}
