//! Checks a whole configuration: required keys must be set, and values must fit each other.

use narrows_units::Span;

use super::{Active, Config, ConfigError, Mode, SERVERS_MAX};

impl Config {
    /// Checks what no single key can: that an interface and a server are set, and that values fit
    /// each other. `run` and `check` need this; `status` and `detach` only need the interface.
    ///
    /// # Errors
    ///
    /// Returns [`ConfigError::Missing`] if a required key has no value, and [`ConfigError::Value`]
    /// if a value is impossible or does not fit another.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.validate_interface()?;
        if self.servers.is_empty() {
            return Err(ConfigError::Missing { key: "server", example: "--server 192.0.2.53" });
        }
        let refuse = |key: &str, what: String, hint: &str| {
            Err(ConfigError::Value {
                place: String::new(),
                key: key.into(),
                what,
                hint: hint.into(),
            })
        };
        if self.servers.len() > SERVERS_MAX {
            let what = format!("{} addresses, and {SERVERS_MAX} is the most", self.servers.len());
            return refuse("server", what, "run a second gateway on another interface");
        }
        for (at, server) in self.servers.iter().enumerate() {
            if self.servers[..at].contains(server) {
                return refuse("server", format!("{server} is listed twice"), "leave one out");
            }
        }
        let upstream = &self.user.upstream;
        if self.mode == Mode::User && upstream.is_empty() {
            return Err(ConfigError::Missing {
                key: "user.upstream",
                example: "--user-upstream 127.0.0.1:5353, where the DNS server listens",
            });
        }
        if upstream.len() > 1 && upstream.len() != self.servers.len() {
            let what = format!("{} of them for {} servers", upstream.len(), self.servers.len());
            return refuse("user.upstream", what, "name one for all, or one for each");
        }
        if let Some(own) = upstream.iter().find(|to| self.servers.contains(&to.ip())) {
            let what = format!("{own} is the address that clients use");
            return refuse("user.upstream", what, "name one that the DNS server itself listens on");
        }
        if self.mode == Mode::User && self.active.any() && self.active != Active::ALL {
            let what = "a share, but in mode user nobody serves the other clients".into();
            return refuse("active", what, "true or false, or the in-kernel data path");
        }
        if self.mode == Mode::User && self.truncate_over > 0 {
            let what = "set, and in mode user no UDP client comes by".into();
            return refuse("truncate_over", what, "leave it out, and set the server's own limit");
        }
        if self.mode != Mode::User && self.user.proxy_protocol.is_some() {
            let what =
                "set, and the in-kernel data path gives the server the clients' own addresses"
                    .into();
            return refuse("user.proxy_protocol", what, "leave it out, or mode = \"user\"");
        }
        if self.rotation < Span::from_secs(64) {
            // A cookie is accepted for up to 64 s, and only the present key and the previous one
            // are known.
            return refuse(
                "rotation",
                "shorter than the 64 s that a cookie lives".into(),
                "such as \"1 h\"",
            );
        }
        if self.syncache.bucketlimit > self.syncache.cachelimit {
            let what = format!("above syncache.cachelimit ({})", self.syncache.cachelimit);
            return refuse("syncache.bucketlimit", what, "lower it");
        }
        if self.syncache.active && self.syncache.cachelimit > self.cache.connections {
            let what =
                format!("above cache.connections ({}), which holds them", self.cache.connections);
            return refuse("syncache.cachelimit", what, "lower it, or raise cache.connections");
        }
        Ok(())
    }

    /// Checks that an interface is set and that its name is possible.
    ///
    /// # Errors
    ///
    /// Returns [`ConfigError::Missing`] if no interface is set, and [`ConfigError::Value`] if a
    /// name is impossible.
    pub fn validate_interface(&self) -> Result<(), ConfigError> {
        if self.interface().is_empty() {
            return Err(ConfigError::Missing { key: "interface", example: "--interface eth0" });
        }
        // IFNAMSIZ is 16 with the terminating zero; dev_valid_name(), Linux net/core/dev.c.
        let odd = |c: char| c == '/' || c == ':' || c.is_whitespace() || c.is_control();
        let refuse = |what: String, hint: &str| {
            let (place, key) = (String::new(), "interface".into());
            Err(ConfigError::Value { place, key, what, hint: hint.into() })
        };
        for (at, name) in self.interfaces.iter().enumerate() {
            if name.is_empty()
                || name.len() > 15
                || name.contains(odd)
                || matches!(&name[..], "." | "..")
            {
                return refuse(format!("{name:?} cannot be an interface's name"), "see ip link");
            }
            if self.interfaces[..at].contains(name) {
                return refuse(format!("{name} is named twice"), "leave one out");
            }
        }
        if self.mode == Mode::User && self.interfaces.len() > 1 {
            return refuse(
                "mode user serves one interface".into(),
                "run a second gateway for the other",
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;
    use crate::user::proxied::Transport;

    fn usable() -> Config {
        Config {
            interfaces: vec!["eth0".into()],
            servers: vec!["192.0.2.53".parse().expect("an address")],
            ..Config::default()
        }
    }

    #[test]
    fn the_defaults_with_an_interface_and_a_server_are_valid() {
        assert_eq!(usable().validate(), Ok(()));
    }

    #[test]
    fn what_must_be_named_is_asked_for() {
        let missing = |config: &Config| match config.validate() {
            Err(ConfigError::Missing { key, .. }) => key,
            other => panic!("{other:?}"),
        };
        assert_eq!(missing(&Config { interfaces: vec![], ..usable() }), "interface");
        assert_eq!(missing(&Config { servers: vec![], ..usable() }), "server");
    }

    #[test]
    fn values_that_do_not_fit_are_refused() {
        let key = |config: &Config| match config.validate() {
            Err(ConfigError::Value { key, .. }) => key,
            other => panic!("{other:?}"),
        };
        let server: IpAddr = "192.0.2.53".parse().expect("an address");
        assert_eq!(key(&Config { servers: vec![server; 2], ..usable() }), "server");
        assert_eq!(key(&Config { rotation: Span::from_secs(63), ..usable() }), "rotation");
        assert_eq!(key(&Config { interfaces: vec!["a/b".into()], ..usable() }), "interface");
        assert_eq!(key(&Config { interfaces: vec!["..".into()], ..usable() }), "interface");
        assert_eq!(
            key(&Config { interfaces: vec!["a-name-of-sixtee".into()], ..usable() }),
            "interface"
        );
        let mut config = usable();
        config.user.proxy_protocol = Some(Transport::Stream);
        assert_eq!(key(&config), "user.proxy_protocol");
        let mut config = usable();
        config.syncache.bucketlimit = config.syncache.cachelimit + 1;
        assert_eq!(key(&config), "syncache.bucketlimit");
    }

    #[test]
    fn one_source_cannot_fill_the_connections_with_the_defaults() {
        let config = Config::default();
        // Each is silent after its reply: PROTOCOL.md, "Time".
        let seconds = config.idle.as_ps() / 1_000_000_000_000 + 64;
        let limits = &config.limits;
        let most = u64::from(limits.query_burst) + u64::from(limits.query_rate) * seconds;
        assert!(most < u64::from(config.cache.connections), "{most}");
    }
}
