include!(concat!(env!("OUT_DIR"), "/gateway.skel.rs"));
