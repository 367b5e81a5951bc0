//! The listing of a container: every load command, section, symbol and relocation, tasks by field.
//!
//! Names, padding and string tables in their usual form are written as texts, others as bytes, so
//! that assembling a listing reproduces the file.

use anemone_facts::Layout;
use anemone_facts::formats::hwx as rows;

use super::block::{self, hex};
use super::lex::{Line, Lines, MAX_BLOCK_BYTES, TextError, Token, quote};
use crate::hwx::{
    Command, Container, Header, PortWindow, Relocation, Residue, Section, Segment, Symbol, Symtab, Thread,
};

/// Lists a container. `assemble_container(&list_container(c))` equals `c`.
pub fn list_container(c: &Container) -> String {
    let h = &c.header;
    let mut out = format!(
        "container bytes={:#x} cpu-type={:#x} cpu-subtype={} file-type={} flags={:#x} reserved={:#x}\n",
        c.file_bytes, h.cpu_type, h.cpu_subtype, h.file_type, h.flags, h.reserved
    );
    let first_words = c.run_state().map_or(0, |(_, r)| r.first_task_words());
    for (offset, command) in c.commands_at() {
        out += &format!("; command at {offset:#x}\n");
        match command {
            Command::Segment(s) => segment(&mut out, s, c.layout().map(|l| (l, first_words))),
            Command::Port(p) => port(&mut out, p),
            Command::Thread(t) => thread(&mut out, t),
            Command::Ident(body) => ident(&mut out, body),
            Command::Symtab(s) => symtab(&mut out, s),
            Command::Unknown { id, body } => {
                out += &format!("command {id:#x} bytes={}\n", block::size(body));
                block::print(&mut out, body, None);
            }
        }
    }
    for r in &c.residue {
        out += &format!("residue @{:#x} {}\n", r.offset, hex(&r.bytes));
    }
    // A truncated listing must not assemble to a smaller container.
    out + "end\n"
}

/// A fixed name without its zero padding.
fn name16(name: &[u8; 16]) -> String {
    let end = name.iter().rposition(|&b| b != 0).map_or(0, |i| i + 1);
    quote(&name[..end])
}

fn segment(out: &mut String, s: &Segment, stream: Option<(&Layout, u32)>) {
    *out += &format!(
        "segment {} address={:#x} bytes={:#x} file={:#x} file-bytes={:#x} max-protection={} \
         protection={} flags={:#x}\n",
        name16(&s.name),
        s.address,
        s.bytes,
        s.file_offset,
        s.file_bytes,
        s.max_protection,
        s.protection,
        s.flags
    );
    for x in &s.sections {
        let [a, b, c] = x.reserved;
        *out += &format!(
            "section {} segment={} address={:#x} bytes={:#x} file={:#x} align={} relocations={:#x} flags={:#x} \
             reserved={a:#x},{b:#x},{c:#x}\n",
            name16(&x.name),
            name16(&x.segment),
            x.address,
            x.bytes,
            x.file_offset,
            x.align_log2,
            x.relocations_offset,
            x.flags
        );
        *out += &format!("content bytes={}\n", block::size(&x.data));
        let is_stream = x.name == crate::hwx::name16(rows::TEXT.section);
        block::print(out, &x.data, stream.filter(|_| is_stream));
        for r in &x.relocations {
            *out += &format!("relocation @{:#x} info={:#x}\n", r.offset, r.info);
        }
    }
    tail(out, &s.tail);
}

fn tail(out: &mut String, bytes: &[u8]) {
    if !bytes.is_empty() {
        *out += &format!("tail bytes={}\n", block::size(bytes));
        block::print(out, bytes, None);
    }
}

/// Zero-terminated texts and padding to the command granule, if the end of a command has that form.
fn texts_of(fixed: usize, tail: &[u8], count: usize) -> Option<Vec<&[u8]>> {
    let texts: Vec<&[u8]> = tail.split(|&b| b == 0).take(count).collect();
    (texts_tail(fixed, &texts) == tail).then_some(texts)
}

/// Zero-terminated texts, padded so that a command of `fixed` bytes followed by them ends on the command granule.
fn texts_tail<T: AsRef<[u8]>>(fixed: usize, texts: &[T]) -> Vec<u8> {
    let mut tail: Vec<u8> = Vec::new();
    for text in texts {
        tail.extend_from_slice(text.as_ref());
        tail.push(0);
    }
    tail.resize((fixed + tail.len()).next_multiple_of(rows::COMMAND_ALIGN) - fixed, 0);
    tail
}

