//! Queues from outside: those of shared objects, of Python objects, and of compiled functions. Also
//! what they share with congestion controls (controls.rs).

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use narrows_plugin::{
    Bare, Fault, Faults, FromOutside, Library, Part, Short, full_queue, short_queue,
};
use narrows_qdisc::laws::{self, TestPacket};
use narrows_qdisc::{Actions, AnyConfig, Backlog, Chooser, Decision, PacketView, Protocol};
use narrows_sim::plan::Plan;
use narrows_units::Time;
use narrows_units::settings::Given;
use pyo3::exceptions::{PyException, PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyString};

pyo3::create_exception!(
    narrows._core,
    QueueFault,
    PyException,
    "A queue from outside has broken a rule; the text says which."
);
pyo3::create_exception!(
    narrows._core,
    ControlFault,
    PyException,
    "A congestion control from outside has broken a rule; the text says which."
);

/// Adds the classes and the functions of this file to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Packet>()?;
    module.add("QueueFault", module.py().get_type::<QueueFault>())?;
    module.add("ControlFault", module.py().get_type::<ControlFault>())?;
    module.add_function(wrap_pyfunction!(plugin_offers, module)?)?;
    module.add_function(wrap_pyfunction!(check_queue_laws, module)?)?;
    module.add("plugin_abi", narrows_plugin::ABI)
}

/// Returns the names of the queues and of the congestion controls that a shared object offers. Raises
/// ValueError if it is none.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "PyO3 hands it over")]
fn plugin_offers(path: PathBuf) -> PyResult<(Vec<String>, Vec<String>)> {
    let library = load(&path)?;
    let controls = library.controls().map(str::to_owned).collect();
    Ok((library.names().map(str::to_owned).collect(), controls))
}

/// Checks the laws of queues for what a function makes from a seed. Returns the law that it broke;
/// raises what it raises, or a QueueFault.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "PyO3 hands it over")]
fn check_queue_laws(maker: Py<PyAny>, shapes: bool) -> PyResult<Option<String>> {
    let faults = Faults::default();
    let maker = Python::attach(|py| Maker::new(maker.bind(py), &[]))?;
    let config = config("laws", &maker, &faults)?;
    let broken = broken_law(|| {
        let make = || config.build::<TestPacket>(1);
        if shapes { laws::check_shaping(make) } else { laws::check(make) }
    });
    match faults.take() {
        Some(fault) => Err(raised(fault)),
        None => Ok(broken),
    }
}

/// Returns the law that a check finds broken. A broken law is a panic, which this turns into text. It
/// is printed nowhere else.
pub(crate) fn broken_law(check: impl FnOnce()) -> Option<String> {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let checked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(check));
    std::panic::set_hook(hook);
    let panic = checked.err()?;
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("breaks a law");
    let text = text.strip_prefix("assertion `left == right` failed: ").unwrap_or(text);
    Some(text.split_whitespace().collect::<Vec<_>>().join(" "))
}

pub(crate) fn load(path: &Path) -> PyResult<Library> {
    Library::load(path).map_err(|why| PyValueError::new_err(why.to_string()))
}

/// Puts queues from outside into a plan: by name those of shared objects, and by link or by name
/// those of Python objects, each made by a call with the run's seed of its own.
pub(crate) fn bind(
    plan: &mut Plan,
    libraries: &[Library],
    queues: Option<&Bound<'_, PyDict>>,
    faults: &Faults,
) -> PyResult<()> {
    for link in &mut plan.links {
        let rate = link.rate;
        let name = &link.name;
        link.queue.bind(&mut |custom| {
            let offers = libraries.iter().filter_map(|library| library.queue(custom.name()));
            let offers: Vec<_> = offers.collect();
            let refused = |why: &str| PyValueError::new_err(format!("{name}: queue: {why}"));
            let own = queues.map(|queues| queues.get_item(custom.name())).transpose()?.flatten();
            if own.is_some() && !offers.is_empty() {
                let why = format!("a plugin and a class offer {:?}", custom.name());
                return Err(refused(&why));
            }
            if let Some(maker) = own {
                return config(name, &Maker::new(&maker, custom.settings())?, faults);
            }
            match offers.as_slice() {
                [] => Err(refused(&format!("no plugin and no class offers {:?}", custom.name()))),
                [offer] => offer
                    .config(custom.settings(), rate, &faults.at(name))
                    .map_err(|why| refused(&format!("{:?} {why}", custom.name()))),
                _ => Err(refused(&format!("several plugins offer {:?}", custom.name()))),
            }
        })?;
    }
    for (name, maker) in queues.into_iter().flat_map(|queues| queues.iter()) {
        let name: String = name.extract()?;
        // Other names are those of queues in the scenario, above.
        if let Some(link) = plan.links.iter_mut().find(|link| link.name == name) {
            link.queue = config(&name, &Maker::new(&maker, &[])?, faults)?;
        }
    }
    Ok(())
}

