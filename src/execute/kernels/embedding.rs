//! Rows of a table by index, tokens and positions alike, and their gradients; the table may be a shard of a larger one.

use super::each::each;
use crate::execute::element::Element;
use crate::execute::pool::{Pool, Rows};
use crate::lower::kernel::Into;

/// `y[r]` (=|+=) `table[indices[r] − first]`, with `table` (shard rows, width) and y (rows, width). Indices outside the
/// shard give rows of 0.
pub fn forward<T: Element>(
    pool: Pool<'_>,
    width: usize,
    (table, first): (&[T], usize),
    indices: &[u32],
    (y, write): (&mut [T], Into),
) {
    assert_eq!(table.len() % width, 0, "whole rows of the table");
    assert_eq!(y.len(), indices.len() * width, "a row for each index");
    let shard = table.len() / width;
    each!(pool, indices.len(), 1, (Rows(indices, 1), Rows(y, width)), |_, (indices, y)| {
        for (y, &index) in y.0.chunks_exact_mut(width).zip(indices.0) {
            let row = (index as usize).checked_sub(first).filter(|&row| row < shard);
            match (row.map(|row| &table[row * width..][..width]), write) {
                (Some(row), Into::Set) => y.copy_from_slice(row),
                (Some(row), Into::Add) => {
                    y.iter_mut().zip(row).for_each(|(y, x)| *y = T::narrow(y.wide() + x.wide()));
                }
                (None, Into::Set) => y.fill(T::default()),
                (None, Into::Add) => {}
            }
        }
    });
}

/// `dtable[indices[r] − first] += dy[r]`, rows in order, with dy (rows, width) and `dtable` (shard rows, width). Each
/// addition is rounded to `G`. Threads share the rows of the table, and each looks through all indices.
pub fn backward<T: Element, G: Element<Wide = T::Wide>>(
    pool: Pool<'_>,
    width: usize,
    indices: &[u32],
    dy: &[T],
    (dtable, first): (&mut [G], usize),
) {
    assert_eq!(dtable.len() % width, 0, "whole rows of the table");
    assert_eq!(dy.len(), indices.len() * width, "a row for each index");
    let shard = dtable.len() / width;
    each!(pool, shard, 1, Rows(dtable, width), |range, part| {
        for (dy, &index) in dy.chunks_exact(width).zip(indices) {
            let row = (index as usize).checked_sub(first + range.start).filter(|&row| row < range.len());
            if let Some(row) = row {
                let out = &mut part.0[row * width..][..width];
                out.iter_mut().zip(dy).for_each(|(out, dy)| *out = G::narrow(out.wide() + dy.wide()));
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::execute::kernels::trial::{close, dot, gradient, random, threads};

    const WIDTH: usize = 5;
    const INDICES: [u32; 8] = [3, 9, 0, 3, 7, 4, 3, 9];

    #[test]
    fn shards_of_the_table_add_up_to_the_whole() {
        let table = random::<f32>(10 * WIDTH, 1);
        let mut whole = vec![f32::NAN; INDICES.len() * WIDTH];
        let pool = Pool::Threads(threads());
        forward(pool, WIDTH, (&table, 0), &INDICES, (&mut whole, Into::Set));
        for (row, &index) in whole.chunks(WIDTH).zip(&INDICES) {
            assert_eq!(row, &table[index as usize * WIDTH..][..WIDTH]);
        }
        let mut parts = vec![f32::NAN; whole.len()];
        let (low, high) = table.split_at(4 * WIDTH);
        forward(pool, WIDTH, (low, 0), &INDICES, (&mut parts, Into::Set));
        assert!(parts[WIDTH..2 * WIDTH].iter().all(|&x| x == 0.0), "index 9 is not in the shard");
        forward(pool, WIDTH, (high, 4), &INDICES, (&mut parts, Into::Add));
        assert_eq!(parts, whole);
    }

    #[test]
    fn the_gradient_is_finite_differences_for_every_shard() {
        let table = random::<f64>(10 * WIDTH, 1);
        let dy = random::<f64>(INDICES.len() * WIDTH, 2);
        let expected = gradient(&table, |table| {
            let mut y = vec![0.0; dy.len()];
            forward(Pool::Serial, WIDTH, (table, 0), &INDICES, (&mut y, Into::Set));
            dot(&y, &dy)
        });
        for pool in [Pool::Serial, Pool::Threads(threads())] {
            let mut dtable = vec![0.0; table.len()];
            let (low, high) = dtable.split_at_mut(4 * WIDTH);
            backward(pool, WIDTH, &INDICES, &dy, (low, 0));
            backward(pool, WIDTH, &INDICES, &dy, (high, 4));
            close(&dtable, &expected, 1e-9);
        }
    }
}
