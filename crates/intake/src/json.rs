//! The objects of a JSON file one by one, whatever stands around them.
//!
//! RIPE Atlas gives results as one array, as one object a line, or as lines `RESULT { ... }`;
//! people print them over many lines and cut files in the middle. So this reader looks for objects
//! at the outermost level and leaves what is in them to a JSON parser. Arrays and commas around
//! them do not matter to it. Neither does an object whose list `results` holds them, as in a page of
//! the API.
//!
//! An object ends where its bracket closes. It is broken where a string runs over the end of a line
//! (JSON forbids that), where an object begins at the start of a line although no value is expected
//! there (the line before was cut), and where the file ends. An object longer than [`MAX_OBJECT`]
//! or nested deeper than [`MAX_DEPTH`] is skipped without being kept. So memory is bounded, and
//! each byte is looked at once.

use std::io::{self, Read};

/// The longest object that is kept, in bytes. An Atlas result with three replies of 64 kB needs
/// 300 kB.
pub const MAX_OBJECT: usize = 4 << 20;

/// The deepest nesting of an object that is kept. Atlas results need 5.
pub const MAX_DEPTH: usize = 64;

/// After this many bytes without an object, the reader gives up: the file holds none.
pub const MAX_GAP: u64 = 256 << 20;

/// One thing at the outermost level of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item<'a> {
    /// The bytes of an object, from bracket to bracket.
    Object(&'a [u8]),
    /// An object that cannot be used.
    Broken(Fault),
}

/// Why an object cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It does not end: its line, or the file, was cut.
    Cut,
    /// It is longer than [`MAX_OBJECT`].
    TooLong,
    /// It is nested deeper than [`MAX_DEPTH`].
    TooDeep,
    /// There was nothing but other text for [`MAX_GAP`] bytes. Nothing follows.
    NoObjects,
}

/// Reads the objects of a file.
#[derive(Debug)]
pub struct Objects<R> {
    file: R,
    buffer: Vec<u8>,
    /// Where the unread bytes of the buffer begin and end.
    from: usize,
    to: usize,
    ended: bool,
    gap: u64,
}

impl<R: Read> Objects<R> {
    /// Creates a reader at the start of `file`.
    pub fn new(file: R) -> Self {
        Self { file, buffer: vec![0; BUFFER], from: 0, to: 0, ended: false, gap: 0 }
    }

    /// Returns the next object, or `None` at the end of the file.
    ///
    /// An error of the file is returned once; afterwards the file counts as ended.
    pub fn next_item(&mut self) -> io::Result<Option<Item<'_>>> {
        'outermost: loop {
            loop {
                let found = memchr::memchr(b'{', &self.buffer[self.from..self.to]);
                self.pass(found.unwrap_or(self.to - self.from));
                if found.is_some() {
                    break;
                }
                if self.gap > MAX_GAP {
                    return Ok(Some(self.give_up()));
                }
                if !self.refill()? {
                    return Ok(None);
                }
            }
            let mut scan = Scan::default();
            // How much of the object has been looked at, from `from`.
            let mut seen = 0;
            let fault = loop {
                let (end, count) = scan.advance(&self.buffer[self.from + seen..self.to]);
                seen += count;
                scan.too_long |= seen > MAX_OBJECT;
                match end {
                    End::Closed => break scan.too_deep.then_some(Fault::TooDeep),
                    End::Cut => break Some(Fault::Cut),
                    End::List if is_results(&self.buffer[self.from..self.from + seen]) => {
                        self.pass(seen);
                        continue 'outermost;
                    }
                    End::List => continue,
                    End::More => {}
                }
                if scan.too_long {
                    self.pass(seen);
                    seen = 0;
                    if self.gap > MAX_GAP {
                        return Ok(Some(self.give_up()));
                    }
                }
                if !self.refill()? {
                    break Some(Fault::Cut);
                }
            };
            let object = self.from..self.from + seen;
            self.from = object.end;
            let fault = if scan.too_long { Some(Fault::TooLong) } else { fault };
            return Ok(Some(match fault {
                Some(fault) => {
                    self.gap += object.len() as u64;
                    Item::Broken(fault)
                }
                None => {
                    self.gap = 0;
                    Item::Object(&self.buffer[object])
                }
            }));
        }
    }

    /// Leaves bytes behind that are no object.
    fn pass(&mut self, count: usize) {
        self.from += count;
        self.gap += count as u64;
    }

    fn give_up(&mut self) -> Item<'static> {
        self.from = 0;
        self.to = 0;
        self.gap = 0;
        self.ended = true;
        Item::Broken(Fault::NoObjects)
    }

    /// Reads further, keeping what is unread. Returns `false` at the end of the file.
    fn refill(&mut self) -> io::Result<bool> {
        if self.ended {
            return Ok(false);
        }
        if self.from > 0 {
            self.buffer.copy_within(self.from..self.to, 0);
            self.to -= self.from;
            self.from = 0;
        }
        if self.to == self.buffer.len() {
            // At most twice the longest object, because the caller lets go of longer ones.
            self.buffer.resize(2 * self.buffer.len(), 0);
        }
        loop {
            match self.file.read(&mut self.buffer[self.to..]) {
                Ok(0) => {
                    self.ended = true;
                    return Ok(false);
                }
                Ok(count) => {
                    self.to += count;
                    return Ok(true);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.ended = true;
                    return Err(error);
                }
            }
        }
    }
}

