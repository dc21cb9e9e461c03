//! The tables `pages`, `objects` and `lookups`: a row for each load, one for each of its objects, and
//! one for each name that it needs.

use narrows_units::{MaybeTime, Time};

use super::Browsers;
use crate::table::{Table, rows};

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

rows! {
    /// A load of a page.
    pub(crate) struct PagesRow as "pages" {
        /// The traffic group that it belongs to.
        group: String [""];
        /// Number of the browser in its group, from 0.
        browser: u32 [""];
        /// Number of the load of its browser, from 0.
        load: u32 [""];
        /// When the browser began the load.
        start_s: f64 ["s"];
        /// When the first object had arrived.
        first_s: f64 ["s", null];
        /// When the last object had arrived; null: not by the end of the run, or it failed.
        end_s: f64 ["s", null];
        /// Whether a connection failed or a name had no answer, and the page failed with it.
        failed: bool [""];
        /// Bytes of the objects that arrived.
        bytes: u64 ["bytes"];
        /// Connections that were opened.
        connections: u32 ["connections"];
    }
}

rows! {
    /// An object of a load of a page.
    pub(crate) struct ObjectsRow as "objects" {
        /// The traffic group that it belongs to.
        group: String [""];
        /// Number of the browser in its group, from 0.
        browser: u32 [""];
        /// Number of the load of its browser, from 0.
        load: u32 [""];
        /// The object's name.
        object: String [""];
        /// Its length.
        bytes: u64 ["bytes"];
        /// When all that it depends on had arrived, and its wait was over.
        ready_s: f64 ["s", null];
        /// When the request was written.
        asked_s: f64 ["s", null];
        /// When its last byte had arrived.
        end_s: f64 ["s", null];
    }
}

rows! {
    /// A name that a load of a page needs.
    pub(crate) struct LookupsRow as "lookups" {
        /// The traffic group that it belongs to.
        group: String [""];
        /// Number of the browser in its group, from 0.
        browser: u32 [""];
        /// Number of the load of its browser, from 0.
        load: u32 [""];
        /// Number of the name in its page, from 0.
        host: u32 [""];
        /// Whether the browser knew it already.
        cached: bool [""];
        /// When the browser needed it, and asked unless it knew.
        asked_s: f64 ["s"];
        /// When the browser had the answer, or heard that there is none; null: not before the load
        /// or the run ended.
        end_s: f64 ["s", null];
        /// Whether the resolver gave up, and the page failed.
        failed: bool [""];
        /// Number of its query: a row of `queries`; null: none, or none is over.
        query: f64 ["", null];
        /// How long its load took; null: it did not complete.
        load_s: f64 ["s", null];
    }
}

impl Browsers {
    pub(super) fn page_table(&self) -> Table {
        let rows = self.pages.iter().map(|row| PagesRow {
            group: self.name.clone(),
            browser: row.browser,
            load: row.load,
            start_s: row.start.as_secs_f64(),
            first_s: seconds(row.first),
            end_s: seconds(row.end),
            failed: row.failed,
            bytes: row.bytes,
            connections: row.connections,
        });
        PagesRow::table(rows)
    }

    pub(super) fn lookup_table(&self) -> Table {
        let rows = self.lookups.iter().map(|row| {
            let page = &self.pages[row.page as usize];
            LookupsRow {
                group: self.name.clone(),
                browser: page.browser,
                load: page.load,
                host: row.server,
                cached: row.cached,
                asked_s: row.asked.as_secs_f64(),
                end_s: seconds(row.end),
                failed: row.failed,
                query: row.query.map_or(f64::NAN, f64::from),
                load_s: page.end.get().map_or(f64::NAN, |end| end.since(page.start).as_secs_f64()),
            }
        });
        LookupsRow::table(rows)
    }

    pub(super) fn object_table(&self) -> Table {
        let objects = &self.settings.objects;
        let page = |row: &ObjectRow| &self.pages[row.page as usize];
        let rows =
            self.objects.iter().zip(objects.iter().cycle()).map(|(row, object)| ObjectsRow {
                group: self.name.clone(),
                browser: page(row).browser,
                load: page(row).load,
                object: object.name.clone(),
                bytes: u64::from(row.bytes),
                ready_s: seconds(row.ready),
                asked_s: seconds(row.asked),
                end_s: seconds(row.end),
            });
        ObjectsRow::table(rows)
    }
}

/// Converts to seconds; NaN means "never".
fn seconds(at: MaybeTime) -> f64 {
    at.get().map_or(f64::NAN, Time::as_secs_f64)
}
