//! Readers of other people's measurements. Rows come in chunks, so that Python can show progress
//! and be interrupted. A separate thread reads the next chunk while Python turns the last one into
//! tables.

use std::fs::File;
use std::io::Read;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use narrows_intake::capture::{Input, OpenError, Remark, Watched};
use narrows_intake::{Column, Columns, Counted, Skipped, atlas, decompressed as decompress};
use numpy::IntoPyArray;
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyFrozenSet, PyList};

use crate::ahead::{Ahead, Listed, Report, Rows, waiting_for};

/// Adds the classes and functions of this file to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<AtlasReader>()?;
    module.add_class::<CaptureReader>()?;
    let cut_off = Remark::ALL.into_iter().filter(|kind| kind.is_cut_off()).map(Remark::name);
    module.add("cut_off_remarks", PyFrozenSet::new(module.py(), cut_off)?)?;
    module.add_function(wrap_pyfunction!(decompressed, module)?)
}

type Bytes = Box<dyn Read + Send>;

/// Reads RIPE Atlas results from a file, compressed or not. Raises OSError if it cannot be opened.
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

    /// Returns the next rows, about `most`, as columns: numbers, or for texts the number of each
    /// row's text and the texts. Returns None at the end.
    fn chunk<'py>(&self, py: Python<'py>, most: usize) -> PyResult<Option<Bound<'py, PyDict>>> {
        next(py, &self.reader, most)?.map(|chunk| columns(py, chunk)).transpose()
    }

    /// Returns the bytes of the file that have been read.
    #[getter]
    fn bytes_read(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Returns the number of objects found so far.
    #[getter]
    fn records(&self) -> u64 {
        locked(&self.reader).report.records
    }

    /// Returns what was skipped: the kind, how many, the number of the first, and what was wrong
    /// with it.
    fn skipped(&self) -> Vec<Listed> {
        locked(&self.reader).report.skipped.clone()
    }

    /// Returns what was odd in rows that were kept, in the same form.
    fn remarks(&self) -> Vec<Listed> {
        locked(&self.reader).report.remarks.clone()
    }
}

/// Reads DNS exchanges from captures and dnstap files as if they were one. `-` is standard input.
/// Raises OSError with its name if one cannot be opened, and ValueError with its number and the
/// reason if one is neither.
#[pyclass(module = "narrows._core")]
struct CaptureReader {
    reader: Mutex<Ahead<Watched<Bytes>>>,
    bytes: Arc<AtomicU64>,
}

#[pymethods]
impl CaptureReader {
    #[new]
    fn new(py: Python<'_>, paths: Vec<PathBuf>, ports: Vec<u16>) -> PyResult<Self> {
        let bytes = Arc::new(AtomicU64::new(0));
        let (names, counter) = (paths.clone(), Arc::clone(&bytes));
        let open = move || {
            let inputs = paths
                .into_iter()
                .enumerate()
                .map(|(file, path)| input(path, &counter).map_err(|why| (file, why.into())))
                .collect::<Result<_, _>>()?;
            Watched::merge(inputs, &ports)
        };
        let reader = patiently(py, open)?.map_err(|(file, error)| match error {
            OpenError::System(error) => {
                let said = error.to_string();
                let said = said.split(" (os error").next().unwrap_or_default().to_owned();
                match error.raw_os_error() {
                    Some(code) => PyOSError::new_err((code, said, names[file].clone())),
                    None => PyValueError::new_err((file, said)),
                }
            }
            OpenError::File(error) => PyValueError::new_err((file, error.to_string())),
        })?;
        Ok(Self { reader: Ahead::new(reader).into(), bytes })
    }

    /// Returns the next rows, about `most`: columns of exchanges and of connections. Returns None
    /// at the end.
    fn chunk<'py>(&self, py: Python<'py>, most: usize) -> PyResult<Option<Tables<'py>>> {
        let chunk = next(py, &self.reader, most)?;
        let Some((exchanges, connections)) = chunk else { return Ok(None) };
        Ok(Some((columns(py, exchanges)?, columns(py, connections)?)))
    }

    /// Returns the bytes of the files that have been read.
    #[getter]
    fn bytes_read(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Returns the number of packets or frames found so far.
    #[getter]
    fn records(&self) -> u64 {
        locked(&self.reader).report.records
    }

    /// Returns what was skipped or odd: the number of the file, the name of the kind if it is only
    /// odd, its text, how many, the number of the first, and what was wrong with it.
    fn notes(&self) -> Vec<Note> {
        locked(&self.reader).report.remarks.clone()
    }

    /// Returns the busiest ports of the packets that were ignored.
    fn busiest_other_ports(&self) -> Vec<u16> {
        locked(&self.reader).report.other_ports.clone()
    }
}

