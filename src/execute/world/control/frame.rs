//! What travels over a control connection: frames of a kind, a length and bytes.

use std::io::{self, Read, Write};

/// The longest frame that is read: larger things go in several.
const MOST: usize = 1 << 30;

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A contribution to what ranks do together, or an answer to one.
    Data,
    /// The sender lives; what it is doing.
    Beat,
    /// The job has failed.
    Failed,
    /// The sender goes in good order.
    Left,
}

impl Kind {
    const ALL: [Self; 4] = [Self::Data, Self::Beat, Self::Failed, Self::Left];
}

/// Writes one frame.
///
/// # Errors
/// If the connection fails.
pub fn write(stream: &mut impl Write, kind: Kind, bytes: &[u8]) -> io::Result<()> {
    let mut head = [0_u8; 9];
    head[0] = kind as u8;
    head[1..].copy_from_slice(&(bytes.len() as u64).to_le_bytes());
    stream.write_all(&head)?;
    stream.write_all(bytes)?;
    stream.flush()
}

/// Reads one frame.
///
/// # Errors
/// If the connection ends or fails, or what comes is no frame.
pub fn read(stream: &mut impl Read) -> io::Result<(Kind, Vec<u8>)> {
    let mut head = [0_u8; 9];
    stream.read_exact(&mut head)?;
    let (kind, length) = head.split_at(1);
    let length = u64::from_le_bytes(length.try_into().unwrap_or_default());
    let kind = Kind::ALL.into_iter().find(|known| *known as u8 == kind[0]);
    match kind {
        Some(kind) if length <= MOST as u64 => {
            let mut bytes = vec![0; length as usize];
            stream.read_exact(&mut bytes)?;
            Ok((kind, bytes))
        }
        _ => Err(io::Error::new(io::ErrorKind::InvalidData, "what came is no frame")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_read_as_they_are_written() {
        let mut bytes = Vec::new();
        write(&mut bytes, Kind::Data, b"abc").unwrap();
        write(&mut bytes, Kind::Left, b"").unwrap();
        let mut rest = bytes.as_slice();
        assert_eq!(read(&mut rest).unwrap(), (Kind::Data, b"abc".to_vec()));
        assert_eq!(read(&mut rest).unwrap(), (Kind::Left, Vec::new()));
        assert_eq!(read(&mut rest).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        bytes[0] = 9;
        assert_eq!(read(&mut bytes.as_slice()).unwrap_err().kind(), io::ErrorKind::InvalidData);
        let huge = [&[0_u8][..], &u64::MAX.to_le_bytes()].concat();
        assert_eq!(read(&mut huge.as_slice()).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
