//! Runs the cases and says which failed: `cases [--only SUBSTRING] [--order forward|reversed|random] [--list]`.
//!
//! `MESHWRIGHT_GPU=real` takes the machine's GPU instead of the emulator.

use gpu::{Gpu, Order, cases, run};
use std::process::ExitCode;
use std::time::Instant;

#[derive(Default)]
struct Options {
    only: String,
    order: Option<Order>,
    list: bool,
}

fn main() -> ExitCode {
    match options().and_then(|options| all(&options)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(text) => {
            eprintln!("{text}");
            ExitCode::FAILURE
        }
    }
}

fn options() -> Result<Options, String> {
    let mut options = Options::default();
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--list" => options.list = true,
            "--only" => options.only = words.next().ok_or("--only needs a part of a name")?,
            "--order" => {
                options.order = Some(match words.next().as_deref() {
                    Some("forward") => Order::Forward,
                    Some("reversed") => Order::Reversed,
                    Some("random") => Order::Random,
                    other => return Err(format!("--order is forward, reversed or random, not {other:?}")),
                });
            }
            other => return Err(format!("the option {other} isn't known")),
        }
    }
    Ok(options)
}

/// Whether all chosen cases passed.
fn all(options: &Options) -> Result<bool, String> {
    let real = match std::env::var("MESHWRIGHT_GPU").as_deref() {
        Ok("real") => true,
        Ok("emulated") | Err(_) => false,
        Ok(other) => return Err(format!("MESHWRIGHT_GPU is `real` or `emulated`, not `{other}`")),
    };
    let mut gpu = match (options.list, real) {
        (false, true) => Some(Gpu::real()?),
        (false, false) => Some(Gpu::emulated(Order::Forward, true)),
        (true, _) => None,
    };
    // A real device runs each case twice, because its threads come in an order of their own.
    let orders = match options.order {
        Some(order) => vec![(order, true)],
        None if real => vec![run::ORDERS[0]; 2],
        None => run::ORDERS.to_vec(),
    };
    let (mut passed, mut failed) = (0, vec![]);
    for (operator, cases) in cases::all() {
        for case in cases {
            let name = format!("{operator}/{}", case.name);
            if !name.contains(&options.only) {
                continue;
            }
            let Some(gpu) = &mut gpu else {
                println!("{name}");
                continue;
            };
            let start = Instant::now();
            // A case that panics fails alone.
            let work = std::panic::AssertUnwindSafe(|| run::run(gpu, case, &orders));
            let result = std::panic::catch_unwind(work)
                .unwrap_or_else(|panic| Err(format!("panics: {}", words(&*panic))));
            let milliseconds = start.elapsed().as_secs_f64() * 1e3;
            match result {
                Ok(()) => {
                    passed += 1;
                    println!("PASS {name} {milliseconds:.1} ms");
                }
                Err(text) => {
                    println!("FAIL {name} {milliseconds:.1} ms: {text}");
                    failed.push(name);
                }
            }
        }
    }
    if passed == 0 && failed.is_empty() && !options.list {
        return Err(format!("no case's name contains `{}`; --list lists them", options.only));
    }
    if let Some(gpu) = &gpu {
        println!("{passed} passed, {} failed on {}", failed.len(), gpu.name());
        failed.iter().for_each(|name| println!("failed: {name}"));
    }
    Ok(failed.is_empty())
}

/// What a panic says.
fn words(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("for no stated reason")
}