/// A function that makes a queue from a seed and settings, and these: numbers, or text.
#[derive(Clone)]
struct Maker(Arc<(Py<PyAny>, Py<PyDict>)>);

impl Maker {
    fn new(function: &Bound<'_, PyAny>, given: &[Given]) -> PyResult<Self> {
        let settings = PyDict::new(function.py());
        for Given { key, text, number } in given {
            match number {
                Some(number) => settings.set_item(key, number)?,
                None => settings.set_item(key, text)?,
            }
        }
        Ok(Self(Arc::new((function.clone().unbind(), settings.unbind()))))
    }

    fn call<'py>(&self, py: Python<'py>, seed: u64) -> PyResult<Bound<'py, PyAny>> {
        let (function, settings) = &*self.0;
        function.bind(py).call1((seed, settings))
    }
}

/// What a maker returns: a Python object, or addresses of compiled functions.
enum Made {
    Short(Calls),
    Full(Calls),
    /// The object keeps the functions and their state.
    Bare(Bare<Py<PyAny>>),
}

/// The settings of a link whose queue `maker` makes when it is called with a seed.
fn config(name: &str, maker: &Maker, faults: &Faults) -> PyResult<AnyConfig> {
    // The first is made to see its form, and whether it can be made.
    let (title, limit, form) = Python::attach(|py| made(py, maker, 0))?;
    let maker = maker.clone();
    let faults = faults.at(name);
    Ok(match form {
        Made::Full(_) => full_queue(&title, &faults, again(maker, Made::full)),
        Made::Short(first) => {
            let releases = first.release.is_some();
            let same = move |made: Made| made.short().filter(|it| it.release.is_some() == releases);
            short_queue(&title, limit, releases, &faults, again(maker, same))
        }
        Made::Bare(first) => {
            let releases = first.releases();
            let same = move |made: Made| made.bare().filter(|it| it.releases() == releases);
            short_queue(&title, limit, releases, &faults, again(maker, same))
        }
    })
}

/// Returns what calls a maker with a seed, and takes only what has the form of the first object.
fn again<T>(
    maker: Maker,
    same: impl Fn(Made) -> Option<T> + Send + Sync + 'static,
) -> impl Fn(u64) -> Result<T, FromOutside> + Send + Sync + 'static {
    move |seed| {
        let (title, _, made) = Python::attach(|py| made(py, &maker, seed))?;
        let other = || format!("{title} has other methods than the object that was made first");
        same(made).ok_or_else(|| other().into())
    }
}

impl Made {
    fn short(self) -> Option<Calls> {
        if let Self::Short(calls) = self { Some(calls) } else { None }
    }

    fn full(self) -> Option<Calls> {
        if let Self::Full(calls) = self { Some(calls) } else { None }
    }

    fn bare(self) -> Option<Bare<Py<PyAny>>> {
        if let Self::Bare(bare) = self { Some(bare) } else { None }
    }
}

