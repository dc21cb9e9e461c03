//! Applications from outside: settings of one, to be put into a plan.

use core::fmt;
use std::sync::Arc;

use super::{Application, Kind, Settings, Use};
use crate::plan::Plan;

/// Settings of an application that is not ours.
pub trait Outside: fmt::Debug + Send + Sync {
    /// Whether the application can live by this plan; gives the number of flows that it sets up.
    ///
    /// # Errors
    ///
    /// What is wrong, in one line that begins with the setting.
    fn check(&self, plan: &Plan) -> Result<usize, String>;

    /// The paths that it sends along, each with the shortest IP packet on it: for TCP that is an
    /// acknowledgement of [`Use::ACK`] bytes. The simulator computes ahead what this allows.
    fn uses(&self, plan: &Plan) -> Vec<Use>;

    /// The application itself; `name` is the one that the plan gives it.
    fn build(&self, name: &str) -> Box<dyn Application>;
}

/// An application from outside, in a plan.
#[derive(Clone, Debug)]
pub struct Custom(Arc<dyn Outside>);

impl Kind {
    /// An application that is not ours.
    pub fn custom(settings: impl Outside + 'static) -> Self {
        Self::Custom(Custom(Arc::new(settings)))
    }
}

impl Settings for Custom {
    fn check(&self, plan: &Plan) -> Result<usize, String> {
        let flows = self.0.check(plan)?;
        match self.0.uses(plan).iter().find(|using| using.path >= plan.paths.len()) {
            Some(unknown) => Err(format!("uses: no path {}", unknown.path)),
            None => Ok(flows),
        }
    }

    fn uses(&self, plan: &Plan) -> Vec<Use> {
        self.0.uses(plan)
    }

    fn build(self, name: &str) -> Box<dyn Application> {
        self.0.build(name)
    }
}
