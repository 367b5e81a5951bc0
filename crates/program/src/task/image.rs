//! The register image of descriptor version 10: a structure with every register, its patches by the loader, and its
//! serialized records.
//!
//! Groups, fields and slots are rows of [`anemone_facts::layout::v10`]. The sources say that registers have defaults, but not
//! which: here it is 0. They name content and size of a record, not the order: here it is a count, the
//! register's device address, two values, zeros. No sample of either is known.

pub use super::cache::CachePrimitive;
use anemone_facts::layout::v10::{
    ACCESSOR_SHIFT, FIELDS, GROUPS, IMAGE_BYTES, ImageField, RECORD_BYTES, RELOCATIONS, STRIDE_BIT, STRIDE_BITS,
};

/// Errors of images, records and patches.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImageError {
    /// The structure has another size.
    #[error("an image of {found:#x} bytes; version 10 has {IMAGE_BYTES:#x}")]
    Size {
        /// Bytes found.
        found: usize,
    },
    /// No group holds the register.
    #[error("no group holds register {register:#x} (word address)")]
    Register {
        /// Word address.
        register: u32,
    },
    /// No accessor has the name.
    #[error("no field {name:?}; fields: {}", names())]
    Field {
        /// Name asked for.
        name: String,
    },
    /// A value does not fit.
    #[error("{what} = {value}: from {least} to {most} in steps of {step}")]
    Range {
        /// Field, register or parameter.
        what: String,
        /// Value offered.
        value: i128,
        /// Least value.
        least: i128,
        /// Largest value.
        most: i128,
        /// Distance of values.
        step: i128,
    },
    /// Bits that are not within a register and the next one.
    #[error("register {register:#x}: {width} bits at bit {bit} do not lie within two registers")]
    Bits {
        /// Word address.
        register: u32,
        /// Lowest bit.
        bit: u32,
        /// Number of bits.
        width: u32,
    },
    /// A primitive of the compute cache, for which the version has no DMA engine.
    #[error("{setter} is unsupported on this architecture")]
    Unsupported {
        /// Name of the refused setter.
        setter: &'static str,
    },
    /// A serialized record that cannot be read.
    #[error("record at {offset:#x}: {what} is {found:#x}, expected {expected}")]
    Record {
        /// Byte offset of the record.
        offset: usize,
        /// Part of the record.
        what: &'static str,
        /// Value found.
        found: u64,
        /// Value expected.
        expected: &'static str,
    },
}

fn names() -> String {
    FIELDS.map(|f| f.name).join(", ")
}

/// The register image of version 10.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    bytes: Vec<u8>,
}

/// Returns true if bytes are a register image: of its size, alone or followed by patches, and not all zeros. No task stream of versions up
/// to 7 has this size.
pub fn is_image(bytes: &[u8]) -> bool {
    let whole = bytes.get(..IMAGE_BYTES as usize);
    let Some(Ok(image)) = whole.map(Image::of_bytes) else { return false };
    let trailer = &bytes[IMAGE_BYTES as usize..];
    (trailer.is_empty() || trailer.starts_with(PATCHES_MAGIC)) && image.bytes.iter().any(|b| *b != 0)
}

/// Returns true if bytes are records: complete and readable, for registers of one image. No task stream begins with a
/// count of one or two followed by a register's address.
pub fn is_records(bytes: &[u8]) -> bool {
    let whole = !bytes.is_empty() && bytes.len().is_multiple_of(RECORD_BYTES) && !is_image(bytes);
    let Some(records) = whole.then(|| read_records(bytes).ok()).flatten() else { return false };
    let registers = || places().map(|(register, _)| u64::from(register) * 4);
    let least = records.iter().map(|r| r.register).min().unwrap_or(0);
    // Records do not state their aperture: it is one for which every record has the address of a register.
    registers().any(|first| {
        let Some(aperture) = least.checked_sub(first) else { return false };
        records.iter().all(|r| r.register.checked_sub(aperture).is_some_and(|d| registers().any(|known| known == d)))
    })
}