/// The state of the scan of an object.
#[derive(Debug, Default)]
struct Scan {
    depth: usize,
    in_string: bool,
    escaped: bool,
    /// Whether a line has just ended where no value was expected.
    after_line: bool,
    /// The last byte that was not white space.
    last: u8,
    too_deep: bool,
    too_long: bool,
}

/// Why a scan stopped.
enum End {
    /// The object's bracket closed.
    Closed,
    /// The object is broken here. The next begins after the bytes that were looked at.
    Cut,
    /// A list of the outermost object begins.
    List,
    /// The bytes ended.
    More,
}

/// Returns whether the list that begins at the end of these bytes is the value of `results`.
fn is_results(bytes: &[u8]) -> bool {
    let key = bytes.strip_suffix(b"[").unwrap_or(bytes).trim_ascii_end();
    key.strip_suffix(b":").is_some_and(|key| key.trim_ascii_end().ends_with(b"\"results\""))
}

impl Scan {
    /// Looks at more bytes. Returns why it stopped, and how many bytes it has looked at.
    fn advance(&mut self, bytes: &[u8]) -> (End, usize) {
        let mut at = 0;
        while at < bytes.len() {
            if self.in_string {
                if self.escaped {
                    self.escaped = false;
                    at += 1;
                    continue;
                }
                let Some(found) = memchr::memchr3(b'"', b'\\', b'\n', &bytes[at..]) else {
                    return (End::More, bytes.len());
                };
                at += found;
                match bytes[at] {
                    b'"' => self.in_string = false,
                    b'\\' => self.escaped = true,
                    _ => return (End::Cut, at),
                }
                at += 1;
                continue;
            }
            let byte = bytes[at];
            match byte {
                b'{' if self.after_line => return (End::Cut, at),
                b'{' | b'[' => {
                    self.depth += 1;
                    self.too_deep |= self.depth > MAX_DEPTH;
                    if byte == b'[' && self.depth == 2 {
                        self.after_line = false;
                        self.last = byte;
                        return (End::List, at + 1);
                    }
                }
                b'}' | b']' => {
                    self.depth = self.depth.saturating_sub(1);
                    if self.depth == 0 {
                        return (End::Closed, at + 1);
                    }
                }
                b'"' => self.in_string = true,
                b'\n' => {
                    self.after_line = !matches!(self.last, b'[' | b',' | b':' | b'{');
                    at += 1;
                    continue;
                }
                b' ' | b'\t' | b'\r' => {
                    self.after_line = false;
                    at += 1;
                    continue;
                }
                _ => {}
            }
            self.after_line = false;
            self.last = byte;
            at += 1;
        }
        (End::More, bytes.len())
    }
}

