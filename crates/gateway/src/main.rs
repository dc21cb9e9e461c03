//! `narrows-gateway`: stateless TCP in front of any DNS server.

fn main() {}
