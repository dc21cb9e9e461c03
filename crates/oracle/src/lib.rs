//! Nothing but tests: `tests/` holds narrows-transport against other implementations, and `examples/`
//! puts another one over narrows-link. They stand in a crate of their own, because these
//! implementations take long to build.
