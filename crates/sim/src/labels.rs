//! What the table `flows` repeats of the plan: 32 bytes a connection, and its name.

use std::collections::BTreeMap;

use narrows_units::Time;

use crate::plan::Plan;

/// Names, places and start of all connections.
#[derive(Debug)]
pub(crate) struct Labels {
    rows: Vec<Row>,
    /// All names, one after the other.
    names: String,
    groups: Vec<String>,
}

#[derive(Debug)]
struct Row {
    start: Time,
    /// Where its name ends in `names`.
    name_end: usize,
    group: u32,
    sender: u32,
    receiver: u32,
}

/// A connection's label; nodes are indices into the plan's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Label<'a> {
    pub(crate) name: &'a str,
    pub(crate) group: &'a str,
    pub(crate) sender: usize,
    pub(crate) receiver: usize,
    pub(crate) start: Time,
}

impl Labels {
    pub(crate) fn new(plan: &Plan) -> Self {
        let connections = &plan.connections;
        let mut names = String::with_capacity(connections.iter().map(|c| c.name.len()).sum());
        let mut numbers = BTreeMap::new();
        let mut rows = Vec::with_capacity(connections.len());
        for connection in connections {
            names.push_str(&connection.name);
            let next = numbers.len() as u32;
            rows.push(Row {
                start: connection.start,
                name_end: names.len(),
                group: *numbers.entry(connection.group.as_str()).or_insert(next),
                sender: connection.sender as u32,
                receiver: connection.receiver as u32,
            });
        }
        let mut groups = vec![String::new(); numbers.len()];
        for (group, number) in numbers {
            groups[number as usize] = group.to_owned();
        }
        Self { rows, names, groups }
    }

    /// The labels in the plan's order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Label<'_>> {
        let mut name_start = 0;
        self.rows.iter().map(move |row| {
            let name = &self.names[name_start..row.name_end];
            name_start = row.name_end;
            Label {
                name,
                group: &self.groups[row.group as usize],
                sender: row.sender as usize,
                receiver: row.receiver as usize,
                start: row.start,
            }
        })
    }
}
