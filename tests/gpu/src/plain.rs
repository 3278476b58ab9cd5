//! The element types that buffers hold, as bytes.

/// A number that a kernel reads from memory. A bf16 is a `u16` that holds its bits.
pub trait Plain: Copy + 'static {
    const BYTES: usize;
    fn append_to(self, bytes: &mut Vec<u8>);
    fn from_bytes(bytes: &[u8]) -> Self;
}

macro_rules! plain {
    ($($number:ty),*) => {$(
        impl Plain for $number {
            const BYTES: usize = size_of::<$number>();
            fn append_to(self, bytes: &mut Vec<u8>) {
                bytes.extend_from_slice(&self.to_le_bytes());
            }
            fn from_bytes(bytes: &[u8]) -> Self {
                Self::from_le_bytes(bytes.try_into().expect("as many bytes as the number has"))
            }
        }
    )*};
}

plain!(f32, f64, u8, i8, u16, i16, u32, i32, u64, i64);

pub(crate) fn to_bytes<T: Plain>(values: &[T]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(values.len() * T::BYTES);
    values.iter().for_each(|value| value.append_to(&mut bytes));
    bytes
}

pub(crate) fn from_bytes<T: Plain>(bytes: &[u8]) -> Vec<T> {
    bytes.chunks_exact(T::BYTES).map(T::from_bytes).collect()
}

/// What memory holds that nothing has been written to: numbers of every float type that are none, and no bytes that
/// kernels write to mean something, as 0xffffffff does.
pub fn unwritten(bytes: usize) -> Vec<u8> {
    // A test of the backend makes gigabytes of them: copies that double are a hundred times faster than a loop over bytes.
    let mut all = [0xf5, 0x7f].repeat(bytes.div_ceil(2));
    all.truncate(bytes);
    all
}
