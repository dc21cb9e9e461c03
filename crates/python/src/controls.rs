//! Congestion controls from outside: those of shared objects, of Python objects, and of compiled
//! functions.

use std::sync::Mutex;

use narrows_plugin::{
    BareControl, CAck, Call, Faults, FromOutside, Library, Part, Reno, Sending, Steer,
    SteeredControl,
};
use narrows_sim::plan::Plan;
use narrows_sim::tcp::{Congestion, CongestionControl, laws};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};

use crate::outside::{broken_law, locked, raised};

/// Adds the class and the function of this file to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Ack>()?;
    module.add_function(wrap_pyfunction!(check_control_laws, module)?)
}

/// Checks the laws of congestion controls for what a function makes from a seed. Returns the law
/// that it broke; raises what it raises, or a ControlFault.
#[pyfunction]
fn check_control_laws(maker: Py<PyAny>) -> PyResult<Option<String>> {
    let faults = Faults::default();
    let title = Python::attach(|py| -> PyResult<String> {
        Ok(maker.bind(py).call1((0,))?.get_type().name()?.to_string())
    })?;
    let congestion = congestion(&title, maker, &faults)?;
    let broken = broken_law(|| laws::check(&congestion));
    match faults.take() {
        Some(fault) => Err(raised(fault)),
        None => Ok(broken),
    }
}

/// Puts congestion controls from outside into a plan, by their names: those of Python objects, each
/// made by a call with the seed of its own, and those of shared objects.
pub(crate) fn bind(
    plan: &mut Plan,
    libraries: &[Library],
    controls: Option<&Bound<'_, PyDict>>,
    faults: &Faults,
) -> PyResult<()> {
    for config in &mut plan.tcp {
        config.congestion.bind(|custom| {
            let name = custom.name();
            let refused = |why: &str| PyValueError::new_err(format!("tcp.congestion: {why}"));
            let mine = controls.map(|controls| controls.get_item(name)).transpose()?.flatten();
            let offers: Vec<_> =
                libraries.iter().filter_map(|library| library.control(name)).collect();
            match (mine, offers.as_slice()) {
                (Some(_), []) if !custom.settings().is_empty() => {
                    Err(refused(&format!("{name:?} is a class; it takes its settings in Python")))
                }
                (Some(maker), []) => congestion(name, maker.unbind(), faults),
                (None, [offer]) => offer
                    .congestion(custom.settings(), faults)
                    .map_err(|why| refused(&format!("{name:?} {why}"))),
                (None, []) => Err(refused(&format!("no class and no plugin offers {name:?}"))),
                _ => Err(refused(&format!("several classes or plugins offer {name:?}"))),
            }
        })?;
    }
    Ok(())
}

/// What a maker returns: a Python object, or addresses of compiled functions.
enum Made {
    Calls(Calls, Sending),
    /// The object keeps the functions and their state.
    Bare(BareControl<Py<PyAny>>, Sending),
}

/// TCP's setting for a control that `maker` makes when it is called with a seed.
fn congestion(name: &str, maker: Py<PyAny>, faults: &Faults) -> PyResult<Congestion> {
    // The first is made to see whether it can be made.
    let title = Python::attach(|py| -> PyResult<String> {
        made(py, &maker, 0)?;
        Ok(maker.bind(py).call1((0,))?.get_type().name()?.to_string())
    })?;
    let faults = faults.at(name);
    Ok(Congestion::custom_boxed(name, move |seed| -> Box<dyn CongestionControl> {
        match Python::attach(|py| made(py, &maker, seed)) {
            Ok(Made::Calls(calls, sending)) => {
                Box::new(SteeredControl::new(&title, calls, sending, faults.clone()))
            }
            Ok(Made::Bare(bare, sending)) => {
                Box::new(SteeredControl::new(&title, bare, sending, faults.clone()))
            }
            Err(why) => {
                faults.report(Part::Control, &title, why);
                Box::new(Reno)
            }
        }
    }))
}

