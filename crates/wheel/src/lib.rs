//! The extension module of the wheel, `flott._engine`: one of the edges, which know everybody.
//!
//! Lives here: what Python can call, and the registry. Does not live here: Python functions as operators, and the
//! builder of plans (`flott-python`).

mod job;
mod registry;
mod testing;

use flott_connectors::collection::CollectionConfig;
use flott_core::{Error, Result};
use flott_python::TypeInfo;
use pyo3::prelude::*;
use pyo3::types::PyList;

/// The engine of flott; its Python side is the package around it.
#[pymodule]
mod _engine {
    use super::*;

    #[pymodule_export]
    use flott_python::GraphBuilder;

    /// Runs the plan of these bytes to its end.
    #[pyfunction]
    fn execute(py: Python<'_>, plan: &[u8]) -> PyResult<()> {
        job::execute(py, plan).map(drop)
    }

    /// Runs a plan to its end. Returns the values of the type (JSON) that its sink `collect` has seen.
    #[pyfunction]
    fn collect<'py>(py: Python<'py>, plan: &[u8], of: &str) -> PyResult<Bound<'py, PyList>> {
        let values = PyList::empty(py);
        let of = read_type(of).map_err(|e| flott_python::raise(&e))?;
        for batch in job::execute(py, plan)? {
            let columns = batch.columns().columns();
            let part = flott_python::to_python(py, columns, batch.num_rows(), &of);
            values.call_method1("extend", (part.map_err(|e| flott_python::raise(&e))?,))?;
        }
        Ok(values)
    }

    /// The configuration (JSON) of the source `collection` with these values of a type (JSON).
    #[pyfunction]
    fn collection(values: &Bound<'_, PyList>, of: &str, splits: u32) -> PyResult<String> {
        super::collection(values, of, splits).map_err(|e| flott_python::raise(&e))
    }

    /// Is a Python worker: hosts tasks until whoever started it says so.
    #[pyfunction]
    #[expect(clippy::needless_pass_by_value, reason = "PyO3 makes arguments out of Python objects")]
    fn worker(py: Python<'_>, arguments: Vec<String>) -> PyResult<()> {
        py.detach(|| job::worker(&arguments)).map_err(|e| flott_python::raise(&e))
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
