//! What is known of parameters before any run speaks: each lies near what is expected of it, and kin near each other.

use std::collections::BTreeMap;

use super::linear::SMALL;
use super::parameters::Parameter;

/// What a distance of one spread counts, doubled: as much as a run of weight 1 that is known to 8 % and as far off. A
/// run's size is r² / (2 · 0.05) near 0, so that one that is known to 5 % would count 0.05.
pub const STRENGTH: f64 = 0.4 * SMALL;

/// A number of kin that is not fitted: it was measured, or is left as it stands.
#[derive(Clone, Debug, PartialEq)]
pub struct Held {
    pub kin: String,
    /// How far it lies from what is expected of it, in the scale of its parameter.
    pub offset: f64,
}

/// A quadratic over positions: STRENGTH / 2 · (uᵀ P u + 2 pᵀ u + constant).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Prior {
    /// STRENGTH · P, row by row.
    hessian: Vec<f64>,
    /// STRENGTH · p.
    pull: Vec<f64>,
    constant: f64,
}

/// What members of one kin have in common: a precision of each about their mean, of that about what is expected, and
/// what is held.
struct Shared {
    within: f64,
    spread: f64,
    members: Vec<usize>,
    held: Vec<f64>,
}

impl Shared {
    fn precision(&self) -> f64 {
        let count = (self.members.len() + self.held.len()) as f64;
        count * self.within + self.spread
    }

    fn held_sum(&self) -> f64 {
        self.held.iter().sum()
    }
}

fn shared(parameters: &[Parameter], held: &[Held]) -> BTreeMap<String, Shared> {
    let mut kin: BTreeMap<String, Shared> = BTreeMap::new();
    for (index, parameter) in parameters.iter().enumerate() {
        if let Some(own) = &parameter.kin {
            let new = || Shared {
                within: own.within.powi(-2),
                spread: parameter.spread.powi(-2),
                members: Vec::new(),
                held: Vec::new(),
            };
            kin.entry(own.name.clone()).or_insert_with(new).members.push(index);
        }
    }
    for one in held {
        if let Some(kin) = kin.get_mut(&one.kin) {
            kin.held.push(one.offset);
        }
    }
    kin
}

impl Prior {
    /// Of `parameters`; of kin beside `held`, each of which counts as a member that stands still. With offsets y from
    /// what is expected, kin cost min over v of Σ ((y − v) / within)² + (v / spread)².
    pub fn of(parameters: &[Parameter], held: &[Held]) -> Self {
        let n = parameters.len();
        let mut prior = Self::plain(n);
        for kin in shared(parameters, held).into_values() {
            let (own, all, sum) = (kin.within, kin.precision(), kin.held_sum());
            for &i in &kin.members {
                let scale = parameters[i].deviation();
                for &j in &kin.members {
                    let one = if i == j { own } else { 0.0 };
                    let entry = scale * parameters[j].deviation() * (one - own * own / all);
                    prior.hessian[i * n + j] = STRENGTH * entry;
                }
                prior.pull[i] = -STRENGTH * scale * own * own * sum / all;
            }
            let squares: f64 = kin.held.iter().map(|offset| offset * offset).sum();
            prior.constant += STRENGTH * (own * squares - (own * sum).powi(2) / all);
        }
        prior
    }

    /// Of `count` parameters without kin.
    pub fn plain(count: usize) -> Self {
        let mut hessian = vec![0.0; count * count];
        (0..count).for_each(|i| hessian[i * count + i] = STRENGTH);
        Self { hessian, pull: vec![0.0; count], constant: 0.0 }
    }

    /// What `position` costs.
    pub fn value(&self, position: &[f64]) -> f64 {
        let slope = self.gradient(position);
        let parts = position.iter().zip(slope).zip(&self.pull);
        let sum: f64 = parts.map(|((u, slope), pull)| u * (slope + pull)).sum();
        f64::midpoint(sum, self.constant)
    }

    /// How that changes.
    pub fn gradient(&self, position: &[f64]) -> Vec<f64> {
        let n = position.len();
        let row = |i: usize| -> f64 {
            let row = &self.hessian[i * n..(i + 1) * n];
            self.pull[i] + row.iter().zip(position).map(|(entry, u)| entry * u).sum::<f64>()
        };
        (0..n).map(row).collect()
    }

    /// Row by row.
    pub fn hessian(&self) -> &[f64] {
        &self.hessian
    }
}

