//! Runs the cases and says which failed: `cases [--only SUBSTRING] [--order forward|reversed|random] [--list]`.
//!
//! `MESHWRIGHT_GPU=real` takes the machine's GPU instead of the emulator.

use gpu::{Case, Gpu, Order, cases, run};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::slice::Iter;
use std::sync::Mutex;
use std::thread;
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
    let chosen = chosen(&options.only);
    if chosen.is_empty() {
        return Err(format!("no case's name contains `{}`; --list lists them", options.only));
    }
    if options.list {
        chosen.iter().for_each(|(name, _)| println!("{name}"));
        return Ok(true);
    }
    // A real device runs each case twice, because its threads come in an order of their own.
    let orders = match options.order {
        Some(order) => vec![(order, true)],
        None if real => vec![run::ORDERS[0]; 2],
        None => run::ORDERS.to_vec(),
    };
    let (device, failed) = if real {
        let mut gpu = Gpu::real()?;
        (gpu.name(), outcomes(&mut gpu, &Mutex::new(chosen.iter()), &orders))
    } else {
        ("emulator".into(), on_all_cores(&chosen, &orders))
    };
    println!("{} passed, {} failed on {device}", chosen.len() - failed.len(), failed.len());
    failed.iter().for_each(|name| println!("failed: {name}"));
    Ok(failed.is_empty())
}

/// The cases whose name contains `part`.
fn chosen(part: &str) -> Vec<(String, &'static Case)> {
    let named = |(operator, cases): (&str, &'static [Case])| {
        let operator = operator.to_owned();
        cases.iter().map(move |case| (format!("{operator}/{}", case.name), case))
    };
    cases::all().into_iter().flat_map(named).filter(|(name, _)| name.contains(part)).collect()
}

/// The names of the cases that failed on emulators, one for each core, which take them from one queue.
fn on_all_cores(chosen: &[(String, &Case)], orders: &[(Order, bool)]) -> Vec<String> {
    let queue = Mutex::new(chosen.iter());
    let worker = || outcomes(&mut Gpu::emulated(Order::Forward, true), &queue, orders);
    thread::scope(|scope| {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let workers: Vec<_> = (0..cores.min(chosen.len())).map(|_| scope.spawn(worker)).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("cases fail, workers do not")).collect()
    })
}

/// Runs what the queue still has; the names of the cases that failed.
fn outcomes(gpu: &mut Gpu, queue: &Mutex<Iter<(String, &Case)>>, orders: &[(Order, bool)]) -> Vec<String> {
    let mut failed = vec![];
    loop {
        let next = queue.lock().expect("no worker panics while it takes a case").next();
        let Some((name, case)) = next else { return failed };
        let start = Instant::now();
        // A case that panics fails alone.
        let work = AssertUnwindSafe(|| run::run(gpu, case, orders));
        let result = catch_unwind(work).unwrap_or_else(|panic| Err(format!("panics: {}", words(&*panic))));
        let milliseconds = start.elapsed().as_secs_f64() * 1e3;
        match result {
            Ok(()) => println!("PASS {name} {milliseconds:.1} ms"),
            Err(text) => {
                println!("FAIL {name} {milliseconds:.1} ms: {text}");
                failed.push(name.clone());
            }
        }
    }
}

/// What a panic says.
fn words(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("for no stated reason")
}
