//! The extension module of the wheel, `flott._engine`: one of the edges, which know everybody.
//!
//! Lives here: what Python can call, the registry, and the processes of a job. Does not live here: Python functions as
//! operators, and the builder of plans (`flott-python`).

mod job;
mod paced;
mod registry;
mod testing;
mod workers;

use flott_connectors::collection::CollectionConfig;
use flott_core::{Error, Result};
use flott_python::TypeInfo;
use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::workers::Workers;

/// The engine of flott; its Python side is the package around it.
#[pymodule]
mod _engine {
    use super::*;

    #[pymodule_export]
    use flott_python::GraphBuilder;

    /// The environment variable with what a worker must know.
    #[pymodule_export]
    const SEAT_VARIABLE: &str = flott_runtime::processes::SEAT_VARIABLE;

    /// Runs the plan of these bytes to its end. `workers`: a `flott._workers.Workers`, or `None` for no process but
    /// this one. `resume`: from the newest checkpoint in its directory, if there is one.
    #[pyfunction]
    #[pyo3(signature = (plan, workers = None, resume = false))]
    fn execute(py: Python<'_>, plan: &[u8], workers: Option<Workers>, resume: bool) -> PyResult<()> {
        job::execute(py, plan, workers, resume).map(drop)
    }

    /// As `execute`. Returns the values of the type (JSON) that the plan's sink `collect` has seen.
    #[pyfunction]
    #[pyo3(signature = (plan, of, workers = None, resume = false))]
    fn collect<'py>(
        py: Python<'py>,
        plan: &[u8],
        of: &str,
        workers: Option<Workers>,
        resume: bool,
    ) -> PyResult<Bound<'py, PyList>> {
        let values = PyList::empty(py);
        let of = read_type(of).map_err(|e| flott_python::raise(&e))?;
        for batch in job::execute(py, plan, workers, resume)? {
            let part = flott_python::to_python(py, batch.columns().columns(), batch.num_rows(), &of);
            values.call_method1("extend", (part.map_err(|e| flott_python::raise(&e))?,))?;
        }
        Ok(values)
    }

    /// The configuration (JSON) of the source `collection` with these values of a type (JSON).
    #[pyfunction]
    fn collection(values: &Bound<'_, PyList>, of: &str, splits: u32) -> PyResult<String> {
        super::collection(values, of, splits).map_err(|e| flott_python::raise(&e))
    }

    /// Hosts tasks of a job that another process runs, until that has ended. `seat`: what was in `SEAT_VARIABLE`.
    #[pyfunction]
    fn worker(py: Python<'_>, seat: &str) -> PyResult<()> {
        py.detach(|| workers::serve(seat)).map_err(|e| flott_python::raise(&e))
    }

    #[pymodule_export]
    use super::testing::_testing;
}

fn collection(values: &Bound<'_, PyList>, of: &str, splits: u32) -> Result<String> {
    let of = read_type(of)?;
    let columns = flott_python::from_python(values, &of)
        .map_err(|misfit| misfit.error().at("value", misfit.row).at("operator", "from_collection"))?;
    let schema = of.schema(None)?;
    let batch = flott_core::Batch::of(schema.clone(), columns, values.len())?;
    let config = CollectionConfig::new(&schema, &[batch.columns().clone()], splits)?;
    serde_json::to_string(&config).map_err(|e| Error::internal(format!("cannot encode the values: {e}")))
}

fn read_type(json: &str) -> Result<TypeInfo> {
    serde_json::from_str(json).map_err(|e| Error::internal(format!("a type cannot be read: {e}: {json}")))
}