/// A `texts` or `tail` line.
fn print_texts(out: &mut String, fixed: usize, bytes: &[u8]) {
    let most = bytes.iter().filter(|&&b| b == 0).count();
    match (1..=most.min(8)).find_map(|n| texts_of(fixed, bytes, n)) {
        Some(texts) => {
            let quoted: Vec<String> = texts.iter().map(|t| quote(t)).collect();
            *out += &format!("texts {}\n", quoted.join(" "));
        }
        None => tail(out, bytes),
    }
}

fn port(out: &mut String, p: &PortWindow) {
    let word = if p.wide { "port64" } else { "port" };
    *out += &format!("{word} name-offset={:#x} version={:#x} address={:#x}\n", p.name_offset, p.version, p.address);
    print_texts(out, p.fixed_bytes(), &p.tail);
}

fn thread(out: &mut String, t: &Thread) {
    *out += &format!("thread flavor={} words={:#x}\n", t.flavor, t.words.len());
    let bases: Vec<usize> = t.base_words().collect();
    for (bar, &at) in bases.iter().enumerate().filter(|&(_, &at)| t.quantity(at) != 0) {
        *out += &format!("base {bar} = {:#x}\n", t.quantity(at));
    }
    let properties: Vec<usize> = t.property_words().collect();
    let in_base = |i: usize| bases.contains(&i) || i > 0 && bases.contains(&(i - 1));
    for (i, &word) in t.words.iter().enumerate().filter(|&(i, &w)| w != 0 && !in_base(i)) {
        let row = t.word_rows().iter().find(|r| (r.at..r.at + r.words).contains(&i));
        let property = properties.iter().position(|at| (*at..at + rows::PROPERTY_WORDS).contains(&i));
        let name = match (row, property) {
            (Some(r), _) if i > r.at => format!("{} (high word)", r.name),
            (Some(r), _) => r.name.to_string(),
            (None, Some(p)) => format!("property {p}"),
            (None, None) => "?".to_string(),
        };
        *out += &format!("word {i} = {word:#x} ; {name}\n");
    }
    print_texts(out, 16 + 4 * t.words.len(), &t.tail);
}

fn ident(out: &mut String, body: &[u8]) {
    *out += "ident\n";
    let lines = texts_of(8, body, 1).and_then(|t| t[0].strip_suffix(b"\n"));
    match lines {
        Some(text) => {
            for line in text.split(|&b| b == b'\n') {
                *out += &format!("line {}\n", quote(line));
            }
        }
        None => tail(out, body),
    }
}

/// The string table, if it consists of a zero and the symbols' names in order.
fn plain_strings(t: &Symtab) -> Option<Vec<&[u8]>> {
    let names: Vec<&[u8]> = t.strings.strip_prefix(&[0])?.strip_suffix(&[0])?.split(|&b| b == 0).collect();
    let mut at = 1;
    let plain = names.len() == t.symbols.len()
        && names.iter().zip(&t.symbols).all(|(name, s)| {
            let here = s.name_offset as usize == at;
            at += name.len() + 1;
            here
        });
    plain.then_some(names)
}

fn symtab(out: &mut String, t: &Symtab) {
    *out += &format!("symtab symbols={:#x} strings={:#x}\n", t.symbols_offset, t.strings_offset);
    let names = plain_strings(t);
    for (i, s) in t.symbols.iter().enumerate() {
        let name = match &names {
            Some(names) => quote(names.get(i).unwrap_or(&&[][..])),
            None => format!("@{:#x}", s.name_offset),
        };
        *out += &format!(
            "symbol {name} type={:#x} section={} desc={:#x} value={:#x}\n",
            s.kind, s.section, s.desc, s.value
        );
    }
    if names.is_none() {
        *out += &format!("strings bytes={}\n", block::size(&t.strings));
        block::print(out, &t.strings, None);
    }
    tail(out, &t.tail);
}

