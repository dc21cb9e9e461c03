//! The tables `pages` and `objects`: a row for each load, and one for each of its objects.

use narrows_units::{MaybeTime, Time};

use super::Browsers;
use crate::table::{Table, columns};

#[derive(Clone, Copy, Debug)]
pub(super) struct PageRow {
    pub(super) browser: u32,
    pub(super) load: u32,
    pub(super) start: Time,
    /// When its first object arrived.
    pub(super) first: MaybeTime,
    pub(super) end: MaybeTime,
    pub(super) bytes: u64,
    pub(super) connections: u32,
    pub(super) failed: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct ObjectRow {
    pub(super) page: u32,
    pub(super) bytes: u32,
    /// When it could be requested: it was known, and its wait was over.
    pub(super) ready: MaybeTime,
    pub(super) asked: MaybeTime,
    pub(super) end: MaybeTime,
}

impl Browsers {
    pub(super) fn page_table(&self) -> Table {
        let rows = &self.pages;
        let columns = columns!(rows,
            "group": Text = |_| self.name.clone(),
            "browser": U32 = |row| row.browser,
            "load": U32 = |row| row.load,
            "start_s": F64 = |row| row.start.as_secs_f64(),
            "first_s": F64 = |row| seconds(row.first),
            "end_s": F64 = |row| seconds(row.end),
            "failed": Bool = |row| row.failed,
            "bytes": U64 = |row| row.bytes,
            "connections": U32 = |row| row.connections,
        );
        Table { name: "pages", columns }
    }

    pub(super) fn object_table(&self) -> Table {
        let objects = &self.settings.objects;
        let rows: Vec<_> = self.objects.iter().zip(objects.iter().cycle()).collect();
        let page = |row: &ObjectRow| &self.pages[row.page as usize];
        let columns = columns!(rows,
            "group": Text = |_| self.name.clone(),
            "browser": U32 = |(row, _)| page(row).browser,
            "load": U32 = |(row, _)| page(row).load,
            "object": Text = |(_, object)| object.name.clone(),
            "bytes": U64 = |(row, _)| u64::from(row.bytes),
            "ready_s": F64 = |(row, _)| seconds(row.ready),
            "asked_s": F64 = |(row, _)| seconds(row.asked),
            "end_s": F64 = |(row, _)| seconds(row.end),
        );
        Table { name: "objects", columns }
    }
}

/// Converts to seconds; NaN means "never".
fn seconds(at: MaybeTime) -> f64 {
    at.get().map_or(f64::NAN, Time::as_secs_f64)
}
