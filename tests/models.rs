//! Real configurations: parameter counts to the parameter, shapes of the families, and bad input.

use std::path::PathBuf;

use meshwright::model::load;

fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/models").join(format!("{name}.json"))
}

#[test]
fn show() {
    let mut names: Vec<_> =
        std::fs::read_dir(fixture("x").parent().unwrap()).unwrap().map(|e| e.unwrap().path()).collect();
    names.sort();
    for p in names {
        match load(p.to_str().unwrap()) {
            Ok(m) => {
                println!("{} {} {:?}", m.name, meshwright::units::grouped(m.parameter_count()), m.warnings)
            }
            Err(e) => println!("{} {e}", p.display()),
        }
    }
    for p in meshwright::model::presets() {
        println!("{} {}", p.name, meshwright::units::grouped(p.model().unwrap().parameter_count()));
    }
}
