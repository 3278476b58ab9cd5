//! Where operands lie: views of a rank's memory, matrices in them, lists that a rank has.

use crate::execute::storage::Storage;
use crate::lower::kernel::Into;
use crate::program::placing::Region;
pub use crate::trace::Space;
use crate::units::ElementType;

/// A run of elements in a rank's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View {
    pub space: Space,
    pub region: Region,
    pub storage: Storage,
}

impl View {
    /// `region` of the device.
    pub const fn device(region: Region, storage: Storage) -> Self {
        Self { space: Space::Device, region, storage }
    }

    /// `region` of the host where `on_host`, else of the device.
    pub const fn new(on_host: bool, region: Region, storage: Storage) -> Self {
        let space = if on_host { Space::Host } else { Space::Device };
        Self { space, region, storage }
    }

    /// How many elements it has.
    pub const fn len(&self) -> usize {
        self.region.bytes / self.storage.size()
    }

    /// How many elements it has and of which type, where they are numbers.
    pub const fn numbers(&self) -> Option<(usize, ElementType)> {
        match self.storage {
            Storage::Number(element) => Some((self.len(), element)),
            Storage::Byte | Storage::Index => None,
        }
    }

    /// The same of a message, which is always of numbers.
    pub fn message(&self) -> (usize, ElementType) {
        let Some(numbers) = self.numbers() else {
            unreachable!("messages are of numbers, not of {}", self.storage)
        };
        numbers
    }

    /// Whether it has none.
    pub const fn is_empty(&self) -> bool {
        self.region.bytes == 0
    }
}

/// A matrix whose rows stand in a view, `stride` elements apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Columns {
    /// Whole rows of `stride` elements.
    pub view: View,
    pub stride: usize,
    /// The first of its columns, and how many there are.
    pub first: usize,
    pub columns: usize,
}

impl Columns {
    /// All of `view`, in rows of `columns`.
    pub const fn all(view: View, columns: usize) -> Self {
        Self { view, stride: columns, first: 0, columns }
    }
}

/// An operand of a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Factor {
    pub matrix: Columns,
    /// Rows are taken as columns.
    pub transposed: bool,
}

/// Where a result goes, and whether it replaces what is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    pub view: View,
    pub write: Into,
}

/// A list of indices that does not change over a run: a device has all of a rank's from its start ([`Lists`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum List {
    /// Positions in a sequence of the tokens of a context rank.
    Positions(u32),
    /// Positions of all tokens of a sequence.
    AllPositions,
    /// Of each row of the residual stream on this rank: its position, and its row in the micro-batch's sequences.
    StreamPositions,
    StreamRows,
}

/// The lists of one rank.
#[derive(Clone, Debug, Default)]
pub struct Lists {
    /// By context rank.
    pub positions: Vec<Vec<u32>>,
    pub all_positions: Vec<u32>,
    pub stream_positions: Vec<u32>,
    pub stream_rows: Vec<u32>,
}

impl Lists {
    /// The indices of `list`.
    pub fn get(&self, list: List) -> &[u32] {
        match list {
            List::Positions(context) => &self.positions[context as usize],
            List::AllPositions => &self.all_positions,
            List::StreamPositions => &self.stream_positions,
            List::StreamRows => &self.stream_rows,
        }
    }
}

/// Rows of a table: those that ids in memory name, or a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Indices {
    View(View),
    List(List),
}