fn made(py: Python<'_>, maker: &Maker, seed: u64) -> PyResult<(String, u32, Made)> {
    let object = maker.call(py, seed)?;
    let title = object.get_type().name()?.to_string();
    let limit = object.getattr(intern!(py, "limit"))?;
    let limit: u32 = limit.extract().map_err(|_| {
        let most = u32::MAX;
        PyValueError::new_err(format!(
            "{title}: limit = {limit} is no number of packets up to {most}"
        ))
    })?;
    if let Ok(addresses) = object.getattr(intern!(py, "addresses")) {
        let (admit, release, state): (usize, usize, usize) = addresses.extract()?;
        let bare = Bare::at(admit, release, state, object.unbind());
        return Ok((title, limit, Made::Bare(bare)));
    }
    let method = |name: &Bound<'_, PyString>| -> PyResult<Option<Py<PyAny>>> {
        Ok(object.getattr_opt(name)?.filter(|found| !found.is_none()).map(Bound::unbind))
    };
    let pending = Pending::default();
    let calls = Calls {
        admit: method(intern!(py, "admit"))?,
        release: method(intern!(py, "release"))?,
        enqueue: method(intern!(py, "enqueue"))?,
        dequeue: method(intern!(py, "dequeue"))?,
        ready_at: method(intern!(py, "ready_at"))?,
        packet: Py::new(
            py,
            Packet { view: Mutex::new(PacketView::default()), pending: Arc::clone(&pending) },
        )?,
        pending,
    };
    let short = calls.admit.is_some() || calls.release.is_some();
    let full = calls.enqueue.is_some() && calls.dequeue.is_some();
    match (short, full) {
        (true, false) => Ok((title, limit, Made::Short(calls))),
        (false, true) => Ok((title, limit, Made::Full(calls))),
        (true, true) => Err(PyTypeError::new_err(format!(
            "{title} has both forms; leave out admit and release, or enqueue and dequeue"
        ))),
        (false, false) => Err(PyTypeError::new_err(format!(
            "{title} has neither admit nor release, nor enqueue with dequeue"
        ))),
    }
}

/// The methods of a Python object.
struct Calls {
    admit: Option<Py<PyAny>>,
    release: Option<Py<PyAny>>,
    enqueue: Option<Py<PyAny>>,
    dequeue: Option<Py<PyAny>>,
    ready_at: Option<Py<PyAny>>,
    /// The object that `admit` and `release` get, with another packet each time.
    packet: Py<Packet>,
    /// What the packets' methods `mark` and `drop` have asked for.
    pending: Pending,
}

type Pending = Arc<Mutex<Actions>>;

pub(crate) fn locked<T>(held: &Mutex<T>) -> MutexGuard<'_, T> {
    held.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A packet, as a queue in Python sees it.
///
/// `admit` and `release` get the same object each time, so keep its values and not the object. A
/// queue with `enqueue` gets an object for each packet.
#[pyclass(module = "narrows.queues", frozen)]
struct Packet {
    view: Mutex<PacketView>,
    pending: Pending,
}

impl Packet {
    fn view(&self) -> PacketView {
        *locked(&self.view)
    }
}

#[pymethods]
impl Packet {
    /// Its length in bytes, as queues count it.
    #[getter]
    fn bytes(&self) -> u32 {
        self.view().bytes
    }

    /// A number that its flow's packets share: a hash of addresses, protocol and ports.
    #[getter]
    fn flow(&self) -> u64 {
        self.view().flow
    }

    /// When it was passed to the queue, in seconds.
    #[getter]
    fn arrived(&self) -> f64 {
        self.view().arrived.as_secs_f64()
    }

    /// Its ECN field: 0 not ECN-capable, 1 ECT(1), 2 ECT(0), 3 CE.
    #[getter]
    fn ecn(&self) -> u8 {
        self.view().ecn as u8
    }

    /// Its DSCP, 0 to 63.
    #[getter]
    fn dscp(&self) -> u8 {
        self.view().dscp
    }

    /// Its transport protocol: "tcp", "udp" or "other".
    #[getter]
    fn protocol(&self) -> &'static str {
        match self.view().protocol {
            Protocol::Tcp => "tcp",
            Protocol::Udp => "udp",
            Protocol::Other => "other",
        }
    }

    /// Its source and destination port; zero if it has none.
    #[getter]
    fn ports(&self) -> (u16, u16) {
        self.view().ports.into()
    }

    /// Numbers of the sending and of the receiving host.
    #[getter]
    fn hosts(&self) -> (u32, u32) {
        self.view().hosts.into()
    }

    /// Marks it (Congestion Experienced). Only for queues with `enqueue`; it must wait, and be
    /// ECN-capable.
    fn mark(&self) {
        locked(&self.pending).marked.push(self.view().handle);
    }

    /// Drops it. Only for queues with `enqueue`; it must wait.
    fn drop(&self) {
        locked(&self.pending).dropped.push(self.view().handle);
    }

    fn __repr__(&self) -> String {
        let view = self.view();
        format!("Packet({} bytes, ecn {}, flow {:x})", view.bytes, view.ecn as u8, view.flow)
    }
}

