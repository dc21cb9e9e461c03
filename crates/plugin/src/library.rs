//! Shared objects that offer queues and congestion controls.

use std::ffi::{CStr, c_char};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use libloading::{Library as Object, Symbol};
use narrows_qdisc::AnyConfig;
use narrows_transport::tcp::Congestion;
use narrows_units::Rate;
use narrows_units::settings::Given;

use crate::abi::{ABI, CControl, COffer, CQueue};
use crate::control::NOTHING_SET;
use crate::native::BareControl;
use crate::{Call, Faults, Part, Reno, SteeredControl, full_queue, short_queue};

/// A shared object that is loaded.
pub(crate) struct Loaded(
    #[expect(dead_code, reason = "it is unloaded when the last queue goes")] Object,
);

/// The queues and congestion controls of a shared object.
#[derive(Clone)]
pub struct Library {
    path: PathBuf,
    loaded: Arc<Loaded>,
    queues: Vec<(String, CQueue)>,
    controls: Vec<(String, CControl)>,
}

/// A queue that a shared object offers.
#[derive(Clone)]
pub struct Offered<'a> {
    library: &'a Library,
    name: &'a str,
    queue: CQueue,
}

/// A congestion control that a shared object offers.
#[derive(Clone)]
pub struct OfferedControl<'a> {
    library: &'a Library,
    name: &'a str,
    control: CControl,
}

/// Why a shared object cannot be used: its path, and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub why: String,
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.why)
    }
}

impl std::error::Error for LoadError {}

impl Library {
    /// Loads a shared object, which runs code of its own from now on.
    ///
    /// # Errors
    ///
    /// Returns an error if it cannot be loaded, does not export `narrows_plugin`, was built for
    /// another version of the interface, or offers a queue that has no name or no functions.
    pub fn load(path: &Path) -> Result<Self, LoadError> {
        let wrong = |why: String| LoadError { path: path.to_owned(), why };
        // With a slash, the system's loader looks nowhere else.
        let exact = std::path::absolute(path).map_err(|error| wrong(error.to_string()))?;
        if !exact.is_file() {
            return Err(wrong("is no file".into()));
        }
        // SAFETY: the user has asked for this code, which is trusted.
        let object = unsafe { Object::new(&exact) }.map_err(|error| wrong(words(&error)))?;
        let offer = {
            // SAFETY: the header gives this form to the function of this name.
            let plugin: Symbol<'_, unsafe extern "C" fn() -> *const COffer> =
                unsafe { object.get(b"narrows_plugin\0") }
                    .map_err(|_| wrong("exports no function narrows_plugin".into()))?;
            // SAFETY: as above.
            unsafe { plugin() }
        };
        // SAFETY: by the header it is NULL or points to an offer that lives as long as the object.
        // The first member is the version, in every version.
        let Some(&theirs) = (unsafe { offer.cast::<u32>().as_ref() }) else {
            return Err(wrong("narrows_plugin() returned NULL".into()));
        };
        let built = |what: &str| {
            wrong(format!("was built for {what} of narrows.h, but this is {ABI}; build it again"))
        };
        if theirs != ABI {
            return Err(built(&format!("version {theirs}")));
        }
        // SAFETY: it is of this version.
        let offer = unsafe { &*offer };
        let queues = list(offer.queues, offer.queues_count);
        let controls = list(offer.controls, offer.controls_count);
        if queues.is_empty() && controls.is_empty() {
            return Err(wrong("offers no queue and no congestion control".into()));
        }
        let sizes = [
            (queues.len(), offer.queue_size as usize, size_of::<CQueue>()),
            (controls.len(), offer.control_size, size_of::<CControl>()),
        ];
        if sizes.iter().any(|&(count, theirs, ours)| count > 0 && theirs != ours) {
            return Err(built("another form"));
        }
        let queues = queues.iter().map(|queue| Ok((queue_name(queue)?, *queue)));
        let queues: Result<Vec<_>, String> = queues.collect();
        let controls = controls.iter().map(|control| Ok((control_name(control)?, *control)));
        let controls: Result<Vec<_>, String> = controls.collect();
        Ok(Self {
            path: path.to_owned(),
            loaded: Arc::new(Loaded(object)),
            queues: queues.map_err(wrong)?,
            controls: controls.map_err(wrong)?,
        })
    }

