"""Memory of the simulator for each flow, segment and packet: `make bench-memory`.

The numbers come from `benchmarks/memory`, a program that runs the simulator with a counting
allocator. The last line of stdout is a JSON object with the bytes that each takes.
"""

import subprocess
import sys

import measure

BOUNDS = {
    "bytes_per_flow": ("TCP flow, its plan and its rows in the tables included", 1000),
    "bytes_per_segment_in_flight": ("segment in flight, at the sender", 32),
    "bytes_per_queued_packet": ("packet in a FIFO, with its place there", 64),
    "bytes_per_packet_in_red": ("packet in RED, with its place there", 64),
    "bytes_per_packet_in_scheduled_pfifo": ("the same, with an event for each departure", 64),
    "bytes_per_packet_in_scheduled_codel": ("packet in CoDel", 64),
    "bytes_per_packet_in_scheduled_drr": ("packet in DRR", 64),
    "bytes_per_packet_in_scheduled_sfq": ("packet in SFQ", 64),
    "bytes_per_packet_on_the_wire": ("packet on a wire", 64),
}
"""What is measured, and how many bytes it may take."""


def main() -> int:
    """Builds and runs the program, prints, and returns the exit code."""
    manifest = measure.HERE / "memory" / "Cargo.toml"
    target = measure.HERE.parent / "target" / "bench-memory"
    command = ["cargo", "run", "--quiet", "--release", "--locked"]
    command += ["--manifest-path", str(manifest), "--target-dir", str(target)]
    program = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if program.returncode != 0:
        print("bench_memory.py: benchmarks/memory failed", file=sys.stderr)
        return 1
    said = measure.parse(program.stdout)
    rows = [
        [name, f"{said[key]:.1f}", str(bound), "yes" if said[key] <= bound else "no"]
        for key, (name, bound) in BOUNDS.items()
    ]
    print(measure.table(["bytes for each", "measured", "at most", "kept"], rows))
    print(program.stdout.splitlines()[-1])
    return 0


if __name__ == "__main__":
    sys.exit(main())
