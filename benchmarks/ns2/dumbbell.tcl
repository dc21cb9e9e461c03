# Scenarios B1 and B2 in ns-2: TCP sources over one bottleneck, that send bursts or without end.
#
#   ns dumbbell.tcl KEY VALUE KEY VALUE ...
#
# Every key below has to be given; the benchmarks take the values from the plans that narrows runs.
# The last line of output is one JSON object. Times are seconds, rates bit/s, sizes bytes.

set started [clock milliseconds]
array set p $argv
foreach key {sources seconds seed access_bps bottleneck_bps sender_delay_s bottleneck_delay_s
    receiver_delay_s discipline limit_packets access_limit_packets red_min red_max red_weight red_max_p
    red_gentle red_wait ecn drr_quantum segment_bytes header_bytes ack_bytes burst_packets idle_mean_s
    starts_s initial_window min_rto_s initial_rto_s sample_hz} {
    if {![info exists p($key)]} { puts stderr "dumbbell.tcl: no value for $key"; exit 2 }
}

# Only the headers in use: ns-2 allocates all of them in every packet otherwise.
remove-all-packet-headers
add-packet-header IP TCP Flags

set packet_bytes [expr {$p(segment_bytes) + $p(header_bytes)}]
set unbounded 1000000

Agent/TCP set packetSize_ $p(segment_bytes)
Agent/TCP set tcpip_base_hdr_size_ $p(header_bytes)
Agent/TCP set window_ $unbounded
Agent/TCP set windowInit_ $p(initial_window)
Agent/TCP set minrto_ $p(min_rto_s)
Agent/TCP set rtxcur_init_ $p(initial_rto_s)
Agent/TCP set slow_start_restart_ false
Agent/TCP set ecn_ $p(ecn)
Agent/TCPSink set packetSize_ $p(ack_bytes)

Queue/RED set bytes_ false
Queue/RED set queue_in_bytes_ false
Queue/RED set mean_pktsize_ $packet_bytes
Queue/RED set thresh_ $p(red_min)
Queue/RED set maxthresh_ $p(red_max)
Queue/RED set q_weight_ $p(red_weight)
Queue/RED set linterm_ [expr {1.0 / $p(red_max_p)}]
Queue/RED set gentle_ $p(red_gentle)
Queue/RED set wait_ $p(red_wait)
Queue/RED set adaptive_ 0
Queue/RED set setbit_ $p(ecn)

# A bucket for each source: the hash of the source's address is below 1024 here, and different for
# every second node.
Queue/DRR set buckets_ 4096
Queue/DRR set blimit_ [expr {$p(limit_packets) * $packet_bytes}]
Queue/DRR set quantum_ $p(drr_quantum)
Queue/DRR set mask_ 0

# Routes by hand: computing all shortest paths between a thousand nodes takes four times as long as
# the rest of the set-up.
set ns [new Simulator]
$ns rtproto Manual
set rng [new RNG]
$rng seed $p(seed)
set idle [new RandomVariable/Exponential]
$idle set avg_ $p(idle_mean_s)
$idle use-rng $rng

set r1 [$ns node]
set r2 [$ns node]
$ns simplex-link $r1 $r2 $p(bottleneck_bps) $p(bottleneck_delay_s) $p(discipline)
$ns simplex-link $r2 $r1 $p(bottleneck_bps) $p(bottleneck_delay_s) DropTail
$ns queue-limit $r1 $r2 $p(limit_packets)
$ns queue-limit $r2 $r1 $p(access_limit_packets)
[$r1 get-module Manual] add-route-to-adj-node -default $r2
[$r2 get-module Manual] add-route-to-adj-node -default $r1
set monitor [$ns monitor-queue $r1 $r2 ""]

for {set i 0} {$i < $p(sources)} {incr i} {
    set source [$ns node]
    set sink [$ns node]
    $ns duplex-link $source $r1 $p(access_bps) $p(sender_delay_s) DropTail
    $ns duplex-link $r2 $sink $p(access_bps) $p(receiver_delay_s) DropTail
    [$source get-module Manual] add-route-to-adj-node -default $r1
    [$sink get-module Manual] add-route-to-adj-node -default $r2
    [$r1 get-module Manual] add-route-to-adj-node $source
    [$r2 get-module Manual] add-route-to-adj-node $sink
    foreach {a b} [list $source $r1 $r1 $source $r2 $sink $sink $r2] {
        $ns queue-limit $a $b $p(access_limit_packets)
    }
    set tcp($i) [new Agent/TCP/Reno]
    $ns attach-agent $source $tcp($i)
    set receiver [new Agent/TCPSink]
    $ns attach-agent $sink $receiver
    $ns connect $tcp($i) $receiver
    set flow_of($tcp($i)) $i
}

set bursts 0
set completion_total 0.0

# Every burst starts as a new connection would: window and threshold afresh.
proc start_burst {i} {
    global ns p tcp unbounded burst_start
    set burst_start($i) [$ns now]
    $tcp($i) set cwnd_ $p(initial_window)
    $tcp($i) set ssthresh_ $unbounded
    # What Agent/FTP does, where a source sends without end.
    $tcp($i) advanceby [expr {$p(burst_packets) > 0 ? $p(burst_packets) : 1 << 29}]
}

# ns-2 calls this when everything that the application gave is acknowledged.
Agent/TCP instproc done {} {
    global ns idle flow_of burst_start bursts completion_total
    set i $flow_of($self)
    incr bursts
    set completion_total [expr {$completion_total + [$ns now] - $burst_start($i)}]
    $ns at [expr {[$ns now] + [$idle value]}] "start_burst $i"
}

set samples 0
set backlog_total 0
proc sample {} {
    global ns p monitor samples backlog_total
    incr samples
    incr backlog_total [$monitor set pkts_]
    $ns at [expr {[$ns now] + 1.0 / $p(sample_hz)}] sample
}

proc finish {} {
    global p tcp monitor started running bursts completion_total samples backlog_total packet_bytes
    set finished [clock milliseconds]
    set acked 0
    set retransmitted 0
    set timeouts 0
    for {set i 0} {$i < $p(sources)} {incr i} {
        incr acked [expr {[$tcp($i) set ack_] + 1}]
        incr retransmitted [$tcp($i) set nrexmitpack_]
        incr timeouts [$tcp($i) set nrexmit_]
    }
    set packets [$monitor set pdepartures_]
    # Not from bdepartures_, which is a 32-bit integer.
    set sent_bits [expr {8.0 * $packets * $packet_bytes}]
    puts [format {{"setup_s": %.3f, "run_s": %.3f, "packets": %d, "drops": %d, "goodput_mbps": %.3f, "bursts": %d, "completion_s": %.4f, "utilisation": %.4f, "backlog_packets": %.1f, "retransmitted": %d, "timeouts": %d}} \
        [expr {($running - $started) / 1e3}] [expr {($finished - $running) / 1e3}] \
        $packets [$monitor set pdrops_] \
        [expr {$acked * $p(segment_bytes) * 8.0 / $p(seconds) / 1e6}] \
        $bursts [expr {$completion_total / max($bursts, 1)}] \
        [expr {$sent_bits / $p(seconds) / $p(bottleneck_bps)}] \
        [expr {double($backlog_total) / max($samples, 1)}] $retransmitted $timeouts]
    exit 0
}

# The first event: routes are computed by then.
$ns at 0.0 {set running [clock milliseconds]}
$ns at [expr {1.0 / $p(sample_hz)}] sample
for {set i 0} {$i < $p(sources)} {incr i} { $ns at [lindex $p(starts_s) $i] "start_burst $i" }
$ns at $p(seconds) finish
$ns run