    /// Returns the names of its queues.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.queues.iter().map(|(name, _)| name.as_str())
    }

    /// Returns the names of its congestion controls.
    pub fn controls(&self) -> impl Iterator<Item = &str> {
        self.controls.iter().map(|(name, _)| name.as_str())
    }

    /// Returns the congestion control of that name.
    pub fn control<'a>(&'a self, name: &str) -> Option<OfferedControl<'a>> {
        let (name, control) = self.controls.iter().find(|(offered, _)| offered == name)?;
        Some(OfferedControl { library: self, name, control: *control })
    }

    /// Returns the file that it was loaded from.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the queue of that name.
    pub fn queue<'a>(&'a self, name: &str) -> Option<Offered<'a>> {
        let (name, queue) = self.queues.iter().find(|(offered, _)| offered == name)?;
        Some(Offered { library: self, name, queue: *queue })
    }
}

impl fmt::Debug for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Library").field(&self.path).finish()
    }
}

impl Offered<'_> {
    /// Returns the queue as settings of a link that starts with this rate.
    ///
    /// # Errors
    ///
    /// Returns what the queue says if it refuses its settings.
    pub fn config(
        &self,
        settings: &[Given],
        rate: Rate,
        faults: &Faults,
    ) -> Result<AnyConfig, String> {
        let (queue, loaded) = (self.queue, Arc::clone(&self.library.loaded));
        let settings = settings.to_vec();
        let create = move |seed| queue.create(&loaded, &settings, rate, seed);
        // Whether it takes the settings is known before the run.
        create(0)?;
        if queue.dequeue.is_none() {
            let make = move |seed| Ok(queue.short(create(seed)?));
            return Ok(short_queue(self.name, queue.most(), queue.release.is_some(), faults, make));
        }
        Ok(full_queue(self.name, faults, move |seed| Ok(queue.full(create(seed)?))))
    }
}

impl OfferedControl<'_> {
    /// Returns the control as TCP's setting.
    ///
    /// # Errors
    ///
    /// Returns what the control says if it refuses its settings.
    pub fn congestion(&self, settings: &[Given], faults: &Faults) -> Result<Congestion, String> {
        let (control, loaded) = (self.control, Arc::clone(&self.library.loaded));
        let (settings, faults) = (settings.to_vec(), faults.clone());
        BareControl::create(control, &loaded, &settings, 0)?;
        let name = self.name.to_owned();
        Ok(Congestion::custom_boxed(self.name, move |seed| {
            match BareControl::create(control, &loaded, &settings, seed) {
                Ok(made) => Box::new(SteeredControl::new(&name, made, NOTHING_SET, faults.clone())),
                Err(why) => {
                    faults.report(Part::Control, &name, why);
                    Box::new(Reno)
                }
            }
        }))
    }
}

fn list<'a, T>(first: *const T, count: usize) -> &'a [T] {
    if first.is_null() {
        return &[];
    }
    // SAFETY: the offer says how many there are, and they live as long as the object.
    unsafe { std::slice::from_raw_parts(first, count) }
}

fn text(name: *const c_char, what: &str) -> Result<String, String> {
    if name.is_null() {
        return Err(format!("offers a {what} without a name"));
    }
    // SAFETY: by the header it is a text that ends with NUL.
    Ok(unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned())
}

fn queue_name(queue: &CQueue) -> Result<String, String> {
    let name = text(queue.name, "queue")?;
    let short = queue.admit.is_some() || queue.release.is_some();
    let full = queue.enqueue.is_some() && queue.dequeue.is_some();
    let wrong = match (short, full) {
        _ if queue.create.is_none() => "has no create",
        (true, true) => "has both forms; leave out admit and release, or enqueue and dequeue",
        (false, false) => "has neither admit nor release, nor enqueue with dequeue",
        _ => return Ok(name),
    };
    Err(format!("its queue {name:?} {wrong}"))
}

fn control_name(control: &CControl) -> Result<String, String> {
    let name = text(control.name, "congestion control")?;
    let handles = |call: Call| control.calls[call as usize].is_some();
    let wrong = match control.create {
        None => Some("has no create"),
        Some(_) => Call::wrong(control.owns_window != 0, handles),
    };
    match wrong {
        Some(wrong) => Err(format!("its congestion control {name:?} {wrong}")),
        None => Ok(name),
    }
}

/// The first line of the loader's message, without the path that comes first.
fn words(error: &libloading::Error) -> String {
    let text =
        std::error::Error::source(error).map_or_else(|| error.to_string(), |e| e.to_string());
    let line = text.lines().next().unwrap_or_default();
    line.rsplit_once(": ").map_or(line, |(_, last)| last).to_owned()
}
