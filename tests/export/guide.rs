//! The guide's table of targets says what the program has.

use std::fs;

use meshwright::export::targets;

#[test]
fn the_guide_lists_every_target() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/guide/export.md");
    let guide = fs::read_to_string(path).expect("the guide is there");
    let rows: Vec<&str> =
        guide.lines().filter(|line| line.starts_with("| `") && line.contains('@')).collect();
    let expected: Vec<String> = targets()
        .map(|target| {
            let dialect = target.dialect;
            format!(
                "| `{}` | `{}` ({}) | {} |",
                target.text(),
                dialect.file(),
                dialect.syntax().name(),
                dialect.source()
            )
        })
        .collect();
    assert_eq!(rows, expected);
}
