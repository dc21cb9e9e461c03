//! All keys: the name in the file (and as a flag, with `-` for `.` and `_`), the kind and the help
//! text. The file is one list, and grows with each key; `value.rs` reads the kinds of values.

use std::net::SocketAddr;
use std::path::PathBuf;

use narrows_units::{Bytes, Span};

pub use super::value::{Raw, Wrong};
use super::value::{
    active, addresses, bytes, one_of, quoted, show_bytes, show_span, sockets, span, text, texts,
    truth, whole, wrong,
};
use super::{Acknowledge, Active, Close, Config, Mode, OnExit, Preset, UserLink};
use crate::user::proxied::Transport;

/// A key.
#[derive(Debug)]
pub struct Key {
    /// Its name in the file: `timeout`, `syncache.hashsize`.
    pub name: &'static str,
    /// What stands for the value behind the flag: `SPAN`, `N`, ...
    pub placeholder: &'static str,
    /// Whether a running gateway takes a new value on SIGHUP.
    pub live: bool,
    /// One sentence, lower case, without a full stop.
    pub help: &'static str,
    set: fn(&mut Config, &Raw) -> Result<(), Wrong>,
    show: fn(&Config) -> String,
}

impl Key {
    /// Its flag, without the dashes in front.
    pub fn flag(&self) -> String {
        self.name.replace(['.', '_'], "-")
    }

    /// Sets a value.
    ///
    /// # Errors
    ///
    /// Returns an error if the value has another kind or is out of range.
    pub fn set(&self, config: &mut Config, value: &Raw) -> Result<(), Wrong> {
        (self.set)(config, value)
    }

    /// Its value in `config`, as TOML.
    pub fn show(&self, config: &Config) -> String {
        (self.show)(config)
    }
}

/// Returns the key of this name.
pub fn key(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.name == name)
}