fn made(py: Python<'_>, maker: &Py<PyAny>, seed: u32) -> PyResult<Made> {
    let object = maker.bind(py).call1((seed,))?;
    let title = object.get_type().name()?.to_string();
    let owns_window: bool = object.getattr(intern!(py, "owns_window"))?.extract()?;
    let sending =
        sending(&object).map_err(|why| PyTypeError::new_err(format!("{title}: {why}")))?;
    if let Ok(addresses) = object.getattr(intern!(py, "addresses")) {
        let (calls, state): ([usize; 8], usize) = addresses.extract()?;
        let bare = BareControl::at(calls, owns_window, state, object.unbind());
        return Ok(Made::Bare(bare, sending));
    }
    let mut methods = [const { None }; 8];
    for call in Call::ALL {
        let found = object.getattr_opt(PyString::intern(py, call.name()))?;
        methods[call as usize] = found.filter(|found| !found.is_none()).map(Bound::unbind);
    }
    if let Some(wrong) = Call::wrong(owns_window, |call| methods[call as usize].is_some()) {
        return Err(PyTypeError::new_err(format!("{title} {wrong}")));
    }
    let ack = Py::new(py, Ack { heard: Mutex::new(CAck::default()) })?;
    // Whatever TCP has differs from it, so the object gets TCP's values before the first call.
    let known = Sending { cwnd: f64::NAN, ssthresh: f64::NAN, pacing_rate: f64::NAN };
    let object = object.unbind();
    Ok(Made::Calls(Calls { object, methods, owns_window, ack, known }, sending))
}

/// The methods of a Python object.
struct Calls {
    object: Py<PyAny>,
    /// In the order of [`Call::ALL`].
    methods: [Option<Py<PyAny>>; 8],
    owns_window: bool,
    /// The object that the methods get, with another acknowledgement each time.
    ack: Py<Ack>,
    /// The values that the object's attributes have.
    known: Sending,
}

impl Steer for Calls {
    fn call(&mut self, call: Call, heard: &CAck, sets: &mut Sending) -> Result<(), FromOutside> {
        let Some(method) = &self.methods[call as usize] else { return Ok(()) };
        Python::attach(|py| {
            let object = self.object.bind(py);
            // NaN differs from itself.
            if sets.cwnd != self.known.cwnd {
                object.setattr(intern!(py, "cwnd"), sets.cwnd)?;
            }
            if sets.ssthresh != self.known.ssthresh {
                object.setattr(intern!(py, "ssthresh"), sets.ssthresh)?;
            }
            if sets.pacing_rate != self.known.pacing_rate {
                let rate = Some(sets.pacing_rate).filter(|rate| rate.is_finite());
                object.setattr(intern!(py, "pacing_rate"), rate)?;
            }
            let now = seconds(heard.now);
            let method = method.bind(py);
            match call {
                Call::Start => method.call1((heard.mss, seconds(heard.smoothed_rtt)))?,
                Call::Ack | Call::Grow => {
                    *locked(&self.ack.get().heard) = *heard;
                    method.call1((&self.ack,))?
                }
                Call::Restart => method.call1((now, seconds(heard.idle)))?,
                Call::Loss | Call::Ecn | Call::Timeout | Call::Undo => {
                    method.call1(PyTuple::new(py, [now])?)?
                }
            };
            *sets = sending(object)?;
            self.known = *sets;
            Ok(())
        })
    }

    fn handles(&self, call: Call) -> bool {
        self.methods[call as usize].is_some()
    }

    fn owns_window(&self) -> bool {
        self.owns_window
    }
}