impl Calls {
    /// Calls `admit` or `release`.
    fn decide(
        &self,
        method: Option<&Py<PyAny>>,
        backlog: Backlog,
        now: Time,
        packet: &PacketView,
    ) -> Result<Decision, FromOutside> {
        let Some(method) = method else { return Ok(Decision::Pass) };
        Python::attach(|py| {
            *locked(&self.packet.get().view) = *packet;
            let (packets, bytes) = (backlog.packets, backlog.bytes.get());
            let answer =
                method.bind(py).call1((packets, bytes, now.as_secs_f64(), &self.packet))?;
            let pending = locked(&self.pending);
            if !pending.dropped.is_empty() || !pending.marked.is_empty() {
                return Err("called drop() or mark(); admit and release return DROP or MARK".into());
            }
            decision(&answer)
        })
    }

    fn act(&self, actions: &mut Actions) {
        let mut pending = locked(&self.pending);
        actions.dropped.append(&mut pending.dropped);
        actions.marked.append(&mut pending.marked);
    }
}

/// A Boolean is none, although Python's True is 1: whoever returns it means to accept a packet, not to
/// mark it.
fn decision(answer: &Bound<'_, PyAny>) -> Result<Decision, FromOutside> {
    let number = if answer.is_none() { Some(0) } else { answer.extract::<u8>().ok() };
    let number = number.filter(|_| !answer.is_instance_of::<PyBool>());
    match number {
        Some(0) => Ok(Decision::Pass),
        Some(1) => Ok(Decision::Mark),
        Some(2) => Ok(Decision::Drop),
        _ => Err(format!("returned {answer}, which is none of PASS, MARK and DROP").into()),
    }
}

impl Short for Calls {
    fn admit(
        &mut self,
        backlog: Backlog,
        now: Time,
        packet: &PacketView,
    ) -> Result<Decision, FromOutside> {
        self.decide(self.admit.as_ref(), backlog, now, packet)
    }

    fn release(
        &mut self,
        backlog: Backlog,
        now: Time,
        packet: &PacketView,
    ) -> Result<Decision, FromOutside> {
        self.decide(self.release.as_ref(), backlog, now, packet)
    }
}

impl Chooser for Calls {
    type Fault = FromOutside;

    fn enqueue(
        &mut self,
        now: Time,
        packet: &PacketView,
        actions: &mut Actions,
    ) -> Result<Decision, FromOutside> {
        let Some(enqueue) = &self.enqueue else { return Ok(Decision::Pass) };
        Python::attach(|py| {
            let packet = Packet { view: Mutex::new(*packet), pending: Arc::clone(&self.pending) };
            let answer = enqueue.bind(py).call1((now.as_secs_f64(), packet));
            self.act(actions);
            decision(&answer?)
        })
    }

    fn dequeue(&mut self, now: Time, actions: &mut Actions) -> Result<Option<u64>, FromOutside> {
        let Some(dequeue) = &self.dequeue else { return Ok(None) };
        Python::attach(|py| {
            let answer = dequeue.bind(py).call1((now.as_secs_f64(),));
            self.act(actions);
            let answer = answer?;
            if answer.is_none() {
                return Ok(None);
            }
            match answer.cast::<Packet>() {
                Ok(packet) => Ok(Some(packet.get().view().handle)),
                Err(_) => Err(format!("dequeue returned {answer}, which is no packet").into()),
            }
        })
    }

    fn ready_at(&mut self, now: Time) -> Result<Option<Time>, FromOutside> {
        let Some(ready_at) = &self.ready_at else { return Ok(None) };
        Python::attach(|py| {
            let answer = ready_at.bind(py).call1((now.as_secs_f64(),))?;
            if answer.is_none() {
                return Ok(None);
            }
            let seconds: f64 = answer.extract()?;
            let ps = (seconds * 1e12).round();
            if !(0.0..1e19).contains(&ps) {
                return Err(format!("ready_at returned {answer}, which is no time").into());
            }
            // The first time that, in seconds again, is not before the one that was meant.
            let at = Time::from_ps(ps as u64);
            let short = at.as_secs_f64() < seconds;
            Ok(Some(Time::from_ps(at.as_ps() + u64::from(short))))
        })
    }
}

/// Returns the exception for a fault: the one that was raised, or a `QueueFault` or `ControlFault`
/// that says what was wrong.
pub(crate) fn raised(fault: Fault) -> PyErr {
    let (part, text) = (fault.part, fault.to_string());
    match fault.why.downcast::<PyErr>() {
        Ok(error) => *error,
        Err(_) if part == Part::Control => ControlFault::new_err(text),
        Err(_) => QueueFault::new_err(text),
    }
}
