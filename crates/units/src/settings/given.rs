//! Settings of parts from outside, which declare none.

use alloc::string::String;

/// A setting of a discipline or a congestion control from outside.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Given {
    /// Its key.
    pub key: String,
    /// Its value, as it was written.
    pub text: String,
    /// The same in base units (seconds, bytes, bit/s, 0 or 1 for false or true), if it is a number.
    pub number: Option<f64>,
}
