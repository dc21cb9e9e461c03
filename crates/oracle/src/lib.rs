//! Nothing but tests: `tests/` holds narrows-transport against other implementations. They stand in
//! a crate of their own, because these implementations take long to build.
