//! Connections that have a row in the table `flows`.

use core::ops::Range;

use narrows_apps::Socket;
use narrows_apps::flow_samples::{Sample, Sampled};
use narrows_apps::goodput::Delivered;
use narrows_units::Time;

use super::{Flow, Flows};
use crate::transport::Connection;

/// A connection that the table `flows` lists.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Listed {
    flow: u32,
    /// Where its name ends in `names`.
    name_end: u32,
    pub(crate) start: Time,
}

/// A row of the table `flows`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row<'a> {
    /// The connection's number among all flows.
    pub(crate) flow: u32,
    pub(crate) name: &'a str,
    /// The application that owns the connection.
    pub(crate) application: u32,
    /// The path of its data: an index into the plan's paths.
    pub(crate) there: u32,
    pub(crate) start: Time,
    pub(crate) connection: &'a Connection,
}

impl Flows {
    /// Gives a connection a row in the table `flows`. Returns the row's number.
    pub(crate) fn list(&mut self, socket: Socket, name: &str, start: Time) -> u32 {
        self.names.push_str(name);
        // Names of 100 bytes for 2^28 flows would need 25 GB.
        let name_end = self.names.len() as u32;
        self.listed.push(Listed { flow: socket.flow(), name_end, start });
        self.listed.len() as u32 - 1
    }

    /// Returns the rows of the table `flows`, each with its name, owner, first path and connection.
    pub(crate) fn listed(&self) -> impl Iterator<Item = Row<'_>> {
        let mut name_start = 0;
        self.listed.iter().map(move |listed| {
            let name = &self.names[name_start..listed.name_end as usize];
            name_start = listed.name_end as usize;
            let owners = &self.owners[listed.flow as usize];
            Row {
                flow: listed.flow,
                name,
                application: owners.applications[0],
                there: owners.there,
                start: listed.start,
                connection: self.listed_connection(listed),
            }
        })
    }

    fn listed_connection(&self, listed: &Listed) -> &Connection {
        let Flow::Tcp(connection) = &self.table[listed.flow as usize] else {
            unreachable!("a listed flow is a connection, and is never freed")
        };
        connection
    }
}

impl Delivered for Flows {
    fn received_by_rows(&self, rows: Range<usize>) -> u64 {
        let connections = self.listed[rows].iter().map(|listed| self.listed_connection(listed));
        connections.map(|connection| connection.second().bytes_received()).sum()
    }

    fn received_by_clients(&self, mut report: impl FnMut(u32, u64)) {
        for (application, &bytes) in self.received_by_ended.iter().enumerate() {
            report(application as u32, bytes);
        }
        if self.listed.len() == self.table.len() {
            // There is no such connection now.
            return;
        }
        for (flow, owners) in self.table.iter().zip(&self.owners) {
            if let Flow::Tcp(connection) = flow
                && connection.dialogue.is_some()
            {
                report(owners.applications[0], connection.first().bytes_received());
            }
        }
    }
}

impl Sampled for Flows {
    fn sample(&self) -> impl Iterator<Item = Sample> {
        self.listed().map(|row| Sample {
            received: row.connection.second().bytes_received(),
            counters: row.connection.first().counters(),
            srtt: row.connection.first().srtt(),
        })
    }
}