/// What the attributes of an object say. NaN: it has none; infinite: it is None.
fn sending(object: &Bound<'_, PyAny>) -> Result<Sending, FromOutside> {
    let py = object.py();
    let number = |name: &Bound<'_, PyString>, absent: f64| -> Result<f64, FromOutside> {
        match object.getattr_opt(name)? {
            Some(value) if !value.is_none() => value.extract().map_err(|_| {
                let value = value.repr().map_or_else(|_| "it".into(), |repr| repr.to_string());
                let short: String = value.chars().take(40).collect();
                format!("{name} is {short}, which is no number").into()
            }),
            _ => Ok(absent),
        }
    };
    Ok(Sending {
        cwnd: number(intern!(py, "cwnd"), f64::NAN)?,
        ssthresh: number(intern!(py, "ssthresh"), f64::NAN)?,
        pacing_rate: number(intern!(py, "pacing_rate"), f64::INFINITY)?,
    })
}

fn seconds(ps: u64) -> Option<f64> {
    (ps != u64::MAX).then_some(ps as f64 / 1e12)
}

/// What an acknowledgement tells a congestion control. Counts are segments, times seconds.
///
/// `on_ack` and `grow` get the same object each time, so keep its values and not the object.
#[pyclass(module = "narrows.controls", frozen)]
struct Ack {
    heard: Mutex<CAck>,
}

impl Ack {
    fn heard(&self) -> CAck {
        *locked(&self.heard)
    }
}

#[pymethods]
impl Ack {
    /// The simulated time.
    #[getter]
    fn now(&self) -> f64 {
        self.heard().now as f64 / 1e12
    }

    /// What it acknowledges or SACKs.
    #[getter]
    fn acked(&self) -> u32 {
        self.heard().acked
    }

    /// What it shows to be lost.
    #[getter]
    fn lost(&self) -> u32 {
        self.heard().lost
    }

    /// What it reports as marked; 0 without Accurate ECN.
    #[getter]
    fn marked(&self) -> u32 {
        self.heard().marked
    }

    /// The round trip of the newest segment that it acknowledges.
    #[getter]
    fn rtt(&self) -> Option<f64> {
        seconds(self.heard().rtt)
    }

    /// The smoothed round trip.
    #[getter]
    fn smoothed_rtt(&self) -> Option<f64> {
        seconds(self.heard().smoothed_rtt)
    }

    /// The shortest round trip of the connection.
    #[getter]
    fn shortest_rtt(&self) -> Option<f64> {
        seconds(self.heard().shortest_rtt)
    }

    /// How fast the path has delivered payload, in bit/s; None if it does not say.
    #[getter]
    fn delivery_rate(&self) -> Option<f64> {
        Some(self.heard().delivery_rate).filter(|rate| !rate.is_nan())
    }

    /// Whether the application limited the sender when what it acknowledges was sent.
    #[getter]
    fn app_limited(&self) -> bool {
        self.heard().app_limited != 0
    }

    /// Whether the window limits the sender, rather than the application or the receiver.
    #[getter]
    fn window_limited(&self) -> bool {
        self.heard().window_limited != 0
    }

    /// What is in flight after it.
    #[getter]
    fn in_flight(&self) -> u32 {
        self.heard().in_flight
    }

    /// What was in flight before it.
    #[getter]
    fn prior_in_flight(&self) -> u32 {
        self.heard().prior_in_flight
    }

    /// What the connection has delivered, modulo 2^32.
    #[getter]
    fn delivered(&self) -> u32 {
        self.heard().delivered
    }

    /// What it had delivered when the newest of these segments was sent, modulo 2^32.
    #[getter]
    fn prior_delivered(&self) -> u32 {
        self.heard().prior_delivered
    }

    /// The payload of a full segment in bytes.
    #[getter]
    fn mss(&self) -> u32 {
        self.heard().mss
    }

    /// The congestion state: "open", "disorder", "cwr", "recovery" or "loss".
    #[getter]
    fn state(&self) -> &'static str {
        match self.heard().state {
            0 => "open",
            1 => "disorder",
            2 => "cwr",
            3 => "recovery",
            _ => "loss",
        }
    }

    fn __repr__(&self) -> String {
        let CAck { acked, in_flight, .. } = self.heard();
        format!("Ack({acked} acked, {in_flight} in flight, {})", self.state())
    }
}
