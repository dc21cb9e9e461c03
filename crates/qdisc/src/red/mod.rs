//! Random Early Detection, in two variants that differ in more than their parameters.

pub mod classic;
pub mod linux;
