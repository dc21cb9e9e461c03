//! The list of the kinds of applications.
//!
//! A kind also has its line `mod` in lib.rs. A macro could write that line, but rustfmt does not format
//! files that only a macro declares.

use narrows_transport::quic;
use narrows_units::settings::{Declared, Table};

use crate::table::Head;
use crate::{
    Application, Custom, Environment, Outside, Service, Settings, Use, bulk, dns, flood, incast,
    on_off, page, ping, responder, trace, transfer, udp, voip,
};

/// Declares [`Kind`] from the list of kinds.
macro_rules! kinds {
    ($($(#[doc = $doc:literal])+ $name:ident($settings:ty),)+) => {
        /// The kinds of applications, with their settings.
        #[derive(Clone, Debug)]
        #[cfg_attr(
            feature = "serde",
            derive(serde::Serialize, serde::Deserialize),
            serde(rename_all = "kebab-case")
        )]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        pub enum Kind {
            $($(#[doc = $doc])+ $name($settings),)+
            /// One from outside this crate. It cannot appear in a written plan.
            #[cfg_attr(feature = "serde", serde(skip))]
            Custom(Custom),
        }

        impl Kind {
            /// The tables of settings of all kinds. They contain further ones.
            pub const TABLES: &[Table] = &[$(<$settings>::TABLE),+];

            /// Returns the declarations of the tables that kinds add to those of
            /// [`Records`](crate::record::Records).
            pub fn all_heads() -> impl Iterator<Item = &'static Head> {
                [$(<$settings as Settings>::heads()),+].into_iter().flatten()
            }
        }

        impl Settings for Kind {
            fn check(&self, environment: &Environment<'_>) -> Result<usize, String> {
                match self {
                    $(Self::$name(settings) => {
                        settings.check().map_err(|why| why.to_string())?;
                        Settings::check(settings, environment)
                    })+
                    Self::Custom(custom) => custom.check(environment),
                }
            }

            fn uses(&self, environment: &Environment<'_>) -> Vec<Use> {
                match self { $(Self::$name(settings) => settings.uses(environment),)+ Self::Custom(custom) => custom.uses(environment) }
            }

            fn queries(&self) -> u64 {
                match self { $(Self::$name(settings) => settings.queries(),)+ Self::Custom(_) => 0 }
            }

            fn service(&self) -> Option<Service> {
                match self { $(Self::$name(settings) => settings.service(),)+ Self::Custom(_) => None }
            }

            fn quic(&self) -> Option<&quic::Config> {
                match self { $(Self::$name(settings) => settings.quic(),)+ Self::Custom(_) => None }
            }

            fn build(self, name: &str) -> Box<dyn Application> {
                match self { $(Self::$name(settings) => settings.build(name),)+ Self::Custom(custom) => custom.build(name) }
            }
        }
    };
}

kinds! {
    /// Endless data.
    Bulk(bulk::Bulk),
    /// Bursts with idle times between them: `on-off`, `once` and `ftp` of the scenario language.
    OnOff(on_off::OnOff),
    /// Resolver workers in a closed loop.
    DnsClient(dns::client::Client),
    /// A DNS server.
    DnsServer(dns::server::Server),
    /// Datagrams at a given rate.
    Udp(udp::Udp),
    /// Datagrams at listed times.
    Trace(trace::Trace),
    /// Probes that are answered at once.
    Ping(ping::Ping),
    /// Telephone calls.
    Voip(voip::Voip),
    /// A server that returns as many bytes as it is asked for.
    Responder(responder::Responder),
    /// A client that asks many servers at once.
    Incast(incast::Incast),
    /// SYNs or queries from forged addresses.
    Flood(flood::Flood),
    /// Secondaries that fetch a zone.
    Transfer(transfer::Transfer),
    /// Browsers that load a page.
    Page(page::Page),
}

impl Kind {
    /// Wraps the settings of an application from outside this crate.
    pub fn custom(settings: impl Outside + 'static) -> Self {
        Self::Custom(Custom::new(settings))
    }
}