/// Assembles a container from its listing.
pub fn assemble_container(text: &str) -> Result<Container, TextError> {
    let mut lines = Lines::of(text)?;
    let head = lines.expect("container")?;
    let header = Header {
        cpu_type: head.u32(2, "cpu-type")?,
        cpu_subtype: head.u32(3, "cpu-subtype")?,
        file_type: head.u32(4, "file-type")?,
        flags: head.u32(5, "flags")?,
        reserved: head.u32(6, "reserved")?,
    };
    head.ends_at(7)?;
    let file_bytes = head.keyed(1, "bytes")?.number(MAX_BLOCK_BYTES)?;
    let mut c = Container { header, commands: Vec::new(), file_bytes, residue: Vec::new() };
    let layout = c.layout();
    while let Some(line) = lines.next() {
        let command = match line.word() {
            "segment" => Command::Segment(parse_segment(&mut lines, &line, layout)?),
            "port" | "port64" => Command::Port(parse_port(&mut lines, &line)?),
            "thread" => Command::Thread(parse_thread(&mut lines, &line)?),
            "ident" => {
                line.ends_at(1)?;
                Command::Ident(parse_ident(&mut lines)?)
            }
            "symtab" => Command::Symtab(parse_symtab(&mut lines, &line)?),
            "command" => {
                line.ends_at(3)?;
                Command::Unknown {
                    id: line.at(1).u32()?,
                    body: block::parse(&mut lines, &line.keyed(2, "bytes")?, None)?,
                }
            }
            "residue" => {
                let at = line.at(1);
                let offset = at.strip("@").ok_or_else(|| at.error("`@` and an offset"))?.number(MAX_BLOCK_BYTES)?;
                c.residue.push(Residue { offset, bytes: line.at(2).hex()? });
                line.ends_at(3)?;
                continue;
            }
            "end" => {
                line.ends_at(1)?;
                return lines.next().map_or(Ok(c), |line| Err(line.at(0).error("the end of the text")));
            }
            _ => {
                return Err(line.at(0).error("segment, port, port64, thread, ident, symtab, command, residue or end"));
            }
        };
        c.commands.push(command);
    }
    Err(lines.missing("end"))
}

fn parse_name16(token: &Token) -> Result<[u8; 16], TextError> {
    let bytes = token.quoted()?;
    let mut name = [0; 16];
    match name.get_mut(..bytes.len()) {
        Some(place) => place.copy_from_slice(&bytes),
        None => return Err(token.error("a name of at most 16 bytes")),
    }
    Ok(name)
}

fn parse_tail(lines: &mut Lines) -> Result<Vec<u8>, TextError> {
    match lines.next_if("tail") {
        Some(line) => {
            line.ends_at(2)?;
            block::parse(lines, &line.keyed(1, "bytes")?, None)
        }
        None => Ok(Vec::new()),
    }
}

/// Limits file offsets of structures, so that a small listing cannot require a huge
/// file.
fn check_offset(line: &Line, i: usize, key: &str, empty: bool) -> Result<(), TextError> {
    let token = line.keyed(i, key)?;
    if empty { Ok(()) } else { token.number(MAX_BLOCK_BYTES).map(|_| ()) }
}

fn parse_segment(lines: &mut Lines, line: &Line, layout: Option<&'static Layout>) -> Result<Segment, TextError> {
    let mut s = Segment {
        name: parse_name16(&line.at(1))?,
        address: line.u64(2, "address")?,
        bytes: line.u64(3, "bytes")?,
        file_offset: line.u64(4, "file")?,
        file_bytes: line.u64(5, "file-bytes")?,
        max_protection: line.u32(6, "max-protection")?,
        protection: line.u32(7, "protection")?,
        flags: line.u32(8, "flags")?,
        sections: Vec::new(),
        tail: Vec::new(),
    };
    line.ends_at(9)?;
    while let Some(line) = lines.next_if("section") {
        let reserved = line.keyed(9, "reserved")?;
        let words: Vec<u32> =
            reserved.text.split(',').map(|t| Token { text: t, ..reserved }.u32()).collect::<Result<_, _>>()?;
        let mut x = Section {
            name: parse_name16(&line.at(1))?,
            segment: parse_name16(&line.keyed(2, "segment")?)?,
            address: line.u64(3, "address")?,
            bytes: line.u64(4, "bytes")?,
            file_offset: line.u32(5, "file")?,
            align_log2: line.u32(6, "align")?,
            relocations_offset: line.u32(7, "relocations")?,
            flags: line.u32(8, "flags")?,
            reserved: words.try_into().map_err(|_| reserved.error("three numbers with commas"))?,
            data: bytes::Bytes::new(),
            relocations: Vec::new(),
        };
        line.ends_at(10)?;
        let content = lines.expect("content")?;
        content.ends_at(2)?;
        x.data = block::parse(lines, &content.keyed(1, "bytes")?, layout)?.into();
        while let Some(line) = lines.next_if("relocation") {
            let at = line.at(1);
            // A negative offset is written as its bits.
            let offset = at.strip("@").ok_or_else(|| at.error("`@` and an offset"))?.u32()?;
            x.relocations.push(Relocation { offset: offset as i32, info: line.u32(2, "info")? });
            line.ends_at(3)?;
        }
        check_offset(&line, 5, "file", x.data.is_empty())?;
        check_offset(&line, 7, "relocations", x.relocations.is_empty())?;
        s.sections.push(x);
    }
    s.tail = parse_tail(lines)?;
    Ok(s)
}

