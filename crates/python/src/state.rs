//! Python objects as keyed state: [`ObjectColumn`].
//!
//! An object lives as an object from call to call. It becomes bytes in `flush`, all under one attachment of the
//! interpreter; what was restored stays bytes until a row needs it. Neither taking nor restoring a snapshot needs
//! the interpreter then, and an object is never shared with another thread.

use flott_core::state::{StateColumn, StateKind};
use flott_core::{Error, Result, Slot};
use pyo3::prelude::*;

use crate::{dynamic, interpreter};

/// One Python object a slot; `None` is no value, as in PyFlink.
#[derive(Default)]
pub(crate) struct ObjectColumn {
    cells: Vec<Cell>,
    cleared: Vec<Slot>,
}

/// Empty where it has neither. With both, the bytes are those of the object.
#[derive(Default)]
struct Cell {
    object: Option<Py<PyAny>>,
    bytes: Option<Box<[u8]>>,
}

impl Cell {
    fn is_empty(&self) -> bool {
        self.object.is_none() && self.bytes.is_none()
    }
}

impl ObjectColumn {
    /// Takes the object out to be worked with; `None` if there is none. [`ObjectColumn::put`] brings it back.
    pub(crate) fn take<'py>(&mut self, py: Python<'py>, slot: Slot) -> Result<Bound<'py, PyAny>> {
        let cell = std::mem::take(&mut self.cells[slot.index()]);
        match (cell.object, cell.bytes) {
            (Some(object), _) => Ok(object.into_bound(py)),
            (None, Some(bytes)) => dynamic::decode(py, &bytes).map_err(|e| interpreter::exception(py, &e)),
            (None, None) => Ok(py.None().into_bound(py)),
        }
    }

    /// Sets the object; Python's `None` empties the slot.
    pub(crate) fn put(&mut self, slot: Slot, object: Bound<'_, PyAny>) {
        let object = if object.is_none() {
            self.cleared.push(slot);
            None
        } else {
            Some(object.unbind())
        };
        self.cells[slot.index()] = Cell { object, bytes: None };
    }

    /// Objects become bytes, and stay objects.
    pub(crate) fn encode_all(&mut self, py: Python<'_>) -> Result<()> {
        for cell in self.cells.iter_mut().filter(|cell| cell.bytes.is_none()) {
            if let Some(object) = &cell.object {
                cell.bytes = Some(bytes_of(object.bind(py))?);
            }
        }
        Ok(())
    }

    /// Frees the bytes of objects.
    pub(crate) fn forget_bytes(&mut self) {
        for cell in self.cells.iter_mut().filter(|cell| cell.object.is_some()) {
            cell.bytes = None;
        }
    }
}

fn bytes_of(object: &Bound<'_, PyAny>) -> Result<Box<[u8]>> {
    interpreter::count_encode();
    let mut bytes = Vec::new();
    dynamic::encode(object, &mut bytes).map_err(|e| {
        let of = crate::columns::describe(object);
        Error::user(format!("a value of keyed state cannot be pickled: {of}: {e}"))
    })?;
    Ok(bytes.into_boxed_slice())
}

impl StateColumn for ObjectColumn {
    fn kind(&self) -> StateKind {
        StateKind::Value
    }
    fn value_type(&self) -> String {
        "PythonObject".to_owned()
    }
    fn grow(&mut self, slots: usize) {
        self.cells.resize_with(slots.max(self.cells.len()), Cell::default);
    }
    fn is_empty(&self, slot: Slot) -> bool {
        self.cells[slot.index()].is_empty()
    }
    fn clear(&mut self, slot: Slot) {
        self.cells[slot.index()] = Cell::default();
        self.cleared.push(slot);
    }
    fn encode(&self, slot: Slot, out: &mut Vec<u8>) -> Result<()> {
        match &self.cells[slot.index()] {
            Cell { bytes: Some(bytes), .. } => out.extend_from_slice(bytes),
            // A backend that writes back values by itself, without a flush before.
            Cell { object: Some(object), .. } => {
                out.extend_from_slice(&interpreter::attach(|py| bytes_of(object.bind(py)))?);
            }
            Cell { .. } => {}
        }
        Ok(())
    }
    fn decode(&mut self, slot: Slot, bytes: &[u8]) -> Result<()> {
        self.cells[slot.index()] = Cell { object: None, bytes: Some(bytes.into()) };
        Ok(())
    }
    fn merge(&mut self, _into: Slot, _from: Slot) -> Result<()> {
        Err(Error::user("value state cannot be used with merging windows; use list, reducing or aggregating state"))
    }
    fn drain_cleared(&mut self, out: &mut Vec<Slot>) {
        out.append(&mut self.cleared);
    }
}

impl Drop for ObjectColumn {
    /// Objects let go of one by one without the interpreter would wait in a queue for it.
    fn drop(&mut self) {
        if self.cells.iter().any(|cell| cell.object.is_some()) {
            let cells = std::mem::take(&mut self.cells);
            Python::try_attach(|_| drop(cells));
        }
    }
}
