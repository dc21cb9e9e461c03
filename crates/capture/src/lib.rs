//! Simulated packets as pcapng.
