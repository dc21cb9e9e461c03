//! Readers of measurements that others made: rows come a chunk at a time, so that Python can show
//! how far it is and be interrupted. A thread of their own reads the next chunk while Python turns
//! the last one into tables.

use std::fs::File;
use std::io::Read;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use narrows_intake::capture::Watched;
use narrows_intake::{Column, Columns, Counted, Skipped, atlas, decompressed as decompress};
use numpy::IntoPyArray;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};

use crate::ahead::{Ahead, Listed, Rows, Told, waiting_for};

/// Adds the classes and functions of this file to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<AtlasReader>()?;
    module.add_class::<CaptureReader>()?;
    module.add_function(wrap_pyfunction!(decompressed, module)?)
}

type Bytes = Box<dyn Read + Send>;

/// Reads RIPE Atlas results from a file, compressed or not; OSError where it cannot be opened.
#[pyclass(module = "narrows._core")]
struct AtlasReader {
    reader: Mutex<Ahead<atlas::AtlasReader<Bytes>>>,
    bytes: Arc<AtomicU64>,
}

#[pymethods]
impl AtlasReader {
    #[new]
    fn new(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let (file, bytes) = opened(py, path)?;
        let reader = atlas::AtlasReader::new(file);
        Ok(Self { reader: Ahead::new(reader).into(), bytes })
    }

    /// The next rows, about `most`, as columns: numbers, or the number of each row's text and the
    /// texts. None at the end.
    fn chunk<'py>(&self, py: Python<'py>, most: usize) -> PyResult<Option<Bound<'py, PyDict>>> {
        next(py, &self.reader, most)?.map(|chunk| columns(py, chunk)).transpose()
    }

    /// Bytes of the file that have been read.
    #[getter]
    fn bytes_read(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Objects found so far.
    #[getter]
    fn records(&self) -> u64 {
        locked(&self.reader).told.records
    }

    /// What was skipped: kind, how many, number of the first, and what was wrong with it.
    fn skipped(&self) -> Vec<Listed> {
        locked(&self.reader).told.skipped.clone()
    }

    /// What was odd in rows that were kept, likewise.
    fn remarks(&self) -> Vec<Listed> {
        locked(&self.reader).told.remarks.clone()
    }
}

/// Reads DNS exchanges from a capture or a dnstap file; OSError where it cannot be opened,
/// ValueError where it is neither.
#[pyclass(module = "narrows._core")]
struct CaptureReader {
    reader: Mutex<Ahead<Watched<Bytes>>>,
    bytes: Arc<AtomicU64>,
}

#[pymethods]
impl CaptureReader {
    #[new]
    fn new(py: Python<'_>, path: PathBuf, ports: Vec<u16>) -> PyResult<Self> {
        let (file, bytes) = opened(py, path)?;
        let reader = patiently(py, move || Watched::open(file, &ports))?
            .map_err(|error| PyValueError::new_err(error.to_string()))?;
        Ok(Self { reader: Ahead::new(reader).into(), bytes })
    }

    /// The next rows, about `most`: columns of exchanges and of connections. None at the end.
    fn chunk<'py>(&self, py: Python<'py>, most: usize) -> PyResult<Option<Tables<'py>>> {
        let chunk = next(py, &self.reader, most)?;
        let Some((exchanges, connections)) = chunk else { return Ok(None) };
        Ok(Some((columns(py, exchanges)?, columns(py, connections)?)))
    }

    /// Bytes of the file that have been read.
    #[getter]
    fn bytes_read(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Packets or frames found so far.
    #[getter]
    fn records(&self) -> u64 {
        locked(&self.reader).told.records
    }

    /// What was skipped: kind, how many, number of the first, and what was wrong with it.
    fn skipped(&self) -> Vec<Listed> {
        locked(&self.reader).told.skipped.clone()
    }

    /// What was odd although rows came of it, likewise.
    fn remarks(&self) -> Vec<Listed> {
        locked(&self.reader).told.remarks.clone()
    }

    /// The busiest ports of the packets that were not looked at.
    fn busiest_other_ports(&self) -> Vec<u16> {
        locked(&self.reader).told.other_ports.clone()
    }
}