impl Default for Image {
    fn default() -> Image {
        Image { bytes: vec![0; IMAGE_BYTES as usize] }
    }
}

/// Word addresses of every register, and its byte offset in the structure, group by group.
fn places() -> impl Iterator<Item = (u32, usize)> {
    GROUPS
        .iter()
        .flat_map(|g| (0..g.registers).map(|i| (g.aperture.unwrap_or(0) / 4 + i, (g.struct_base + 4 * i) as usize)))
}

impl Image {
    /// An image from the bytes of the structure.
    pub fn of_bytes(bytes: &[u8]) -> Result<Image, ImageError> {
        let image = Image { bytes: bytes.to_vec() };
        if bytes.len() == IMAGE_BYTES as usize { Ok(image) } else { Err(ImageError::Size { found: bytes.len() }) }
    }

    /// The bytes of the structure.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Word addresses and values of all registers.
    pub fn registers(&self) -> impl Iterator<Item = (u32, u32)> {
        places().map(|(register, at)| (register, self.word(at)))
    }

    fn word(&self, at: usize) -> u32 {
        self.bytes.get(at..at + 4).map_or(0, |b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]))
    }

    fn put(&mut self, at: usize, word: u32) {
        if let Some(place) = self.bytes.get_mut(at..at + 4) {
            place.copy_from_slice(&word.to_le_bytes());
        }
    }

    fn place(register: u32) -> Result<usize, ImageError> {
        let found = places().find(|&(r, _)| r == register);
        found.map(|(_, at)| at).ok_or(ImageError::Register { register })
    }

    /// Value of a register by word address.
    pub fn register(&self, register: u32) -> Result<u32, ImageError> {
        Ok(self.word(Self::place(register)?))
    }

    /// Sets a register by word address.
    pub fn set_register(&mut self, register: u32, word: u32) -> Result<(), ImageError> {
        self.put(Self::place(register)?, word);
        Ok(())
    }

    fn field(name: &str) -> Result<(&'static ImageField, usize), ImageError> {
        let row = FIELDS.iter().find(|f| f.name == name).ok_or_else(|| ImageError::Field { name: name.into() })?;
        Ok((row, (row.offset + ACCESSOR_SHIFT) as usize))
    }

    /// Value of a dimension field by the vendor's name.
    pub fn get(&self, name: &str) -> Result<u32, ImageError> {
        let (row, at) = Self::field(name)?;
        Ok(self.word(at & !3) >> (8 * (at as u32 & 3)) & row.mask)
    }

    /// Sets a dimension field by the vendor's name.
    pub fn set(&mut self, name: &str, value: u32) -> Result<(), ImageError> {
        let (row, at) = Self::field(name)?;
        if value > row.mask {
            return Err(range(name, value.into(), 0, row.mask.into(), 1));
        }
        let (base, shift) = (at & !3, 8 * (at as u32 & 3));
        self.put(base, self.word(base) & !(row.mask << shift) | value << shift);
        Ok(())
    }

    /// A DMA stride in bytes, from its signed field.
    pub fn stride(&self, register: u32) -> Result<i64, ImageError> {
        // The field ends at the word's last bit, so that shifting the word extends its sign.
        Ok(((self.register(register)? as i32 >> STRIDE_BIT) as i64) << STRIDE_BIT)
    }

    /// Sets a DMA stride in bytes. `most` is the chip's bound on its magnitude; without one, the range of the field
    /// applies.
    pub fn set_stride(&mut self, register: u32, bytes: i64, most: Option<u64>) -> Result<(), ImageError> {
        let step = 1i128 << STRIDE_BIT;
        let reach = step << (STRIDE_BITS - 1);
        let (least, largest) = match most {
            Some(most) => (-(most as i128).min(reach), (most as i128).min(reach - step)),
            None => (-reach, reach - step),
        };
        let value = bytes as i128;
        if value < least || value > largest || value % step != 0 {
            return Err(range(&format!("stride in register {register:#x}"), value, least, largest, step));
        }
        let kept = self.register(register)? & ((1 << STRIDE_BIT) - 1);
        self.set_register(register, bytes as u32 | kept)
    }

    /// Sets a primitive of the compute cache: refused, because version 10 has no compute-cache DMA engine. Resident state is a shared buffer.
    pub fn set_cache(&mut self, primitive: CachePrimitive, _value: u64) -> Result<(), ImageError> {
        Err(ImageError::Unsupported { setter: primitive.name() })
    }

    /// Registers that differ from their default, as records. `aperture` is the device address of register 0.
    ///
    /// The two registers of an address slot are one record of two values, every other register is one of one value.
    pub fn records(&self, aperture: u64) -> Vec<Record> {
        let mut records: Vec<Record> = Vec::new();
        let mut second = None;
        for (register, word) in self.registers() {
            let device = aperture.wrapping_add(4 * register as u64);
            if second == Some(register) {
                second = None;
                continue;
            }
            let slot = RELOCATIONS.iter().any(|s| s.register == register);
            let high = if slot { self.register(register + 1).ok() } else { None };
            match high {
                Some(high) => {
                    second = Some(register + 1);
                    if (word, high) != (0, 0) {
                        records.push(Record {
                            register: device,
                            values: vec![word.into(), high.into()],
                            rest: [0; 16],
                        });
                    }
                }
                None if word != 0 => {
                    records.push(Record { register: device, values: vec![word.into()], rest: [0; 16] });
                }
                None => {}
            }
        }
        records
    }

    /// The image given by records: named registers have their values, all others their default.
    pub fn of_records(records: &[Record], aperture: u64) -> Result<Image, ImageError> {
        let mut image = Image::default();
        for (i, record) in records.iter().enumerate() {
            let wrong = |what, found, expected| ImageError::Record { offset: i * RECORD_BYTES, what, found, expected };
            let delta = record.register.checked_sub(aperture).filter(|d| d % 4 == 0 && d / 4 <= u32::MAX as u64);
            let first = delta.ok_or_else(|| wrong("register address", record.register, "a register's"))? / 4;
            if record.rest != [0; 16] {
                return Err(wrong("a byte behind the values", 1, "0"));
            }
            for (register, &value) in (first as u32..).zip(&record.values) {
                let word = u32::try_from(value).map_err(|_| wrong("value", value, "at most 32 bits"))?;
                image.set_register(register, word)?;
            }
        }
        Ok(image)
    }
}

