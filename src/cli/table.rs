//! Plain tables: a line of headings, then rows, without borders.

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, ContentArrangement, Table};

/// A table of `rows` under `header`, without trailing blanks.
pub fn table<const N: usize>(
    header: [&str; N],
    alignment: [CellAlignment; N],
    rows: impl IntoIterator<Item = [String; N]>,
) -> String {
    let mut table = Table::new();
    table.load_style(NOTHING).set_content_arrangement(ContentArrangement::Disabled).set_header(header);
    table.add_rows(rows);
    for (column, alignment) in table.column_iter_mut().zip(alignment) {
        column.set_cell_alignment(alignment);
        column.set_padding((0, 2));
    }
    let lines: Vec<_> = table.lines().map(|line| line.trim_end().to_owned()).collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [["a", "1"], ["long name", "100"]].map(|row| row.map(str::to_owned));
        let text = table(["NAME", "N"], [CellAlignment::Left, CellAlignment::Right], rows);
        assert_eq!(text, "NAME         N\na            1\nlong name  100");
    }
}
