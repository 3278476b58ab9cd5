//! The sample with a map around it: a sweep, what if, the largest that fits, a run and its cost.

use super::{prediction, rank, sample_plan, strategy};
use crate::plan::Plan;
use crate::plan::goodput::Goodput;
use crate::plan::map::{
    BreakEvenRecord, ChangeRecord, KeptRecord, MaximumRecord, SensitivityRecord, SweepPoint,
};
use crate::plan::money::Cost;
use crate::search::map::{Maximize, Scenario, SweepKey};
use crate::units::{Bytes, Money, Price, Seconds, Tokens};

/// The sample on 32, 64 and 128 devices, at 2.5 a device-hour, for 15 T tokens.
pub fn mapped_plan() -> Plan {
    let mut plan = sample_plan();
    let wide = strategy("tp=4,pp=4,dp=8,zero=1,micro=1,accum=64,ckpt=selective", "another plan");
    let reason = "nothing fits: the smallest peak found is 91.20 GiB a device of 80.00 GiB, and optimizer takes most of \
                  it; 64 such devices would fit, with tp=8,pp=8";
    let points = [(32, None), (64, Some(plan.strategy.clone())), (128, Some(wide.clone()))];
    plan.swept = Some(SweepKey::Devices);
    plan.sweep = points
        .into_iter()
        .map(|(devices, strategy)| {
            let step = 66.1 * 64.0 / devices as f64;
            let is_there = strategy.is_some();
            let mut whole = prediction(vec![rank(0, 4)]);
            whole.step_time_s = Seconds(step);
            SweepPoint {
                devices,
                nodes: (devices / 8) as u32,
                global_batch: 512,
                seq_len: 8192,
                device_memory_bytes: Bytes::gib(80),
                prediction: is_there.then_some(whole),
                reason: (!is_there).then(|| reason.to_owned()),
                tokens_per_s: is_there.then(|| 512.0 * 8192.0 / step),
                efficiency: is_there.then_some(1.0),
                goodput: is_there.then(|| goodput(devices)),
                cost: is_there.then(|| cost(devices)),
                strategy,
            }
        })
        .collect();
    let change = |key: &str, from: &str, to: &str| ChangeRecord {
        key: key.to_owned(),
        from: from.to_owned(),
        to: to.to_owned(),
    };
    plan.break_evens = vec![BreakEvenRecord { from: 64, to: 128, changes: vec![change("tp", "8", "4")] }];
    let kept = |slower_by: Option<f64>, reason: Option<&str>| KeptRecord {
        fits: reason.is_none(),
        step_time_s: Some(Seconds(70.0)),
        slower_by,
        reason: reason.map(str::to_owned),
    };
    let answer = |scenario, strategy, kept| SensitivityRecord {
        scenario,
        strategy: Some(strategy),
        prediction: Some(prediction(vec![rank(0, 4)])),
        reason: None,
        kept,
    };
    plan.sensitivity = vec![
        answer(Scenario::HalfNetwork, wide.clone(), kept(Some(0.083), None)),
        answer(
            Scenario::LessMemory,
            wide.clone(),
            kept(None, Some("it needs 67.84 GiB of 64.00 GiB, 3.84 GiB too much")),
        ),
        answer(Scenario::DoubleBatch, plan.strategy.clone(), kept(Some(0.0), None)),
    ];
    plan.maximum = Some(MaximumRecord {
        what: Maximize::SeqLen,
        value: Some(65_536),
        strategy: Some(wide),
        prediction: None,
        next_value: Some(66_560),
        next_value_fails_because: reason.to_owned(),
    });
    plan.goodput = Some(goodput(64));
    plan.cost = Some(cost(64));
    plan.pareto[0].devices = Some(64);
    plan.pareto[0].cost_token = Some(Money(7e-7));
    plan
}

fn goodput(devices: u64) -> Goodput {
    let days = 2736.0 * 64.0 / devices as f64;
    Goodput {
        tokens: Tokens(15_000_000_000_000),
        steps: 3_576_279,
        days: Some(days / 0.97),
        goodput: 0.97,
        days_without_failures: days,
        mtbf_s: Some(Seconds(108_000.0)),
        interval_s: Some(Seconds(1800.0)),
        checkpoint_bytes: Some(Bytes::gib(12)),
        checkpoint_s: Some(Seconds(32.2)),
        restart_s: Some(Seconds(600.0)),
        failures: Some(2256.0),
    }
}

fn cost(devices: u64) -> Cost {
    let price: Price = "2.5/h".parse().unwrap();
    let step = price.of(devices, Seconds(66.1 * 64.0 / devices as f64));
    Cost {
        device_hour: price,
        step,
        token: step / (512.0 * 8192.0),
        run: Some(price.of(devices, Seconds(2800.0 * 86_400.0))),
    }
}
