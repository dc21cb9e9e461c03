//! Applications from outside this crate: their settings in a plan.

use core::fmt;
use std::sync::Arc;

use crate::{Application, Environment, Settings, Use};

/// The settings of an application from outside this crate.
pub trait Outside: fmt::Debug + Send + Sync {
    /// Checks whether the application can work with the rest of the plan. Returns the number of flows
    /// that it sets up.
    ///
    /// # Errors
    ///
    /// Returns what is wrong, in one line that begins with the setting.
    fn check(&self, environment: &Environment<'_>) -> Result<usize, String>;

    /// Returns the paths along which it sends, each with its shortest IP packet. For TCP that is an
    /// acknowledgement of [`Use::ACK`] bytes. The simulator uses this to compute ahead.
    fn uses(&self, environment: &Environment<'_>) -> Vec<Use>;

    /// Creates the application. `name` is its name in the plan.
    fn build(&self, name: &str) -> Box<dyn Application>;
}

/// An application from outside, in a plan.
#[derive(Clone, Debug)]
pub struct Custom(Arc<dyn Outside>);

impl Custom {
    pub(crate) fn new(settings: impl Outside + 'static) -> Self {
        Self(Arc::new(settings))
    }
}

impl Settings for Custom {
    fn check(&self, environment: &Environment<'_>) -> Result<usize, String> {
        let flows = self.0.check(environment)?;
        match self.0.uses(environment).iter().find(|using| using.path >= environment.paths.len()) {
            Some(unknown) => Err(format!("uses: no path {}", unknown.path)),
            None => Ok(flows),
        }
    }

    fn uses(&self, environment: &Environment<'_>) -> Vec<Use> {
        self.0.uses(environment)
    }

    fn build(self, name: &str) -> Box<dyn Application> {
        self.0.build(name)
    }
}