fn range(what: &str, value: i128, least: i128, most: i128, step: i128) -> ImageError {
    ImageError::Range { what: what.to_string(), value, least, most, step }
}

/// One serialized record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Device address of the first register.
    pub register: u64,
    /// One or two values, for that register and the next.
    pub values: Vec<u64>,
    /// Bytes of unknown use.
    pub rest: [u8; 16],
}

/// Records as bytes, 44 each. A record holds one or two values; more are not written.
pub fn write_records(records: &[Record]) -> Vec<u8> {
    let mut out = Vec::with_capacity(records.len() * RECORD_BYTES);
    for record in records {
        let value = |i: usize| record.values.get(i).copied().unwrap_or(0);
        out.extend_from_slice(&(record.values.len().min(2) as u32).to_le_bytes());
        for word in [record.register, value(0), value(1)] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        out.extend_from_slice(&record.rest);
    }
    out
}

/// Records from bytes.
pub fn read_records(bytes: &[u8]) -> Result<Vec<Record>, ImageError> {
    let mut records = Vec::with_capacity(bytes.len() / RECORD_BYTES);
    for (i, chunk) in bytes.chunks(RECORD_BYTES).enumerate() {
        let wrong = |what, found, expected| ImageError::Record { offset: i * RECORD_BYTES, what, found, expected };
        if chunk.len() < RECORD_BYTES {
            return Err(wrong("size", chunk.len() as u64, "44 bytes"));
        }
        let number = |at: usize, bytes: usize| {
            chunk[at..at + bytes].iter().rev().fold(0u64, |number, &b| number << 8 | u64::from(b))
        };
        let count = number(0, 4);
        let values = match count {
            1 if number(20, 8) == 0 => vec![number(12, 8)],
            1 => return Err(wrong("second value of a record of one", number(20, 8), "0")),
            2 => vec![number(12, 8), number(20, 8)],
            _ => return Err(wrong("count", count, "1 or 2")),
        };
        let mut rest = [0; 16];
        rest.copy_from_slice(&chunk[28..]);
        records.push(Record { register: number(4, 8), values, rest });
    }
    Ok(records)
}