/// All keys, in the order of the reference.
pub static KEYS: &[Key] = &[
    Key {
        name: "preset",
        placeholder: "NAME",
        live: true,
        help: "where the defaults come from: narrows (those listed here) or hayes-2010 (the \
               paper's: active = false, close = \"fin\", acknowledge = \"at-once\", axfr_detect = \
               false, syncache.active = true)",
        set: |config, raw| {
            let names = [("narrows", Preset::Narrows), ("hayes-2010", Preset::Hayes2010)];
            one_of(raw, &names).map(|value| config.preset = value)
        },
        show: |config| {
            quoted(if config.preset == Preset::Narrows { "narrows" } else { "hayes-2010" })
        },
    },
    Key {
        name: "interface",
        placeholder: "NAME",
        live: false,
        help: "the interface that clients use; name several as an array, or repeat the flag, if \
               clients come in or replies leave by any of them",
        set: |config, raw| {
            let mut names = texts(raw)?.into_iter();
            config.interface = names.next().unwrap_or_default();
            config.more_interfaces = names.collect();
            Ok(())
        },
        show: |config| match &config.more_interfaces[..] {
            [] => quoted(&config.interface),
            _ => {
                let names: Vec<String> = config.interfaces().map(quoted).collect();
                format!("[{}]", names.join(", "))
            }
        },
    },
    Key {
        name: "server",
        placeholder: "ADDRESS",
        live: true,
        help: "an address of this machine on which the DNS server listens, over UDP and (for what \
               the kernel takes over) over TCP; name up to 16 as an array, or repeat the flag",
        set: |config, raw| addresses(raw).map(|value| config.servers = value),
        show: |config| {
            let list: Vec<String> =
                config.servers.iter().map(|address| quoted(&address.to_string())).collect();
            format!("[{}]", list.join(", "))
        },
    },
    Key {
        name: "mode",
        placeholder: "MODE",
        live: false,
        help: "native (XDP in the driver), generic (XDP in the kernel's receive path), user (user \
               space, for kernels that can do neither), or auto (native if the driver has it and \
               the device is not a veth, else generic)",
        set: |config, raw| {
            let names = [
                ("auto", Mode::Auto),
                ("native", Mode::Native),
                ("generic", Mode::Generic),
                ("user", Mode::User),
            ];
            one_of(raw, &names).map(|value| config.mode = value)
        },
        show: |config| quoted(&config.mode.to_string()),
    },
    Key {
        name: "port",
        placeholder: "N",
        live: true,
        help: "the DNS port",
        set: |config, raw| whole(raw, 1, 65_535).map(|value| config.port = value),
        show: |config| config.port.to_string(),
    },
    Key {
        name: "active",
        placeholder: "BOOL|SHARE",
        live: true,
        help: "true: serve all clients; false: let everything pass, as if the gateway were not \
               there (after open connections have ended, see drain); a share such as \"10 %\": \
               serve new connections of that share of the clients, chosen by a hash of their \
               addresses, and leave the others to the kernel's TCP",
        set: |config, raw| active(raw).map(|value| config.active = value),
        show: |config| match config.active {
            Active::ALL => "true".into(),
            Active::NONE => "false".into(),
            share => quoted(&format!("{} %", share.percent())),
        },
    },
    Key {
        name: "timeout",
        placeholder: "SPAN",
        live: true,
        help: "how long the server may take to answer a query at all; after that, the kernel's \
               TCP gets the query when the client sends it again",
        set: |config, raw| {
            span(raw, Span::from_ms(100), Span::from_secs(60)).map(|value| config.timeout = value)
        },
        show: |config| show_span(config.timeout),
    },
    Key {
        name: "patience",
        placeholder: "SPAN",
        live: true,
        help: "how long the server may take to answer over UDP; after that, a query that the \
               client sends again goes to the server over TCP",
        set: |config, raw| {
            span(raw, Span::ZERO, Span::from_secs(60)).map(|value| config.patience = value)
        },
        show: |config| show_span(config.patience),
    },
    Key {
        name: "idle",
        placeholder: "SPAN",
        live: true,
        help: "how long a connection may be silent after a reply before the gateway closes it",
        set: |config, raw| {
            span(raw, Span::from_secs(1), Span::from_secs(3600)).map(|value| config.idle = value)
        },
        show: |config| show_span(config.idle),
    },
    Key {
        name: "close",
        placeholder: "WHO",
        live: true,
        help: "keep (leave the connection open for further queries) or fin (close it with the \
               last segment of the reply, as in the paper)",
        set: |config, raw| {
            one_of(raw, &[("keep", Close::Keep), ("fin", Close::Fin)])
                .map(|value| config.close = value)
        },
        show: |config| quoted(if config.close == Close::Keep { "keep" } else { "fin" }),
    },
    Key {
        name: "acknowledge",
        placeholder: "WHEN",
        live: true,
        help: "when a query is acknowledged: with-reply (by its reply, so that a client that \
               misses the reply asks again) or at-once (before its reply, as in the paper)",
        set: |config, raw| {
            let names = [("with-reply", Acknowledge::WithReply), ("at-once", Acknowledge::AtOnce)];
            one_of(raw, &names).map(|value| config.acknowledge = value)
        },
        show: |config| {
            let at_once = config.acknowledge == Acknowledge::AtOnce;
            quoted(if at_once { "at-once" } else { "with-reply" })
        },
    },
    Key {
        name: "axfr_detect",
        placeholder: "BOOL",
        live: true,
        help: "true: leave zone transfers (AXFR, IXFR) to the kernel's TCP",
        set: |config, raw| truth(raw).map(|value| config.axfr_detect = value),
        show: |config| config.axfr_detect.to_string(),
    },
    Key {
        name: "later_queries",
        placeholder: "BOOL",
        live: true,
        help: "true: serve the later queries of a connection too; false: the kernel's TCP has the \
               connection from its second query on",
        set: |config, raw| truth(raw).map(|value| config.later_queries = value),
        show: |config| config.later_queries.to_string(),
    },
    Key {
        name: "several_queries",
        placeholder: "BOOL",
        live: true,
        help: "true: also serve queries that a client sends before it has the reply to the one \
               before, up to 32 of a connection at once (needs later_queries; not in user space); \
               false: the kernel's TCP has the connection from there on",
        set: |config, raw| truth(raw).map(|value| config.several_queries = value),
        show: |config| config.several_queries.to_string(),
    },
    Key {
        name: "loglevel",
        placeholder: "0-3",
        live: true,
        help: "what is logged: 0 nothing, 1 errors and warnings, 2 what happens to the gateway, 3 \
               everything, for debugging",
        set: |config, raw| whole(raw, 0, 3).map(|value| config.loglevel = value),
        show: |config| config.loglevel.to_string(),
    },
    Key {
        name: "edns_size",
        placeholder: "BYTES",
        live: true,
        help: "the EDNS payload size that the gateway asks of the server for queries that came \
               over TCP; set it to the most that the server may send over UDP",
        set: |config, raw| bytes(raw, 512, 65_500).map(|value| config.edns_size = value as u16),
        show: |config| show_bytes(config.edns_size.into()),
    },
    Key {
        name: "max_segments",
        placeholder: "N",
        live: true,
        help: "the most segments of one reply (1 to 64); the kernel's TCP sends longer replies",
        set: |config, raw| whole(raw, 1, 64).map(|value| config.max_segments = value),
        show: |config| config.max_segments.to_string(),
    },
    Key {
        name: "truncate_over",
        placeholder: "BYTES",
        live: true,
        help: "truncate longer UDP replies to other clients, so that these ask again over TCP; 0: \
               truncate none",
        set: |config, raw| {
            let value = bytes(raw, 0, 65_535)?;
            if (1..512).contains(&value) {
                return Err(wrong(
                    "below the 512 B that every client takes (RFC 1035, 4.2.1)",
                    "0 for none, or 512 B and more",
                ));
            }
            config.truncate_over = value as u16;
            Ok(())
        },
        show: |config| show_bytes(config.truncate_over.into()),
    },
    Key {
        name: "secret",
        placeholder: "FILE",
        live: true,
        help: "a file of 32 hexadecimal digits from which the cookie keys are made; use the same \
               file on machines that share an address; without one, this machine makes its own \
               secret",
        set: |config, raw| {
            text(raw).map(|value| {
                config.secret = if value.is_empty() { None } else { Some(PathBuf::from(value)) }
            })
        },
        show: |config| {
            quoted(
                &config
                    .secret
                    .as_deref()
                    .map(|path| path.display().to_string())
                    .unwrap_or_default(),
            )
        },
    },
    Key {
        name: "rotation",
        placeholder: "SPAN",
        live: true,
        help: "how long a key makes cookies, at least 64 s",
        set: |config, raw| {
            span(raw, Span::from_secs(1), Span::from_secs(30 * 86_400))
                .map(|value| config.rotation = value)
        },
        show: |config| show_span(config.rotation),
    },
    Key {
        name: "on_exit",
        placeholder: "WHAT",
        live: true,
        help: "what SIGTERM and SIGINT leave: detach (the machine as it was) or keep (the kernel \
               goes on serving, and the next run takes over); SIGUSR2 always keeps",
        set: |config, raw| {
            one_of(raw, &[("detach", OnExit::Detach), ("keep", OnExit::Keep)])
                .map(|value| config.on_exit = value)
        },
        show: |config| quoted(if config.on_exit == OnExit::Detach { "detach" } else { "keep" }),
    },
    Key {
        name: "drain_for",
        placeholder: "SPAN",
        live: true,
        help: "in-kernel modes: how long SIGTERM and SIGINT leave the programs attached for open \
               connections, while new ones go to the kernel's TCP; it ends sooner if no \
               connection is open; 0 s: detach at once, which resets open connections",
        set: |config, raw| {
            span(raw, Span::ZERO, Span::from_secs(600)).map(|value| config.drain_for = value)
        },
        show: |config| show_span(config.drain_for),
    },
    Key {
        name: "metrics",
        placeholder: "ADDRESS:PORT",
        live: false,
        help: "the loopback address and port on which Prometheus reads /metrics; empty: none",
        set: |config, raw| {
            let value = text(raw)?;
            if value.is_empty() {
                config.metrics = None;
                return Ok(());
            }
            let address: SocketAddr = value.parse().map_err(|_| {
                wrong(format!("{value:?} is not an address and port"), "such as 127.0.0.1:9053")
            })?;
            if !address.ip().is_loopback() {
                return Err(wrong(
                    format!("{} is not a loopback address", address.ip()),
                    "127.0.0.1 or [::1], behind a proxy if others read it",
                ));
            }
            config.metrics = Some(address);
            Ok(())
        },
        show: |config| {
            quoted(&config.metrics.map(|address| address.to_string()).unwrap_or_default())
        },
    },
    Key {
        name: "server_wait",
        placeholder: "SPAN",
        live: false,
        help: "how long each server address may take to answer a first query over UDP; if none \
               answers, the gateway does not start",
        set: |config, raw| {
            span(raw, Span::from_ms(100), Span::from_secs(600))
                .map(|value| config.server_wait = value)
        },
        show: |config| show_span(config.server_wait),
    },
    Key {
        name: "check_every",
        placeholder: "SPAN",
        live: false,
        help: "in-kernel modes: how often a client in a network namespace of its own tries each \
               server address, as check --deep does, from the start on; 0 s: never",
        set: |config, raw| {
            let value = span(raw, Span::ZERO, Span::from_secs(86_400))?;
            if value < Span::from_secs(1) && value != Span::ZERO {
                return Err(wrong("shorter than a second", "such as \"5 min\", or \"0 s\""));
            }
            config.check_every = value;
            Ok(())
        },
        show: |config| show_span(config.check_every),
    },
    Key {
        name: "check_queries",
        placeholder: "N",
        live: true,
        help: "how many queries such a check, or check --deep, sends at once on a connection that \
               has answered two; the server must take two more than this on a connection (servers \
               with Go's miekg/dns take 128)",
        set: |config, raw| whole(raw, 1, 1000).map(|value| config.check_queries = value),
        show: |config| config.check_queries.to_string(),
    },
    Key {
        name: "bpffs",
        placeholder: "DIR",
        live: false,
        help: "where the bpf file system is mounted; the gateway mounts it if it is not",
        set: |config, raw| {
            let value = text(raw)?;
            if !value.starts_with('/') {
                return Err(wrong(
                    format!("{value:?} is not an absolute path"),
                    "such as /sys/fs/bpf",
                ));
            }
            config.bpffs = PathBuf::from(value);
            Ok(())
        },
        show: |config| quoted(&config.bpffs.display().to_string()),
    },
    Key {
        name: "syncache.active",
        placeholder: "BOOL",
        live: true,
        help: "true: keep an entry for each SYN, as in the paper; false: use cookies alone, \
               without state before the query",
        set: |config, raw| truth(raw).map(|value| config.syncache.active = value),
        show: |config| config.syncache.active.to_string(),
    },
    Key {
        name: "syncache.hashsize",
        placeholder: "N",
        live: false,
        help: "buckets of the SYN cache",
        set: |config, raw| whole(raw, 1, 1 << 20).map(|value| config.syncache.hashsize = value),
        show: |config| config.syncache.hashsize.to_string(),
    },
    Key {
        name: "syncache.cachelimit",
        placeholder: "N",
        live: true,
        help: "the most entries of the SYN cache; further SYNs get a cookie alone",
        set: |config, raw| whole(raw, 1, 1 << 24).map(|value| config.syncache.cachelimit = value),
        show: |config| config.syncache.cachelimit.to_string(),
    },
    Key {
        name: "syncache.bucketlimit",
        placeholder: "N",
        live: true,
        help: "the most entries in one bucket of the SYN cache",
        set: |config, raw| whole(raw, 1, 1 << 24).map(|value| config.syncache.bucketlimit = value),
        show: |config| config.syncache.bucketlimit.to_string(),
    },
    Key {
        name: "limits.syn_rate",
        placeholder: "N",
        live: true,
        help: "SYNs a second that one source (an IPv4 address, or 64 bits of an IPv6 address) \
               gets answered; 0: no limit, because anybody can send SYNs in another's name and \
               use up that source's limit",
        set: |config, raw| whole(raw, 0, 100_000_000).map(|value| config.limits.syn_rate = value),
        show: |config| config.limits.syn_rate.to_string(),
    },
    Key {
        name: "limits.syn_burst",
        placeholder: "N",
        live: true,
        help: "SYNs that one source gets answered at once after silence",
        set: |config, raw| whole(raw, 1, 100_000_000).map(|value| config.limits.syn_burst = value),
        show: |config| config.limits.syn_burst.to_string(),
    },
    Key {
        name: "limits.query_rate",
        placeholder: "N",
        live: true,
        help: "queries a second of one source that reach the server over UDP, including those \
               that come again; the kernel's TCP serves the others; 0: no limit",
        set: |config, raw| whole(raw, 0, 100_000_000).map(|value| config.limits.query_rate = value),
        show: |config| config.limits.query_rate.to_string(),
    },
    Key {
        name: "limits.query_burst",
        placeholder: "N",
        live: true,
        help: "queries of one source that reach the server at once after silence",
        set: |config, raw| {
            whole(raw, 1, 100_000_000).map(|value| config.limits.query_burst = value)
        },
        show: |config| config.limits.query_burst.to_string(),
    },
    Key {
        name: "limits.adoptions",
        placeholder: "N",
        live: true,
        help: "connections of one source that the kernel's TCP has; while the server leaves more \
               than half of its listen backlog waiting, a source with that many waits until it \
               accepts some; 0: no limit",
        set: |config, raw| whole(raw, 0, 100_000_000).map(|value| config.limits.adoptions = value),
        show: |config| config.limits.adoptions.to_string(),
    },
    Key {
        name: "cache.connections",
        placeholder: "N",
        live: false,
        help: "the most connections that have sent a query; if there are more, the one that is \
               longest unused goes",
        set: |config, raw| whole(raw, 1024, 1 << 24).map(|value| config.cache.connections = value),
        show: |config| config.cache.connections.to_string(),
    },
    Key {
        name: "cache.sources",
        placeholder: "N",
        live: false,
        help: "the most sources whose rates are followed",
        set: |config, raw| whole(raw, 1024, 1 << 24).map(|value| config.cache.sources = value),
        show: |config| config.cache.sources.to_string(),
    },
    Key {
        name: "cache.names",
        placeholder: "N",
        live: false,
        help: "the most names remembered because only the kernel's TCP can send their replies",
        set: |config, raw| whole(raw, 64, 1 << 24).map(|value| config.cache.names = value),
        show: |config| config.cache.names.to_string(),
    },
    Key {
        name: "cache.names_for",
        placeholder: "SPAN",
        live: true,
        help: "how long such a name is remembered",
        set: |config, raw| {
            span(raw, Span::ZERO, Span::from_secs(86_400))
                .map(|value| config.cache.names_for = value)
        },
        show: |config| show_span(config.cache.names_for),
    },
    Key {
        name: "cache.ring",
        placeholder: "BYTES",
        live: false,
        help: "memory for queries and replies that may have to be sent again; a power of two from \
               256 KiB to 1 GiB",
        set: |config, raw| {
            let value = bytes(raw, 256 << 10, 1 << 30)?;
            if !value.is_power_of_two() {
                return Err(wrong(
                    "not a power of two",
                    format!("such as {} MiB", (value.next_power_of_two() >> 20).max(1)),
                ));
            }
            config.cache.ring = Bytes::new(value);
            Ok(())
        },
        show: |config| show_bytes(config.cache.ring.get()),
    },
    Key {
        name: "user.link",
        placeholder: "KIND",
        live: false,
        help: "mode user: tun (the gateway makes a TUN device with the interface's name and \
               routes the server addresses into it; needs CAP_NET_ADMIN) or packet (it reads \
               packets as they come in on the interface; needs CAP_NET_RAW)",
        set: |config, raw| {
            one_of(raw, &[("tun", UserLink::Tun), ("packet", UserLink::Packet)])
                .map(|value| config.user.link = value)
        },
        show: |config| quoted(if config.user.link == UserLink::Tun { "tun" } else { "packet" }),
    },
    Key {
        name: "user.upstream",
        placeholder: "ADDRESS:PORT",
        live: false,
        help: "mode user: where the DNS server itself listens, over UDP and TCP; one for all \
               server addresses, or one for each",
        set: |config, raw| sockets(raw).map(|value| config.user.upstream = value),
        show: |config| {
            let list: Vec<String> =
                config.user.upstream.iter().map(|to| quoted(&to.to_string())).collect();
            format!("[{}]", list.join(", "))
        },
    },
    Key {
        name: "user.queries",
        placeholder: "N",
        live: false,
        help: "mode user: the most queries that are with the server at once; the gateway drops \
               more, and clients ask again",
        set: |config, raw| whole(raw, 1, 262_144).map(|value| config.user.queries = value),
        show: |config| config.user.queries.to_string(),
    },
    Key {
        name: "user.relays",
        placeholder: "N",
        live: false,
        help: "mode user: the most connections that go on with TCP at once, of which one source \
               has at most an eighth while half are taken; further ones wait",
        set: |config, raw| whole(raw, 1, 65_536).map(|value| config.user.relays = value),
        show: |config| config.user.relays.to_string(),
    },
    Key {
        name: "user.proxy_protocol",
        placeholder: "KIND",
        live: false,
        help: "mode user: how a header of the PROXY protocol (version 2) tells the server its \
               client: none, stream (before each query over UDP and on each connection; says that \
               the client came over TCP) or datagram (before queries over UDP alone; says that \
               the client came over UDP, for Knot); the server must be set to take the header",
        set: |config, raw| {
            let kinds = [
                ("none", None),
                ("stream", Some(Transport::Stream)),
                ("datagram", Some(Transport::Datagram)),
            ];
            one_of(raw, &kinds).map(|value| config.user.proxy_protocol = value)
        },
        show: |config| {
            quoted(match config.user.proxy_protocol {
                None => "none",
                Some(Transport::Stream) => "stream",
                Some(Transport::Datagram) => "datagram",
            })
        },
    },
];

#[cfg(test)]
mod tests;