/// pyo3 shares objects between threads; a reader stays with one at a time.
fn locked<T>(reader: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic in another thread would have left nothing that is unsafe to read.
    reader.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A file, decompressed, and how much of it has been read.
fn opened(py: Python<'_>, path: PathBuf) -> PyResult<(Bytes, Arc<AtomicU64>)> {
    let open = move || -> std::io::Result<_> {
        let (file, bytes) = Counted::new(File::open(path)?);
        Ok((decompress(file)?, bytes))
    };
    Ok(patiently(py, open)??)
}

/// What `work` gives; KeyboardInterrupt where Ctrl-C comes before.
fn patiently<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce() -> T + Send + 'static,
) -> PyResult<T> {
    py.detach(|| waiting_for(work, || Python::attach(|py| py.check_signals())))
}

/// The next rows; KeyboardInterrupt where Ctrl-C comes before them.
fn next<R: Rows>(
    py: Python<'_>,
    reader: &Mutex<Ahead<R>>,
    most: usize,
) -> PyResult<Option<R::Chunk>> {
    loop {
        if let Ok(chunk) = py.detach(|| locked(reader).next(most)) {
            return Ok(chunk);
        }
        py.check_signals()?;
    }
}

type Tables<'py> = (Bound<'py, PyDict>, Bound<'py, PyDict>);

/// The first `most` bytes of a file, decompressed; ValueError where it holds more.
#[pyfunction]
fn decompressed(py: Python<'_>, path: PathBuf, most: u64) -> PyResult<Bound<'_, PyBytes>> {
    let bytes = py.detach(|| -> std::io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        decompress(File::open(path)?)?.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
        Ok(bytes)
    })?;
    if bytes.len() as u64 > most {
        return Err(PyValueError::new_err(format!("it holds more than {most} bytes")));
    }
    Ok(PyBytes::new(py, &bytes))
}

fn columns(py: Python<'_>, columns: Columns) -> PyResult<Bound<'_, PyDict>> {
    let table = PyDict::new(py);
    for (name, column) in columns {
        match column {
            Column::F64(values) => table.set_item(name, values.into_pyarray(py))?,
            Column::U32(values) => table.set_item(name, values.into_pyarray(py))?,
            Column::U8(values) => table.set_item(name, values.into_pyarray(py))?,
            Column::Bool(values) => table.set_item(name, values.into_pyarray(py))?,
            Column::Names(names) => {
                let (codes, texts) = names.into_parts();
                let texts = PyList::new(py, texts.iter())?;
                table.set_item(name, (codes.into_pyarray(py), texts))?;
            }
        }
    }
    Ok(table)
}

fn listed(skipped: &Skipped) -> Vec<Listed> {
    skipped
        .iter()
        .map(|(kind, skip)| (kind, skip.count, skip.first, skip.example.clone()))
        .collect()
}

impl Rows for atlas::AtlasReader<Bytes> {
    type Chunk = Columns;

    fn next(&mut self, most: usize) -> Option<Columns> {
        self.next_chunk(most).map(atlas::AtlasChunk::into_columns)
    }

    fn told(&self) -> Told {
        Told {
            records: self.records(),
            skipped: listed(self.skipped()),
            remarks: listed(self.remarks()),
            other_ports: Vec::new(),
        }
    }
}

impl Rows for Watched<Bytes> {
    type Chunk = (Columns, Columns);

    fn next(&mut self, most: usize) -> Option<Self::Chunk> {
        self.next_tables(most)
    }

    fn told(&self) -> Told {
        Told {
            records: self.records(),
            skipped: listed(self.skipped()),
            remarks: self.remarks().map(listed).unwrap_or_default(),
            other_ports: self.busiest_other_ports(),
        }
    }
}
