/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * How long threads were on a processor, from switch to switch. Why not schedstat: see cpu.py.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

struct task_struct {
	int pid;
} __attribute__((preserve_access_index));

/* Threads that count, by their number, and nanoseconds. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, __u64);
} spent SEC(".maps");

/* When the running thread was switched in. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} since SEC(".maps");

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, _Bool preempted, struct task_struct *before, struct task_struct *after)
{
	__u32 zero = 0, thread = before->pid;
	__u64 now = bpf_ktime_get_ns(), *start = bpf_map_lookup_elem(&since, &zero), *sum;

	if (!start)
		return 0;
	sum = bpf_map_lookup_elem(&spent, &thread);
	if (sum && *start)
		__sync_fetch_and_add(sum, now - *start);
	*start = now;
	return 0;
}

char _license[] SEC("license") = "GPL";
