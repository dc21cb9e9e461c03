//! Prints a digest of the tables of a run in which everything happens: RED with ECN, a ring, DNS,
//! jitter, loss, bursts, two TCP profiles. `tests/runs/test_determinism.py` compares builds with
//! it.

#[allow(dead_code, reason = "the tests use more of it")]
#[path = "../tests/common/mod.rs"]
mod common;

fn main() {
    for seed in 1..=3 {
        let mut plan = common::busy_plan();
        plan.seed = seed;
        let simulation = common::run(plan);
        // FNV-1a, 64 bits.
        let digest = common::fingerprint(&simulation)
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
            });
        println!("{seed} {} {digest:016x}", simulation.events());
    }
}