/// Value that the loader resolves into a bit-field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BarKind {
    /// A device address.
    Address,
    /// A data-set identifier of on-chip memory.
    DataSet,
    /// An offset in a buffer.
    Offset,
}

/// A custom bar: a bit-field that the loader writes a resolved value into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CustomBar {
    /// Word address of the register.
    pub register: u32,
    /// Lowest bit.
    pub bit: u32,
    /// Number of bits; bits beyond bit 31 are in the next register.
    pub width: u32,
    /// Kind of the value that is written.
    pub kind: BarKind,
}

impl CustomBar {
    /// Writes a value.
    pub fn apply(&self, image: &mut Image, value: u64) -> Result<(), ImageError> {
        let CustomBar { register, bit, width, .. } = *self;
        if width == 0 || bit > 31 || bit + width > 64 {
            return Err(ImageError::Bits { register, bit, width });
        }
        let most = u64::MAX >> (64 - width);
        if value > most {
            return Err(range(&format!("bar in register {register:#x}"), value.into(), 0, most.into(), 1));
        }
        let both = bit + width > 32;
        let low = u64::from(image.register(register)?);
        let high = if both { u64::from(image.register(register + 1)?) } else { 0 };
        let word = (high << 32 | low) & !(most << bit) | value << bit;
        image.set_register(register, word as u32)?;
        if both { image.set_register(register + 1, (word >> 32) as u32) } else { Ok(()) }
    }
}

/// A live-in parameter: an extent or stride that a procedure's input gives at run time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveIn {
    /// Name of the procedure's input.
    pub input: String,
    /// Least value.
    pub start: u64,
    /// Step between values, at least 1.
    pub stop: u64,
    /// Distance of values, at least 1.
    pub step: u64,
    /// Bit-field that receives the value.
    pub bar: CustomBar,
}

impl LiveIn {
    /// Checks a value against start, stop and step, and writes it.
    pub fn bind(&self, image: &mut Image, value: u64) -> Result<(), ImageError> {
        let on_step = self.step != 0 && value.checked_sub(self.start).is_some_and(|d| d % self.step == 0);
        if !on_step || value > self.stop {
            let what = format!("live-in {:?}", self.input);
            return Err(range(&what, value.into(), self.start.into(), self.stop.into(), self.step.into()));
        }
        self.bar.apply(image, value)
    }
}

/// Magic number of patches behind a structure: an encoding of this project's own, since none is known.
pub const PATCHES_MAGIC: &[u8; 8] = b"TDPATCH1";