const BUFFER: usize = 1 << 18;

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns what a file of these bytes holds, read in pieces of `step` bytes.
    fn items(text: &[u8], step: usize) -> Vec<Result<String, Fault>> {
        let mut objects = Objects::new(Pieces { rest: text, step });
        let mut found = Vec::new();
        while let Some(item) = objects.next_item().expect("a slice gives no error") {
            found.push(match item {
                Item::Object(bytes) => Ok(String::from_utf8_lossy(bytes).into_owned()),
                Item::Broken(fault) => Err(fault),
            });
        }
        found
    }

    struct Pieces<'a> {
        rest: &'a [u8],
        step: usize,
    }

    impl Read for Pieces<'_> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let count = self.rest.len().min(self.step).min(into.len());
            let (now, rest) = self.rest.split_at(count);
            into[..count].copy_from_slice(now);
            self.rest = rest;
            Ok(count)
        }
    }

    fn check(text: &str, expected: &[Result<&str, Fault>]) {
        for step in [1, 2, 7, 1 << 20] {
            let found = items(text.as_bytes(), step);
            let found: Vec<_> = found.iter().map(|item| item.as_deref().map_err(|e| *e)).collect();
            assert_eq!(found, expected, "{text:?} in pieces of {step}");
        }
    }

    #[test]
    fn arrays_lines_and_the_probes_own_form_hold_the_same_objects() {
        let two = [Ok(r#"{"a":1}"#), Ok(r#"{"b":[{"c":2}]}"#)];
        check(r#"[{"a":1},{"b":[{"c":2}]}]"#, &two);
        check("{\"a\":1}\n{\"b\":[{\"c\":2}]}\n", &two);
        check("# probe 7\nRESULT {\"a\":1}\r\nRESULT {\"b\":[{\"c\":2}]}", &two);
        check("", &[]);
        check("[]", &[]);
    }

    #[test]
    fn a_page_of_results_holds_the_same_objects() {
        let two = [Ok(r#"{"a":1}"#), Ok(r#"{"b":[{"c":2}]}"#)];
        check(r#"{"results":[{"a":1},{"b":[{"c":2}]}]}"#, &two);
        check("{\n \"count\": 2, \"results\" : [\n{\"a\":1},\n{\"b\":[{\"c\":2}]}]\n}\n", &two);
        check(
            "[{\"next\":null,\"results\":[{\"a\":1}]},{\"results\":[{\"b\":[{\"c\":2}]}]}]",
            &two,
        );
        check(r#"{"results":[]}"#, &[]);
        // These are results themselves, or have a text that looks like the key.
        let object = r#"{"resultset":[{"results":[1]}]}"#;
        check(object, &[Ok(object)]);
        let object = r#"{"a":"results","b":[{"c":2}]}"#;
        check(object, &[Ok(object)]);
    }

    #[test]
    fn objects_may_be_printed_over_many_lines() {
        let object = "{\n  \"a\":\n  {\n  \"b\": [\n{\n\"c\": 1\n},\n{\n}\n]\n}\n}";
        check(&format!("[\n{object},\n{object}\n]\n"), &[Ok(object), Ok(object)]);
    }

    #[test]
    fn brackets_and_quotes_within_strings_are_text() {
        let object = r#"{"a":"}{\"]\\"}"#;
        check(object, &[Ok(object)]);
    }

    #[test]
    fn a_cut_line_loses_itself_and_nothing_else() {
        check("{\"a\":\"x\n{\"b\":2}\n", &[Err(Fault::Cut), Ok(r#"{"b":2}"#)]);
        check("{\"a\":[1\n{\"b\":2}\n", &[Err(Fault::Cut), Ok(r#"{"b":2}"#)]);
        check("{\"a\":1}\n{\"b\":", &[Ok(r#"{"a":1}"#), Err(Fault::Cut)]);
    }

    #[test]
    fn deep_nesting_is_skipped() {
        let deep = format!("{{\"a\":{}1{}}}", "[".repeat(1_000_000), "]".repeat(1_000_000));
        let found = items(format!("{deep}\n{{\"b\":2}}").as_bytes(), 1 << 16);
        assert_eq!(found, [Err(Fault::TooDeep), Ok(r#"{"b":2}"#.to_owned())]);
        assert_eq!(items(&vec![b'{'; 1_000_000], 1 << 16), [Err(Fault::Cut)]);
    }

    #[test]
    fn an_object_without_end_is_not_kept() {
        let mut text = b"{\"a\":\"".to_vec();
        text.resize(3 * MAX_OBJECT, b'x');
        text.extend_from_slice(b"\"}{\"b\":2}");
        let mut objects = Objects::new(text.as_slice());
        assert_eq!(objects.next_item().ok(), Some(Some(Item::Broken(Fault::TooLong))));
        assert_eq!(objects.next_item().ok(), Some(Some(Item::Object(br#"{"b":2}"#))));
        assert!(objects.buffer.len() <= 4 * MAX_OBJECT);
    }

    #[test]
    fn a_file_of_other_things_is_given_up() {
        let mut objects = Objects::new(io::repeat(b' '));
        assert_eq!(objects.next_item().ok(), Some(Some(Item::Broken(Fault::NoObjects))));
        assert_eq!(objects.next_item().ok(), Some(None));
    }
}
