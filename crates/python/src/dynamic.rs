//! One Python object as bytes: values without declared type, keys without declared type, and state.
//!
//! The form is part of savepoints. The first byte says which:
//!
//! | byte | then |
//! |---|---|
//! | `N` `F` `T` | nothing: `None`, `False`, `True` |
//! | `i` | the `int`, 64 bits, little-endian |
//! | `d` | the `float`, 64 bits, little-endian |
//! | `s` `b` | length (u32, little-endian) and UTF-8 of a `str`, or the `bytes` |
//! | `t` | the length of a `tuple` (u32) and its items in these same forms |
//! | 0x80 | it is the first byte of a pickle (protocol 2 and later), which holds anything else |
//!
//! A tuple is written item by item only where all of it has a form of its own: pickling a part by itself would lose
//! what two parts share. Pickle takes ten times as long for a pair of a word and a number.

use flott_core::key::canonical_float;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyBytes, PyFloat, PyInt, PyNone, PyString, PyTuple};

/// Deeper tuples are pickled.
const MAX_DEPTH: usize = 16;

/// Appends the bytes of an object.
pub(crate) fn encode(value: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> PyResult<()> {
    let at = out.len();
    if encode_plain(value, out, 0)? {
        return Ok(());
    }
    out.truncate(at);
    static DUMPS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let pickled = DUMPS.import(value.py(), "flott._run", "dumps")?.call1((value,))?;
    out.extend_from_slice(pickled.cast::<PyBytes>()?.as_bytes());
    Ok(())
}

/// Whether the object has a form of its own and was written; if not, `out` holds a part of it.
fn encode_plain(value: &Bound<'_, PyAny>, out: &mut Vec<u8>, depth: usize) -> PyResult<bool> {
    if let Ok(text) = value.cast_exact::<PyString>() {
        // Lone surrogates have no UTF-8.
        let Ok(text) = text.to_str() else { return Ok(false) };
        return Ok(tagged(b's', text.as_bytes(), out));
    }
    if value.is_exact_instance_of::<PyInt>() {
        let Ok(number) = value.extract::<i64>() else { return Ok(false) };
        out.push(b'i');
        out.extend(number.to_le_bytes());
        return Ok(true);
    }
    if let Ok(number) = value.cast_exact::<PyFloat>() {
        out.push(b'd');
        out.extend(number.value().to_le_bytes());
        return Ok(true);
    }
    if let Ok(items) = value.cast_exact::<PyTuple>() {
        let Ok(length) = u32::try_from(items.len()) else { return Ok(false) };
        if depth >= MAX_DEPTH {
            return Ok(false);
        }
        out.push(b't');
        out.extend(length.to_le_bytes());
        for item in items.iter() {
            if !encode_plain(&item, out, depth + 1)? {
                return Ok(false);
            }
        }
        return Ok(true);
    }
    if value.is_none() {
        out.push(b'N');
        return Ok(true);
    }
    if let Ok(yes) = value.cast_exact::<PyBool>() {
        out.push(if yes.is_true() { b'T' } else { b'F' });
        return Ok(true);
    }
    match value.cast_exact::<PyBytes>() {
        Ok(bytes) => Ok(tagged(b'b', bytes.as_bytes(), out)),
        Err(_) => Ok(false),
    }
}

/// Whether `bytes` are short enough to be written.
fn tagged(tag: u8, bytes: &[u8], out: &mut Vec<u8>) -> bool {
    let Ok(length) = u32::try_from(bytes.len()) else { return false };
    out.push(tag);
    out.extend(length.to_le_bytes());
    out.extend_from_slice(bytes);
    true
}

/// Appends the canonical bytes of a key: equal keys of Python have equal bytes, so a `bool` and a whole `float` are
/// written as the `int` they equal, and every NaN as one. `false`: no such object can be a key.
pub(crate) fn encode_key(value: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> PyResult<bool> {
    encode_key_part(value, out, 0)
}

fn encode_key_part(value: &Bound<'_, PyAny>, out: &mut Vec<u8>, depth: usize) -> PyResult<bool> {
    if let Ok(number) = value.cast::<PyFloat>() {
        let number = number.value();
        // 2^63 is the first whole float that is no i64.
        if number.fract() == 0.0 && (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&number) {
            out.push(b'i');
            out.extend((number as i64).to_le_bytes());
        } else {
            out.push(b'd');
            out.extend(canonical_float(number).to_le_bytes());
        }
        return Ok(true);
    }
    // A bool is an int of Python's; subclasses (enumerations of numbers, of strings) are equal to what they are made of.
    if value.is_instance_of::<PyInt>() {
        let Ok(number) = value.extract::<i64>() else { return Ok(false) };
        out.push(b'i');
        out.extend(number.to_le_bytes());
        return Ok(true);
    }
    if let Ok(text) = value.cast::<PyString>() {
        return Ok(text.to_str().is_ok_and(|text| tagged(b's', text.as_bytes(), out)));
    }
    if let Ok(bytes) = value.cast::<PyBytes>() {
        return Ok(tagged(b'b', bytes.as_bytes(), out));
    }
    if value.is_none() {
        out.push(b'N');
        return Ok(true);
    }
    let Ok(items) = value.cast::<PyTuple>() else { return Ok(false) };
    let Ok(length) = u32::try_from(items.len()) else { return Ok(false) };
    if depth >= MAX_DEPTH {
        return Ok(false);
    }
    out.push(b't');
    out.extend(length.to_le_bytes());
    for item in items.iter() {
        if !encode_key_part(&item, out, depth + 1)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The object of bytes that [`encode`] wrote.
pub(crate) fn decode<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    if bytes.first() == Some(&0x80) {
        static LOADS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        return LOADS.import(py, "pickle", "loads")?.call1((PyBytes::new(py, bytes),));
    }
    match decode_plain(py, bytes)? {
        Some((value, [])) => Ok(value),
        _ => Err(damaged()),
    }
}

type Decoded<'py, 'a> = Option<(Bound<'py, PyAny>, &'a [u8])>;

fn decode_plain<'py, 'a>(py: Python<'py>, bytes: &'a [u8]) -> PyResult<Decoded<'py, 'a>> {
    let Some((tag, rest)) = bytes.split_first() else { return Ok(None) };
    let done = |value: Bound<'py, PyAny>, rest| Ok(Some((value, rest)));
    match tag {
        b'N' => done(PyNone::get(py).to_owned().into_any(), rest),
        b'T' | b'F' => done(PyBool::new(py, *tag == b'T').to_owned().into_any(), rest),
        b'i' | b'd' => {
            let Some((word, rest)) = rest.split_first_chunk::<8>() else { return Ok(None) };
            match tag {
                b'i' => done(i64::from_le_bytes(*word).into_pyobject(py)?.into_any(), rest),
                _ => done(PyFloat::new(py, f64::from_le_bytes(*word)).into_any(), rest),
            }
        }
        b's' | b'b' | b't' => {
            let Some((length, rest)) = rest.split_first_chunk::<4>() else { return Ok(None) };
            let length = u32::from_le_bytes(*length) as usize;
            if *tag == b't' {
                return decode_tuple(py, length, rest);
            }
            let Some((body, rest)) = rest.split_at_checked(length) else { return Ok(None) };
            match tag {
                b's' => done(PyString::from_bytes(py, body)?.into_any(), rest),
                _ => done(PyBytes::new(py, body).into_any(), rest),
            }
        }
        _ => Ok(None),
    }
}

fn decode_tuple<'py, 'a>(py: Python<'py>, length: usize, mut rest: &'a [u8]) -> PyResult<Decoded<'py, 'a>> {
    // Damaged bytes must not ask for more than they could fill.
    let mut items = Vec::with_capacity(length.min(rest.len()));
    for _ in 0..length {
        let Some((item, after)) = decode_plain(py, rest)? else { return Ok(None) };
        items.push(item);
        rest = after;
    }
    Ok(Some((PyTuple::new(py, items)?.into_any(), rest)))
}

fn damaged() -> PyErr {
    pyo3::exceptions::PyValueError::new_err("stored bytes are no Python object of flott's")
}