impl Descriptor {
    /// The structure's bytes; if there are patches, bars and live-ins follow in this project's own
    /// encoding: the magic, the numbers of both, then 32-bit words for positions, 64-bit words for values, names with their length.
    pub fn write(&self) -> Vec<u8> {
        let mut out = self.image.bytes.clone();
        if self.bars.is_empty() && self.live_ins.is_empty() {
            return out;
        }
        out.extend_from_slice(PATCHES_MAGIC);
        let words = |out: &mut Vec<u8>, all: &[u32]| all.iter().for_each(|w| out.extend_from_slice(&w.to_le_bytes()));
        words(&mut out, &[self.bars.len() as u32, self.live_ins.len() as u32]);
        let place = |out: &mut Vec<u8>, b: &CustomBar| words(out, &[b.register, b.bit, b.width, b.kind as u32]);
        self.bars.iter().for_each(|b| place(&mut out, b));
        for live in &self.live_ins {
            place(&mut out, &live.bar);
            [live.start, live.stop, live.step].iter().for_each(|n| out.extend_from_slice(&n.to_le_bytes()));
            words(&mut out, &[live.input.len() as u32]);
            out.extend_from_slice(live.input.as_bytes());
        }
        out
    }

    /// Reads a structure, with or without patches.
    pub fn read(bytes: &[u8]) -> Result<Descriptor, ImageError> {
        let split = bytes.len().min(IMAGE_BYTES as usize);
        let (structure, mut rest) = bytes.split_at(split);
        let image = Image::of_bytes(structure)?;
        if rest.is_empty() {
            return Ok(Descriptor { image, ..Descriptor::default() });
        }
        let wrong = |what, found, expected| ImageError::Record { offset: IMAGE_BYTES as usize, what, found, expected };
        rest = rest.strip_prefix(PATCHES_MAGIC).ok_or(ImageError::Size { found: bytes.len() })?;
        let mut words = Words(rest);
        let cut = || wrong("patches", bytes.len() as u64, "whole");
        let (bars, lives) = (words.word().ok_or_else(cut)?, words.word().ok_or_else(cut)?);
        let mut out = Descriptor { image, ..Descriptor::default() };
        for _ in 0..bars {
            out.bars.push(words.place().ok_or_else(cut)?);
        }
        for _ in 0..lives {
            out.live_ins.push(words.live_in().ok_or_else(cut)?);
        }
        if !words.0.is_empty() {
            return Err(wrong("bytes behind the patches", words.0.len() as u64, "none"));
        }
        Ok(out)
    }

    /// Binds a live-in by the name of its input.
    pub fn bind(&mut self, input: &str, value: u64) -> Result<(), ImageError> {
        let known: Vec<&LiveIn> = self.live_ins.iter().filter(|l| l.input == input).collect();
        if known.is_empty() {
            return Err(ImageError::Field { name: input.to_string() });
        }
        known.into_iter().try_for_each(|live| live.bind(&mut self.image, value))
    }
}

/// Reader of patches.
struct Words<'a>(&'a [u8]);

impl Words<'_> {
    fn word(&mut self) -> Option<u32> {
        let (head, rest) = self.0.split_first_chunk::<4>()?;
        self.0 = rest;
        Some(u32::from_le_bytes(*head))
    }

    fn wide(&mut self) -> Option<u64> {
        Some(u64::from(self.word()?) | u64::from(self.word()?) << 32)
    }

    fn place(&mut self) -> Option<CustomBar> {
        let (register, bit, width) = (self.word()?, self.word()?, self.word()?);
        let kind = [BarKind::Address, BarKind::DataSet, BarKind::Offset].get(self.word()? as usize).copied()?;
        Some(CustomBar { register, bit, width, kind })
    }

    fn live_in(&mut self) -> Option<LiveIn> {
        let bar = self.place()?;
        let (start, stop, step) = (self.wide()?, self.wide()?, self.wide()?);
        let length = self.word()? as usize;
        let (name, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(LiveIn { input: String::from_utf8(name.to_vec()).ok()?, start, stop, step, bar })
    }
}

/// An image with the patches that the loader applies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Descriptor {
    /// The structure.
    pub image: Image,
    /// Values that the loader resolves.
    pub bars: Vec<CustomBar>,
    /// Values that a call binds.
    pub live_ins: Vec<LiveIn>,
}
