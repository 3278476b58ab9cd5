//! The search against itself: playing everything finds nothing better, and the number of threads changes nothing.

#[expect(dead_code, reason = "only the random models are of use here")]
mod sampling;

use meshwright::cluster;
use meshwright::profile::engines::engines;
use meshwright::search::{Account, Outcome, Problem, Request, search};
use meshwright::strategy::{Draft, Workload};
use meshwright::units::{Bytes, ElementType, Seconds};
use sampling::{Dice, model};

/// A random small problem; strategies that it leaves few enough of to play them all.
struct Small {
    model: meshwright::model::Model,
    cluster: meshwright::cluster::Cluster,
    workload: Workload,
    memory_limit: Option<Bytes>,
    fix: Draft,
}

impl Small {
    fn new(seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let model = model(&mut dice);
        let cluster = cluster::load(dice.pick(&["1x2xh100-sxm", "1x4xa100-sxm-80gb"])).expect("built in");
        let workload = Workload {
            global_batch: dice.pick(&[2, 4]),
            seq_len: dice.pick(&[32, 64]),
            precision: ElementType::Bf16,
            dropout: 0.0,
            clip: 1.0,
        };
        let memory_limit = dice.pick(&[None, Some(Bytes(2_500_000_000))]);
        let fixes = [
            "loss=full,offload=none",
            "loss=full,zero=3,offload=none",
            "loss=full,pp=1,dp=2,zero=3,shard=2,sp=off",
            "loss=full,pp=1,micro=1,dp=2,zero=1,sp=off",
        ];
        let fix = Draft::parse(dice.pick(&fixes)).expect("it parses");
        Self { model, cluster, workload, memory_limit, fix }
    }

    fn search(&self, exhaustive: bool) -> Option<Outcome> {
        let problem =
            Problem::new(&self.model, &self.cluster, self.workload, &engines()[0], self.memory_limit);
        let request = Request { fix: self.fix.clone(), exhaustive, ..Request::default() };
        search(&problem, &request, &|_| {}).ok()
    }
}

/// What of an account does not depend on the clock.
fn timeless(account: &Account) -> Account {
    Account { wall_time: Seconds::ZERO, ..account.clone() }
}

#[test]
fn playing_everything_finds_nothing_better() {
    let mut compared = 0;
    for seed in 0..12 {
        let small = Small::new(7_000 + seed);
        let (Some(found), Some(all)) = (small.search(false), small.search(true)) else { continue };
        let (best, least) = (found.winner.playback.step_time.0, all.winner.playback.step_time.0);
        let lowest = |bound: Option<Seconds>| bound.map_or(best, |bound| bound.0.min(best));
        let proven = lowest(found.account.lowest_bound);
        assert!(
            least >= proven * (1.0 - 1e-9),
            "seed {seed}: {least} by {:?} is below what was proven, {proven}; found {best}",
            all.winner.strategy
        );
        assert_eq!(all.account.considered, found.account.considered, "seed {seed}");
        for account in [&found.account, &all.account] {
            let fates = account.illegal + account.out_of_memory + account.bounded + account.priced;
            assert_eq!(account.considered, fates, "seed {seed}: {account:?}");
        }
        // It played what could be played, and most of that is not played by the other.
        assert!(all.account.played >= found.account.played, "seed {seed}");
        compared += 1;
    }
    assert!(compared > 6, "{compared} problems had a plan");
}

#[test]
fn threads_change_neither_answer_nor_account() {
    for seed in 0..6 {
        let small = Small::new(9_000 + seed);
        let answers: Vec<_> = [1, 2, 5]
            .into_iter()
            .map(|threads| {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
                pool.install(|| small.search(false)).map(|outcome| {
                    let time = outcome.winner.playback.step_time.0.to_bits();
                    (outcome.winner.strategy, time, timeless(&outcome.account))
                })
            })
            .collect();
        assert_eq!(answers[0], answers[1], "seed {seed}");
        assert_eq!(answers[0], answers[2], "seed {seed}");
    }
}

#[test]
fn an_answer_takes_what_its_strategy_takes_played_by_itself() {
    let model = meshwright::model::load("llama-3.1-8b").expect("built in");
    let cluster = cluster::load("1x8xh100-sxm").expect("built in");
    let workload =
        Workload { global_batch: 64, seq_len: 4096, precision: ElementType::Bf16, dropout: 0.0, clip: 1.0 };
    for engine in engines() {
        let problem = Problem::new(&model, &cluster, workload, engine, Some(Bytes(24 << 30)));
        for text in ["zero=0,micro=2", "tp=4,pp=2"] {
            let fix = Draft::parse(text).expect("it parses");
            let Ok(outcome) = search(&problem, &Request { fix, ..Request::default() }, &|_| {}) else {
                continue;
            };
            let winner = &outcome.winner;
            let again = problem.play(winner.strategy.clone()).playback.step_time.0;
            let found = winner.playback.step_time.0;
            // Some passes are counted and not played one by one: a last bit may differ.
            assert!((again / found - 1.0).abs() < 1e-12, "{}, {text}: {again} for {found}", engine.name);
        }
    }
}