/// Locks a reader: pyo3 shares objects between threads, but a reader serves one at a time.
fn locked<T>(reader: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic in another thread cannot have left anything that is unsafe to read.
    reader.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns a capture that can be opened, again if it is a regular file.
fn input(path: PathBuf, counter: &Arc<AtomicU64>) -> std::io::Result<Input<Bytes>> {
    if path.as_os_str() == "-" {
        return Ok(Input::Once(decompress(Counted::adding(
            std::io::stdin(),
            Arc::clone(counter),
        ))?));
    }
    let counter = Arc::clone(counter);
    let again = path.metadata()?.is_file();
    let open = move || decompress(Counted::adding(File::open(&path)?, Arc::clone(&counter)));
    Ok(if again { Input::Again(Box::new(open)) } else { Input::Once(open()?) })
}

/// Opens a file for decompressed reading. Also returns a count of the bytes read.
fn opened(py: Python<'_>, path: PathBuf) -> PyResult<(Bytes, Arc<AtomicU64>)> {
    let open = move || -> std::io::Result<_> {
        let (file, bytes) = Counted::new(File::open(path)?);
        Ok((decompress(file)?, bytes))
    };
    Ok(patiently(py, open)??)
}

/// Returns the result of `work`. Raises KeyboardInterrupt if Ctrl-C comes first.
fn patiently<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce() -> T + Send + 'static,
) -> PyResult<T> {
    py.detach(|| waiting_for(work, || Python::attach(|py| py.check_signals())))
}

/// Returns the next rows. Raises KeyboardInterrupt if Ctrl-C comes first.
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

/// Returns the first `most` bytes of a file, decompressed. Raises ValueError if it holds more, and
/// KeyboardInterrupt if Ctrl-C comes first.
#[pyfunction]
fn decompressed(py: Python<'_>, path: PathBuf, most: u64) -> PyResult<Bound<'_, PyBytes>> {
    let read = move || -> std::io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        decompress(File::open(path)?)?.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let bytes = patiently(py, read)??;
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

/// What was skipped or odd in one of several captures: its number, the name of the kind if it is
/// only odd, its text, how many there were, the number of the first, and what was wrong with it.
type Note = (usize, Option<&'static str>, &'static str, u64, u64, String);

impl Rows for atlas::AtlasReader<Bytes> {
    type Chunk = Columns;
    type Remark = Listed;

    fn next(&mut self, most: usize) -> Option<Columns> {
        self.next_chunk(most).map(atlas::AtlasChunk::into_columns)
    }

    fn report(&self) -> Report<Listed> {
        Report {
            records: self.records(),
            skipped: listed(self.skipped()),
            remarks: listed(self.remarks()),
            other_ports: Vec::new(),
        }
    }
}

impl Rows for Watched<Bytes> {
    type Chunk = (Columns, Columns);
    type Remark = Note;

    fn next(&mut self, most: usize) -> Option<Self::Chunk> {
        self.next_tables(most)
    }

    fn report(&self) -> Report<Note> {
        let mut remarks = Vec::new();
        for (file, notes) in self.notes().iter().enumerate() {
            remarks.extend(notes.skipped.iter().map(|(kind, skip)| {
                (file, None, kind, skip.count, skip.first, skip.example.clone())
            }));
            remarks.extend(notes.remarks.iter().map(|(kind, skip)| {
                let (name, text) = (kind.name(), kind.text());
                (file, Some(name), text, skip.count, skip.first, skip.example.clone())
            }));
        }
        Report {
            records: self.records(),
            skipped: Vec::new(),
            remarks,
            other_ports: self.busiest_other_ports(),
        }
    }
}
