//! The memory curve of a rank against its peak.

mod sampling;

use meshwright::cluster;
use meshwright::cost::DevicePricing;
use meshwright::program::build;
use meshwright::simulate::over_time::MOST_MOMENTS;
use meshwright::simulate::{MemoryMoment, RankPlayback, memory_over_time, play};
use meshwright::units::Bytes;
use sampling::cases;

fn sum(moment: &MemoryMoment) -> Bytes {
    moment.categories.iter().copied().sum()
}

/// What holds of the curve of every rank.
fn check(curve: &[MemoryMoment], rank: &RankPlayback, what: &str) {
    let times: Vec<f64> = curve.iter().map(|moment| moment.at.0).collect();
    assert!(curve.len() <= MOST_MOMENTS, "{what}: {} moments", curve.len());
    assert!(times.is_sorted(), "{what}");
    assert_eq!((times[0], times[times.len() - 1]), (0.0, rank.end.0), "{what}");
    let (first, last) = (curve[0], curve[curve.len() - 1]);
    assert_eq!(first.categories, last.categories, "{what}: a step gives back all that it takes");
    // Of equal peaks the first.
    let fullest = curve.iter().reduce(|full, moment| if sum(moment) > sum(full) { moment } else { full });
    assert_eq!(fullest.map(|moment| moment.categories), Some(rank.memory.categories), "{what}");
    // The peak stands where it is played, give or take how parts of the step are rounded.
    let slack = rank.end.0 * 1e-9;
    let at_peak = curve.iter().enumerate().filter(|(place, moment)| {
        let until = times.get(place + 1).copied().unwrap_or(rank.end.0);
        moment.at.0 <= rank.peak_at.0 + slack && rank.peak_at.0 <= until + slack
    });
    let most = at_peak.map(|(_, moment)| sum(moment)).max();
    assert_eq!(most, Some(rank.memory.total), "{what}: at {} s", rank.peak_at.0);
}

#[test]
fn the_largest_of_the_curve_is_the_peak_where_it_is_played() {
    let cluster = cluster::load("2x8xh100-sxm").expect("built in");
    for (seed, case) in cases(310_000, 600) {
        let program = build(&case.model, &case.strategy, &case.workload, case.engine);
        let pricing = DevicePricing::new(&cluster, case.engine, &case.strategy, case.workload.compute_type());
        let playback = play(&program, &pricing);
        for (stage, rank) in playback.ranks.iter().enumerate() {
            let what = format!(
                "seed {seed}, rank {stage}, {} on {} devices, {}",
                case.text, case.devices, case.engine.name
            );
            check(&memory_over_time(&program, &pricing, stage), rank, &what);
        }
    }
}
