// All settings of the gateway; nothing else declares any. `declare.rs` says what a line means and
// what is made of it, and `build.rs` reads this file too. This command writes the parts of
// SETTINGS.md, the man page and the sample:
// NARROWS_WRITE=1 cargo test -p narrows-gateway --test documents
declare! {
    /// Where the defaults come from: narrows (those listed here) or hayes-2010 (the paper's:
    /// active = false, close = "fin", acknowledge = "at-once", axfr_detect = false,
    /// syncache.active = true).
    preset: Preset = Preset::Narrows, one_of(&PRESETS), "NAME", live;

    /// The interface that clients use; name several as an array, or repeat the flag, if clients
    /// come in or replies leave by any of them.
    interfaces as "interface": Vec<String> = Vec::new(), texts(), "NAME", fixed,
        sample "\"eth0\"";

    /// An address of this machine on which the DNS server listens, over UDP and (for what the
    /// kernel takes over) over TCP; name up to 16 as an array, or repeat the flag.
    servers as "server": Vec<IpAddr> = Vec::new(), addresses(), "ADDRESS", live,
        sample "[\"192.0.2.53\", \"2001:db8::53\"]";

    /// Native (XDP in the driver), generic (XDP in the kernel's receive path), user (user space,
    /// for kernels that can do neither), or auto (native if the driver has it and the device is not
    /// a veth, else generic).
    mode: Mode = Mode::Auto, one_of(&MODES), "MODE", fixed;

    /// The DNS port.
    port: u16 = 53, whole(1, 65_535), "N", live
        => /// The servers' port, in host byte order.
           port: u16 = |it| it.port;

    /// True: serve all clients; false: let everything pass, as if the gateway were not there (after
    /// open connections have ended, see drain); a share such as "10 %": serve new connections of
    /// that share of the clients, chosen by a hash of their addresses, and leave the others to the
    /// kernel's TCP.
    active: Active = Active::ALL, share(), "BOOL|SHARE", live
        => /// Clients whose hash is below this are served; `u32::MAX`: all.
           share: u32 = |it| it.active.share()
        => /// Whether anything is served. Otherwise everything passes.
           active: bool = |it| it.active.any();

    /// How long the server may take to answer a query at all; after that, the kernel's TCP gets the
    /// query when the client sends it again.
    timeout: Span = Span::from_secs(3), span(Span::from_ms(100), MINUTE), "SPAN", live,
        core /// How long an entry waits for the query, the server, or the machine's own TCP.
             timeout: Duration = |it| duration(it.timeout);

    /// How long the server may take to answer over UDP; after that, a query that the client sends
    /// again goes to the server over TCP.
    patience: Span = Span::from_ms(500), span(Span::ZERO, MINUTE), "SPAN", live
        => /// How many microseconds the server may take. A query that comes again after that goes to
           /// the kernel.
           patience_us: u32 = |it| (it.patience.as_ps() / 1_000_000) as u32;

    /// How long a connection may be silent after a reply before the gateway closes it.
    idle: Span = Span::from_secs(30), span(Span::from_secs(1), HOUR), "SPAN", live
        => /// How many milliseconds a connection may be silent.
           idle_ms: u32 = |it| (it.idle.as_ps() / 1_000_000_000) as u32;

    /// Keep (leave the connection open for further queries) or fin (close it with the last segment
    /// of the reply, as in the paper).
    close: Close = Close::Keep, one_of(&[("keep", Close::Keep), ("fin", Close::Fin)]), "WHO", live
        => /// Whether the last segment of a reply has FIN, as in the paper. Otherwise connections are
           /// kept.
           close_fin: bool = |it| it.close == Close::Fin;

    /// When a query is acknowledged: with-reply (by its reply, so that a client that misses the
    /// reply asks again) or at-once (before its reply, as in the paper).
    acknowledge: Acknowledge = Acknowledge::WithReply, one_of(&ACKNOWLEDGE), "WHEN", live
        => /// Whether a query is acknowledged before its reply, as in the paper. Otherwise its reply
           /// acknowledges it.
           at_once: bool = |it| it.acknowledge == Acknowledge::AtOnce;

    /// True: leave zone transfers (AXFR, IXFR) to the kernel's TCP.
    axfr_detect: bool = true, truth(), "BOOL", live
        => axfr_detect: bool = |it| it.axfr_detect;

    /// True: serve the later queries of a connection too; false: the kernel's TCP has the
    /// connection from its second query on.
    later_queries: bool = true, truth(), "BOOL", live
        => later_queries: bool = |it| it.later_queries;

    /// True: also serve queries that a client sends before it has the reply to the one before, up
    /// to 32 of a connection at once (needs later_queries; not in user space); false: the kernel's
    /// TCP has the connection from there on.
    several_queries: bool = true, truth(), "BOOL", live
        => /// Whether queries that come before the previous reply are served too; by the programs
           /// alone.
           several_queries: bool = |it| it.later_queries && it.several_queries;

    /// What is logged: 0 nothing, 1 errors and warnings, 2 what happens to the gateway, 3
    /// everything, for debugging.
    loglevel: u8 = 1, whole(0, 3), "0-3", live
        => loglevel: u8 = |it| it.loglevel;

    /// The EDNS payload size that the gateway asks of the server for queries that came over TCP;
    /// set it to the most that the server may send over UDP.
    edns_size: u16 = 4096, bytes(512, 65_500), "BYTES", live
        => edns_size: u16 = |it| it.edns_size;

    /// The most segments of one reply (1 to 64); the kernel's TCP sends longer replies.
    max_segments: u16 = 10, whole(1, 64), "N", live
        => max_segments: u16 = |it| it.max_segments;

    /// Truncate longer UDP replies to other clients, so that these ask again over TCP; 0: truncate
    /// none.
    truncate_over: u16 = 0, bytes(0, 65_535).but(too_short_for_udp), "BYTES", live
        => /// UDP replies of more bytes than this are truncated; 0: none.
           truncate_over: u16 = |it| it.truncate_over;

    /// A file of 32 hexadecimal digits (openssl rand -hex 16) from which the cookie keys are made,
    /// readable by its owner alone (chmod 600); use the same file on machines that share an address;
    /// without one, this machine makes its own secret.
    secret: Option<PathBuf> = None, file(), "FILE", live;

    /// How long a key makes cookies, at least 64 s.
    rotation: Span = HOUR, span(Span::from_secs(1), Span::from_secs(30 * 86_400)), "SPAN", live;

    /// What SIGTERM and SIGINT leave: detach (the machine as it was) or keep (the kernel goes on
    /// serving, and the next run takes over); SIGUSR2 always keeps.
    on_exit: OnExit = OnExit::Detach, one_of(&ON_EXIT), "WHAT", live;

    /// In-kernel modes: how long SIGTERM and SIGINT leave the programs attached for open
    /// connections, while new ones go to the kernel's TCP; it ends sooner if no connection is open;
    /// 0 s: detach at once, which resets open connections.
    drain_for: Span = Span::from_secs(10), span(Span::ZERO, Span::from_secs(600)), "SPAN", live;

    /// The loopback address and port on which Prometheus reads /metrics; empty: none.
    metrics: Option<SocketAddr> = None, loopback(), "ADDRESS:PORT", fixed,
        sample "\"127.0.0.1:9053\"";

    /// How long each server address may take to answer a first query over UDP; if none answers, the
    /// gateway does not start.
    server_wait: Span = Span::from_secs(3), span(Span::from_ms(100), Span::from_secs(600)), "SPAN", fixed,
        sample "\"60 s\"";

    /// In-kernel modes: how often a client in a network namespace of its own tries each server
    /// address, as check --deep does, from the start on; 0 s: never.
    check_every: Span = Span::from_secs(300), span(Span::ZERO, DAY).but(below_a_second), "SPAN", fixed;

    /// How many queries such a check, or check --deep, sends at once on a connection that has
    /// answered two; the server must take two more than this on a connection (servers with Go's
    /// miekg/dns take 128).
    check_queries: u16 = 100, whole(1, 1000), "N", live;

    /// Where the bpf file system is mounted; the gateway mounts it if it is not.
    bpffs: PathBuf = PathBuf::from("/sys/fs/bpf"), directory(), "DIR", fixed;

    [syncache: SynCache = "The SYN cache of the paper, in place of cookies alone."]

    /// True: keep an entry for each SYN, as in the paper; false: use cookies alone, without state
    /// before the query.
    active: bool = false, truth(), "BOOL", live
        => /// Whether each SYN makes an entry, as in the paper. Otherwise there are only cookies.
           syncache: bool = |it| it.syncache.active;

    /// Buckets of the SYN cache.
    hashsize: u32 = 512, whole(1, 1 << 20), "N", fixed,
        core /// The buckets of the SYN cache (the paper's hash size).
             hashsize: u32 = |it| it.syncache.hashsize;

    /// The most entries of the SYN cache; further SYNs get a cookie alone.
    cachelimit: u32 = 15_360, whole(1, 1 << 24), "N", live
        => /// The most entries in state SYN at once (the paper's cache limit).
           syncache_limit: u32 = |it| it.syncache.cachelimit;

    /// The most entries in one bucket of the SYN cache.
    bucketlimit: u32 = 30, whole(1, 1 << 24), "N", live
        => /// The most entries in state SYN in one bucket (the paper's bucket limit).
           syncache_bucket_limit: u32 = |it| it.syncache.bucketlimit;

    [limits: Limits = "How much one source may use. A source is an IPv4 address, or the first 64 bits of an IPv6 address."]

    /// SYNs a second that one source (an IPv4 address, or 64 bits of an IPv6 address) gets
    /// answered; 0: no limit, because anybody can send SYNs in another's name and use up that
    /// source's limit.
    syn_rate: u32 = 0, whole(0, 100_000_000), "N", live
        => /// Nanoseconds between two SYNs of one source, on average; 0: no limit.
           syn_interval_ns: u64 = |it| interval_ns(it.limits.syn_rate);

    /// SYNs that one source gets answered at once after silence.
    syn_burst: u32 = 5000, whole(1, 100_000_000), "N", live
        => /// Nanoseconds of credit that a quiet source collects for SYNs.
           syn_burst_ns: u64 = |it| burst_ns(it.limits.syn_rate, it.limits.syn_burst);

    /// Queries a second of one source that reach the server over UDP, including those that come
    /// again; the kernel's TCP serves the others; 0: no limit.
    query_rate: u32 = 2000, whole(0, 100_000_000), "N", live
        => /// Nanoseconds between two queries of one source, on average; 0: no limit.
           query_interval_ns: u64 = |it| interval_ns(it.limits.query_rate);

    /// Queries of one source that reach the server at once after silence.
    query_burst: u32 = 2000, whole(1, 100_000_000), "N", live
        => /// Nanoseconds of credit that a quiet source collects for queries.
           query_burst_ns: u64 = |it| burst_ns(it.limits.query_rate, it.limits.query_burst);

    /// Connections of one source that the kernel's TCP has; while the server leaves more than half
    /// of its listen backlog waiting, a source with that many waits until it accepts some; 0: no
    /// limit.
    adoptions: u32 = 64, whole(0, 100_000_000), "N", live
        => /// A source's connections in the kernel's TCP above which it waits; 0: no limit. By the
           /// programs alone.
           adoptions: u32 = |it| it.limits.adoptions;

    [cache: Cache = "The sizes of what is stored. Kernel maps have these sizes, so a change needs a restart."]

    /// The most connections that have sent a query; if there are more, the one that is longest
    /// unused goes.
    connections: u32 = 262_144, whole(1024, 1 << 24), "N", fixed,
        core /// The most connections at once. If there are more, the least recently used one is removed.
             flows: usize = |it| it.cache.connections as usize;

    /// The most sources whose rates are followed.
    sources: u32 = 65_536, whole(1024, 1 << 24), "N", fixed,
        core /// The most sources whose rates are known at once.
             sources: usize = |it| it.cache.sources as usize;

    /// The most names remembered because only the kernel's TCP can send their replies.
    names: u32 = 4096, whole(64, 1 << 24), "N", fixed,
        core /// The most names with large replies that are remembered at once.
             large: usize = |it| it.cache.names as usize;

    /// How long such a name is remembered.
    names_for: Span = Span::from_secs(600), span(Span::ZERO, DAY), "SPAN", live
        => /// How many nanoseconds a name with a large reply is remembered.
           large_ns: u64 = |it| it.cache.names_for.as_ps() / 1000;

    /// Memory for queries and replies that may have to be sent again; a power of two from 256 KiB
    /// to 1 GiB.
    ring: u32 = 16 << 20, bytes(256 << 10, 1 << 30).but(no_power_of_two), "BYTES", fixed,
        core /// The bytes of the ring of queries and replies; rounded up to a power of two.
             ring: usize = |it| it.cache.ring as usize;

    [user: User = "The user-space data path in mode user."]

    /// Mode user: tun (the gateway makes a TUN device with the interface's name and routes the
    /// server addresses into it; needs CAP_NET_ADMIN) or packet (it reads packets as they come in
    /// on the interface; needs CAP_NET_RAW).
    link: UserLink = UserLink::Tun, one_of(&[("tun", UserLink::Tun), ("packet", UserLink::Packet)]), "KIND", fixed;

    /// Mode user: where the DNS server itself listens, over UDP and TCP; one for all server
    /// addresses, or one for each.
    upstream: Vec<SocketAddr> = Vec::new(), sockets(), "ADDRESS:PORT", fixed;

    /// Mode user: the most queries that are with the server at once; the gateway drops more, and
    /// clients ask again.
    queries: u32 = 16_384, whole(1, 262_144), "N", fixed;

    /// Mode user: the most connections that go on with TCP at once, of which one source has at most
    /// an eighth while half are taken; further ones wait.
    relays: u32 = 1024, whole(1, 65_536), "N", fixed;

    /// Mode user: how a header of the PROXY protocol (version 2) tells the server its client: none,
    /// stream (before each query over UDP and on each connection; says that the client came over
    /// TCP) or datagram (before queries over UDP alone; says that the client came over UDP, for
    /// Knot); the server must be set to take the header.
    proxy_protocol: Option<Transport> = None, one_of(&PROXIED), "KIND", fixed;
}
