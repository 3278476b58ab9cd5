//! The legal strategy closest to one that breaks a rule.

use crate::search::axes::divisors;
use crate::strategy::{Draft, Facts, Key, Strategy};

/// Most rules mended one after the other.
const MOST_REPAIRS: usize = 6;
/// Most drafts that are mended side by side.
const MOST_DRAFTS: usize = 64;

/// The legal strategy that differs from `typed` in the fewest of its keys: by the nearest values that each broken rule
/// names, or else by another mesh.
pub(super) fn nearest(typed: &Draft, facts: &Facts<'_>) -> Option<Strategy> {
    mended(typed, facts).or_else(|| other_mesh(typed, facts))
}

/// A strategy with the typed keys that it gives otherwise, and how far its last mended value is from the broken one.
type Mended = (usize, f64, Strategy);

/// Sets what each rule asks for until none is broken.
fn mended(typed: &Draft, facts: &Facts<'_>) -> Option<Strategy> {
    let mut drafts = vec![typed.clone()];
    let mut seen = drafts.clone();
    for _ in 0..MOST_REPAIRS {
        let (mut legal, mut next) = (Vec::<Mended>::new(), Vec::new());
        for draft in &drafts {
            let Err(broken) = draft.resolve(facts) else { continue };
            let Ok(key) = broken.field.parse::<Key>() else { continue };
            for near in &broken.nearest {
                let Ok(value) = Draft::parse(&format!("{key}={near}")) else { continue };
                match draft.changed(key, &value, facts) {
                    Ok((draft, strategy)) => {
                        legal.push((differing(typed, &draft), apart(&broken.value, near), strategy));
                    }
                    Err(_) => {
                        let mut draft = draft.clone();
                        draft.take(key, &value);
                        next.push(draft);
                    }
                }
            }
        }
        let by_distance = |one: &Mended, other: &Mended| one.0.cmp(&other.0).then(one.1.total_cmp(&other.1));
        if let Some((_, _, strategy)) = legal.into_iter().min_by(by_distance) {
            return Some(strategy);
        }
        next.retain(|draft| !seen.contains(draft));
        next.truncate(MOST_DRAFTS);
        seen.extend(next.iter().cloned());
        drafts = next;
    }
    None
}

/// The difference of two values where they are numbers.
fn apart(one: &str, other: &str) -> f64 {
    let numbers = one.parse::<f64>().ok().zip(other.parse::<f64>().ok());
    numbers.map_or(0.0, |(one, other)| (one - other).abs())
}

/// Keys that `typed` gives and `draft` gives otherwise.
fn differing(typed: &Draft, draft: &Draft) -> usize {
    let differs = |&key: &Key| {
        let mut moved = draft.clone();
        moved.take(key, typed);
        moved != *draft
    };
    typed.keys().into_iter().filter(differs).count()
}

/// The closest mesh under which the other keys are legal; where there is none, with micro-batches of one too.
fn other_mesh(typed: &Draft, facts: &Facts<'_>) -> Option<Strategy> {
    let mut plain = typed.clone();
    for key in [Key::Data, Key::Accumulation, Key::Shard, Key::Cuts] {
        plain.take(key, &Draft::default());
    }
    let single = Draft { micro_batch: None, ..plain.clone() };
    [plain, single].iter().find_map(|draft| {
        let meshes = meshes(facts.devices).into_iter().filter_map(|sizes| {
            let [tensor, context, pipeline] = sizes.map(Some);
            let strategy = Draft { tensor, context, pipeline, ..draft.clone() }.resolve(facts).ok()?;
            Some((distance(typed, &strategy), strategy))
        });
        meshes.min_by(|one, other| one.0.total_cmp(&other.0)).map(|(_, strategy)| strategy)
    })
}

/// Sizes of tensor, context and pipeline parallelism whose product divides `devices`.
fn meshes(devices: u64) -> Vec<[u64; 3]> {
    let mut list = Vec::new();
    for tensor in divisors(devices) {
        for context in divisors(devices / tensor) {
            list.extend(
                divisors(devices / tensor / context).into_iter().map(|pipeline| [tensor, context, pipeline]),
            );
        }
    }
    list
}

/// How many doublings lie between the sizes that were typed and those of `strategy`.
fn distance(typed: &Draft, strategy: &Strategy) -> f64 {
    let sizes = [
        (typed.tensor, strategy.tensor),
        (typed.context, strategy.context),
        (typed.pipeline, strategy.pipeline),
    ];
    let doublings = sizes.map(|(typed, size)| (size as f64 / typed.unwrap_or(1) as f64).log2().abs());
    let data = typed.data.map_or(0.0, |typed| (strategy.data as f64 / typed as f64).log2().abs());
    doublings.iter().sum::<f64>() + data
}