fn parse_texts(lines: &mut Lines, fixed: usize) -> Result<Vec<u8>, TextError> {
    match lines.next_if("texts") {
        Some(line) => {
            let texts: Vec<Vec<u8>> = line.tokens[1..].iter().map(|t| t.quoted()).collect::<Result<_, _>>()?;
            Ok(texts_tail(fixed, &texts))
        }
        None => parse_tail(lines),
    }
}

fn parse_port(lines: &mut Lines, line: &Line) -> Result<PortWindow, TextError> {
    let wide = line.word() == "port64";
    let limit = if wide { u64::MAX } else { u32::MAX as u64 };
    let mut p = PortWindow {
        wide,
        name_offset: line.u32(1, "name-offset")?,
        version: line.u32(2, "version")?,
        address: line.keyed(3, "address")?.number(limit)?,
        tail: Vec::new(),
    };
    line.ends_at(4)?;
    p.tail = parse_texts(lines, p.fixed_bytes())?;
    Ok(p)
}

fn parse_thread(lines: &mut Lines, line: &Line) -> Result<Thread, TextError> {
    let mut t =
        Thread { flavor: line.u32(1, "flavor")?, words: lines.zeros(&line.keyed(2, "words")?)?, tail: Vec::new() };
    let words = t.words.len();
    line.ends_at(3)?;
    let bases: Vec<usize> = t.base_words().collect();
    while let Some(line) = lines.peek() {
        let (place, value) = (line.at(1), line.at(3));
        match line.word() {
            "base" => {
                let bar = place.number(bases.len().saturating_sub(1) as u64)? as usize;
                let at = *bases.get(bar).ok_or_else(|| place.error("no base addresses in this flavor"))?;
                let address = value.number(u64::MAX)?;
                for (word, half) in t.words[at..].iter_mut().zip([address as u32, (address >> 32) as u32]) {
                    *word = half;
                }
            }
            "word" => {
                let at = place.number(words.saturating_sub(1) as u64)? as usize;
                *t.words.get_mut(at).ok_or_else(|| place.error("no words here"))? = value.u32()?;
            }
            _ => break,
        }
        line.at(2).expect("=")?;
        line.ends_at(4)?;
        lines.next();
    }
    t.tail = parse_texts(lines, 16 + 4 * words)?;
    Ok(t)
}

fn parse_ident(lines: &mut Lines) -> Result<Vec<u8>, TextError> {
    let mut text = Vec::new();
    while let Some(line) = lines.next_if("line") {
        line.ends_at(2)?;
        text.extend_from_slice(&line.at(1).quoted()?);
        text.push(b'\n');
    }
    if text.is_empty() { parse_tail(lines) } else { Ok(texts_tail(8, &[text])) }
}

fn parse_symtab(lines: &mut Lines, line: &Line) -> Result<Symtab, TextError> {
    let mut t = Symtab {
        symbols_offset: line.u32(1, "symbols")?,
        strings_offset: line.u32(2, "strings")?,
        symbols: Vec::new(),
        strings: vec![0],
        tail: Vec::new(),
    };
    line.ends_at(3)?;
    let mut named = false;
    while let Some(line) = lines.next_if("symbol") {
        let name = line.at(1);
        let name_offset = match name.strip("@") {
            Some(offset) => offset.u32()?,
            None => {
                let at = t.strings.len() as u32;
                t.strings.extend_from_slice(&name.quoted()?);
                t.strings.push(0);
                named = true;
                at
            }
        };
        t.symbols.push(Symbol {
            name_offset,
            kind: line.keyed(2, "type")?.number(u8::MAX as u64)? as u8,
            section: line.keyed(3, "section")?.number(u8::MAX as u64)? as u8,
            desc: line.keyed(4, "desc")?.number(u16::MAX as u64)? as u16,
            value: line.u64(5, "value")?,
        });
        line.ends_at(6)?;
    }
    if let Some(line) = lines.next_if("strings") {
        if named {
            return Err(line.at(0).error("symbols by offset (`@...`) where the string table is given"));
        }
        line.ends_at(2)?;
        t.strings = block::parse(lines, &line.keyed(1, "bytes")?, None)?;
    }
    check_offset(line, 1, "symbols", t.symbols.is_empty())?;
    check_offset(line, 2, "strings", t.strings.is_empty())?;
    t.tail = parse_tail(lines)?;
    Ok(t)
}
