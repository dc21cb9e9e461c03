//! The protocol of PROTOCOL.md without I/O: packets and the time in, verdicts and packets out.
