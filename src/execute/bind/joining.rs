//! Products whose operands lie side by side as one product: queries, keys and values of the same rows.

use crate::execute::call::{Columns, Factor, Gemm, View};
use crate::lower::kernel::Into;
use crate::program::placing::Region;

/// The one product that does what `first` and then `second` do; none where there is no such.
pub(super) fn joined(first: &Gemm, second: &Gemm) -> Option<Gemm> {
    let joins = [columns_joined, rows_joined, depths_joined];
    joins.into_iter().find_map(|join| join(first, second))
}

/// Columns of one output from the same rows.
fn columns_joined(first: &Gemm, second: &Gemm) -> Option<Gemm> {
    let bias = match (first.bias, second.bias) {
        (Some(first), Some(second)) => Some(behind(first, second)?),
        (None, None) => None,
        _ => return None,
    };
    let b = factor(true, (first.b, second.b), below)?;
    let output = beside(first.output, second.output)?;
    let is_one = first.a == second.a && first.write == second.write;
    is_one.then(|| Gemm { b, bias, output, ..first.clone() })
}

/// Rows of one output from rows that stand side by side, transposed.
fn rows_joined(first: &Gemm, second: &Gemm) -> Option<Gemm> {
    let a = factor(true, (first.a, second.a), beside)?;
    let output = below(first.output, second.output)?;
    let is_one = first.b == second.b && first.write == second.write && has_no_bias(first, second);
    is_one.then(|| Gemm { a, output, ..first.clone() })
}

/// A sum of two products as a product twice as deep.
fn depths_joined(first: &Gemm, second: &Gemm) -> Option<Gemm> {
    let a = factor(false, (first.a, second.a), beside)?;
    let b = factor(false, (first.b, second.b), below)?;
    let is_one = first.output == second.output && second.write == Into::Add && has_no_bias(first, second);
    is_one.then(|| Gemm { a, b, ..first.clone() })
}

const fn has_no_bias(first: &Gemm, second: &Gemm) -> bool {
    first.bias.is_none() && second.bias.is_none()
}

fn factor(
    transposed: bool,
    (first, second): (Factor, Factor),
    join: fn(Columns, Columns) -> Option<Columns>,
) -> Option<Factor> {
    let alike = first.transposed == transposed && second.transposed == transposed;
    Some(Factor { matrix: join(first.matrix, second.matrix).filter(|_| alike)?, transposed })
}

/// Columns of the same rows.
fn beside(first: Columns, second: Columns) -> Option<Columns> {
    let columns = first.columns + second.columns;
    let follows = Columns { first: first.first + first.columns, columns: second.columns, ..first };
    (follows == second).then_some(Columns { columns, ..first })
}

/// The same columns of rows that follow one another.
fn below(first: Columns, second: Columns) -> Option<Columns> {
    let view = behind(first.view, second.view)?;
    (Columns { view: second.view, ..first } == second).then_some(Columns { view, ..first })
}

/// Memory that follows at once.
fn behind(first: View, second: View) -> Option<View> {
    let end = first.region.offset + first.region.bytes;
    let follows = View { region: Region { offset: end, ..second.region }, ..first };
    let region = Region { bytes: first.region.bytes + second.region.bytes, ..first.region };
    (follows == second).then_some(View { region, ..first })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::execute::call::Space;
    use crate::execute::storage::Storage;
    use crate::units::ElementType;

    fn view(first: usize, count: usize) -> View {
        let region = Region { offset: first * 4, bytes: count * 4 };
        View { space: Space::Device, region, storage: Storage::Number(ElementType::Fp32) }
    }

    fn plain(first: usize, rows: usize, columns: usize) -> Columns {
        Columns::all(view(first, rows * columns), columns)
    }

    fn gemm(a: (Columns, bool), b: (Columns, bool), output: Columns) -> Gemm {
        let [a, b] = [a, b].map(|(matrix, transposed)| Factor { matrix, transposed });
        Gemm { a, b, bias: None, output, write: Into::Set, scratch: view(9000, 9) }
    }

    #[test]
    fn only_what_lies_side_by_side_is_joined() {
        // x (4, 8) · W (6, 8)ᵀ in two products: with the first two rows of W, and with the four that follow.
        let x = (plain(0, 4, 8), false);
        let y = |first, columns| Columns { first, columns, ..plain(500, 4, 6) };
        let first = gemm(x, (plain(100, 2, 8), true), y(0, 2));
        let second = gemm(x, (plain(116, 4, 8), true), y(2, 4));
        assert_eq!(joined(&first, &second), Some(gemm(x, (plain(100, 6, 8), true), y(0, 6))));
        assert_eq!(joined(&second, &first), None);
        for other in [
            gemm(x, (plain(117, 4, 8), true), y(2, 4)),
            gemm(x, (plain(116, 4, 8), true), y(1, 4)),
            gemm((plain(1, 4, 8), false), (plain(116, 4, 8), true), y(2, 4)),
            Gemm { write: Into::Add, ..second.clone() },
            Gemm { bias: Some(view(700, 4)), ..second.clone() },
        ] {
            assert_eq!(joined(&first, &other), None, "{other:?}");
        }
        let with = |gemm: &Gemm, start, count| Gemm { bias: Some(view(start, count)), ..gemm.clone() };
        let bias = joined(&with(&first, 700, 2), &with(&second, 702, 4)).map(|gemm| gemm.bias);
        assert_eq!(bias, Some(Some(view(700, 6))));

        // dyᵀ · x, and dy · W.
        let dw = |dy, start, rows| gemm((dy, true), x, plain(start, rows, 8));
        let rows = joined(&dw(y(0, 2), 100, 2), &dw(y(2, 4), 116, 4));
        assert_eq!(rows, Some(dw(y(0, 6), 100, 6)));
        let dx = |dy, start, rows, write| Gemm {
            write,
            ..gemm((dy, false), (plain(start, rows, 8), false), plain(0, 4, 8))
        };
        let first = dx(y(0, 2), 100, 2, Into::Set);
        let depths = joined(&first, &dx(y(2, 4), 116, 4, Into::Add));
        assert_eq!(depths, Some(dx(y(0, 6), 100, 6, Into::Set)));
        assert_eq!(joined(&first, &dx(y(2, 4), 116, 4, Into::Set)), None);
    }
}
