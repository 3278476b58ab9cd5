//! The histories of a range's cells, kept page by page: only what is touched takes memory.

use super::shadow::Cell;

/// Cells of a page.
const PAGE: usize = 128;

/// What has been done to each cell of a range.
#[derive(Default)]
pub struct Histories {
    pages: Vec<Option<Box<[Cell]>>>,
    touched: Vec<usize>,
}

/// Bytes that a launch has read or written. Bytes that it has done both to count as written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touch {
    pub start: usize,
    pub end: usize,
    pub write: bool,
}

impl Histories {
    pub fn cell(&mut self, index: usize) -> &mut Cell {
        let (page, at) = (index / PAGE, index % PAGE);
        if page >= self.pages.len() {
            self.pages.resize_with(page + 1, || None);
        }
        let touched = &mut self.touched;
        let cells = self.pages[page].get_or_insert_with(|| {
            touched.push(page);
            vec![Cell::default(); PAGE].into()
        });
        &mut cells[at]
    }

    pub fn clear(&mut self) {
        for page in self.touched.drain(..) {
            self.pages[page] = None;
        }
    }

    /// What has been touched since this block, in order; a cell has `granule` bytes.
    pub fn touches(&mut self, first_block: u32, granule: usize) -> Vec<Touch> {
        self.touched.sort_unstable();
        let mut touches: Vec<Touch> = vec![];
        for &page in &self.touched {
            for (at, cell) in self.pages[page].iter().flat_map(|page| page.iter().enumerate()) {
                let Some(write) = cell.touched_since(first_block) else {
                    continue;
                };
                let start = (page * PAGE + at) * granule;
                match touches.last_mut() {
                    Some(last) if last.end == start && last.write == write => last.end += granule,
                    _ => touches.push(Touch { start, end: start + granule, write }),
                }
            }
        }
        touches
    }
}
