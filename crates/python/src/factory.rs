//! Makes fused operators: [`PythonFactory`].

use std::sync::Arc;

use flott_core::{Operator, OperatorFactory, OperatorInfo, Result, Spec};

use crate::MemberConfig;
use crate::config::FACTORY;
use crate::run::PythonRun;

/// The factory of Python operators, `python` in a registry. One function alone is a run of one.
///
/// In a run only the last member's rows leave it, so a run ends where a member has another reader.
#[derive(Clone, Copy, Debug, Default)]
pub struct PythonFactory;

impl PythonFactory {
    /// Its name in a registry.
    pub const NAME: &'static str = FACTORY;
}

impl OperatorFactory for PythonFactory {
    fn create(&self, spec: &Spec, info: &Arc<OperatorInfo>) -> Result<Box<dyn Operator>> {
        self.fuse(&[(spec.clone(), info.clone())])
    }

    fn language(&self) -> Option<&'static str> {
        Some("python")
    }

    fn fuse(&self, members: &[(Spec, Arc<OperatorInfo>)]) -> Result<Box<dyn Operator>> {
        let members = members.iter().map(|(spec, info)| Ok((MemberConfig::read(spec)?, info.clone())));
        Ok(Box::new(PythonRun::new(members.collect::<Result<_>>()?)?))
    }
}