/// How far the mean of each kin lies from what is expected of it, in the scale of its parameters, where these stand at
/// `position`; by name.
pub fn means(parameters: &[Parameter], held: &[Held], position: &[f64]) -> BTreeMap<String, f64> {
    let mean = |(name, kin): (String, Shared)| {
        let own = kin.members.iter().map(|&i| position[i] * parameters[i].deviation());
        let sum = own.sum::<f64>() + kin.held_sum();
        (name, kin.within * sum / kin.precision())
    };
    shared(parameters, held).into_iter().map(mean).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calibrate::fitting::linear::{Jacobian, Loss};
    use crate::calibrate::fitting::parameters::Kinship;

    fn member(kin: Option<&str>) -> Parameter {
        Parameter {
            devices: vec!["a".to_owned()],
            engines: Vec::new(),
            path: "b".to_owned(),
            lower: 1e-3,
            upper: 1e3,
            expected: 2.0,
            spread: 0.3,
            kin: kin.map(|name| Kinship { name: name.to_owned(), expected: 2.0, within: 0.1 }),
            rests_on: None,
            meaning: String::new(),
        }
    }

    /// Where three kin settle if the logarithm of the one of index `seen` is measured `offset` above what is expected,
    /// `times` over.
    fn settled(held: &[Held], seen: usize, offset: f64, times: f64) -> (Vec<Parameter>, Vec<f64>) {
        let parameters = vec![member(Some("kin")); 3];
        let prior = Prior::of(&parameters, held);
        let scale = parameters[0].deviation();
        let jacobian = Jacobian { rows: vec![vec![(seen, scale)]] };
        let loss = Loss { weights: &[times], prior: &prior, limits: &[(-100.0, 100.0); 3] };
        let position = loss.step(&[-offset], &jacobian, &[0.0; 3], 100.0);
        (parameters, position)
    }

    #[test]
    fn a_kin_of_one_is_a_plain_prior() {
        let alone = Prior::of(&[member(Some("kin"))], &[]);
        let plain = Prior::of(&[member(None)], &[]);
        for position in [-2.0, 0.0, 0.5] {
            assert!((alone.value(&[position]) - plain.value(&[position])).abs() < 1e-12);
            assert!((plain.value(&[position]) - STRENGTH / 2.0 * position * position).abs() < 1e-12);
        }
    }

    #[test]
    fn the_cost_of_kin_is_that_of_the_best_mean() {
        let parameters = vec![member(Some("kin")), member(Some("kin")), member(None)];
        let held = [Held { kin: "kin".to_owned(), offset: 0.4 }];
        let prior = Prior::of(&parameters, &held);
        let position = [0.7, -1.1, 0.3];
        let offsets = [0, 1].map(|i| position[i] * parameters[i].deviation());
        let cost = |mean: f64| {
            let own = offsets.iter().chain(&[0.4]).map(|offset| ((offset - mean) / 0.1).powi(2)).sum::<f64>();
            STRENGTH / 2.0 * (own + (mean / 0.3).powi(2) + 0.09)
        };
        let best = means(&parameters, &held, &position)["kin"];
        assert!((prior.value(&position) - cost(best)).abs() < 1e-12);
        assert!(cost(best) < cost(best + 1e-3) && cost(best) < cost(best - 1e-3));
        let ahead = [0.7 + 1e-6, -1.1, 0.3];
        let slope = (prior.value(&ahead) - prior.value(&position)) / 1e-6;
        assert!((slope - prior.gradient(&position)[0]).abs() < 1e-6);
    }

    #[test]
    fn a_member_without_runs_stands_at_the_mean_of_its_kin() {
        let (parameters, position) = settled(&[], 0, 0.02, 0.1);
        let mean = means(&parameters, &[], &position)["kin"];
        for &other in &position[1..] {
            assert!((other * parameters[0].deviation() - mean).abs() < 1e-9);
        }
        assert!(mean > 0.0 && position[0] > position[1]);
    }

    #[test]
    fn a_member_with_many_contrary_runs_leaves_its_kin() {
        let offset = 0.5;
        let (parameters, few) = settled(&[], 0, offset, 0.04);
        let (_, many) = settled(&[], 0, offset, 100.0);
        let scale = parameters[0].deviation();
        assert!((many[0] * scale - offset).abs() < 0.01, "{many:?}");
        assert!(few[0] * scale < 0.8 * offset, "{few:?}");
        // One contrary member moves the others by the share that is common: 0.3² of 0.3² + 0.1².
        assert!((many[1] * scale / (many[0] * scale) - 0.9).abs() < 0.01, "{many:?}");
    }

    #[test]
    fn what_was_measured_of_kin_pulls_those_that_were_not() {
        let held = [Held { kin: "kin".to_owned(), offset: 0.2 }];
        let (parameters, position) = settled(&held, 0, 0.0, 0.0);
        for own in position {
            assert!((own * parameters[0].deviation() - 0.2 * 0.9).abs() < 1e-9);
        }
    }
}
