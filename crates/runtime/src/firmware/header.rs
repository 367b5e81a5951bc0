//! A command's header: six fields in 24 bytes, in the two layouts of the sources.

use crate::error::Code;
use crate::words::{put32, u32_at};
use anemone_facts::driver::limits::HEADER_BYTES;

/// Header layout of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// As published, with the identity first: all channels except the execution loop's.
    Published,
    /// As read by the execution loop, with a 16-bit identity at 4 and the priority last.
    Loop,
}

/// The fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Command: index of the name table in the published form, wire number in the loop's.
    pub id: u32,
    /// Bytes of the body.
    pub size: u32,
    /// Priority.
    pub priority: u32,
    /// Program, -1 if unbound.
    pub program: i32,
    /// Process, -1 if unbound.
    pub process: i32,
    /// Procedure.
    pub procedure: u32,
}

impl Header {
    /// Bytes of a header.
    pub const BYTES: usize = HEADER_BYTES as usize;

    /// The header's bytes. The loop's form has 16 bits for the identity; larger ones are refused.
    pub fn encode(&self, form: Form) -> Result<[u8; Header::BYTES], Code> {
        let mut out = [0; Header::BYTES];
        let tail = match form {
            Form::Published => {
                let words =
                    [self.id, self.size, self.priority, self.program as u32, self.process as u32, self.procedure];
                words.iter().enumerate().for_each(|(i, &w)| put32(&mut out, 4 * i, w));
                return Ok(out);
            }
            Form::Loop => [self.program as u32, self.process as u32, self.procedure, self.priority],
        };
        let id = u16::try_from(self.id).map_err(|_| Code::BAD_ARGUMENT)?;
        put32(&mut out, 0, self.size);
        out[4..6].copy_from_slice(&id.to_le_bytes());
        tail.iter().enumerate().for_each(|(i, &w)| put32(&mut out, 8 + 4 * i, w));
        Ok(out)
    }

    /// Reads a header and its body. The size is checked against `buffer_bytes` and the message before the body is read.
    pub fn decode(message: &[u8], form: Form, buffer_bytes: usize) -> Result<(Header, &[u8]), Code> {
        if message.len() < Header::BYTES {
            return Err(Code::BAD_ARGUMENT);
        }
        let w = |at| u32_at(message, at);
        let header = match form {
            Form::Published => Header {
                id: w(0),
                size: w(4),
                priority: w(8),
                program: w(12) as i32,
                process: w(16) as i32,
                procedure: w(20),
            },
            Form::Loop => Header {
                size: w(0),
                id: w(4) & 0xffff,
                program: w(8) as i32,
                process: w(12) as i32,
                procedure: w(16),
                priority: w(20),
            },
        };
        let end = Header::BYTES.checked_add(header.size as usize).filter(|&end| end <= buffer_bytes);
        let body = end.and_then(|end| message.get(Header::BYTES..end)).ok_or(Code::BAD_ARGUMENT)?;
        Ok((header, body))
    }
}
