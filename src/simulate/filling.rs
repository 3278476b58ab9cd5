//! Progressive filling: how fast instructions run that compete for resources.

use crate::cost::Resource;

/// The speeds, as shares of running alone, of instructions with these demands: all rise together until a resource
/// is full; those that use it stay there, the others rise on, to at most 1.
pub fn rates(demands: &[[f64; Resource::COUNT]], rates: &mut Vec<f64>) {
    rates.clear();
    rates.resize(demands.len(), 1.0);
    if demands.len() <= 1 {
        return;
    }
    let mut frozen = vec![false; demands.len()];
    loop {
        let mut level = 1.0_f64;
        let mut full = None;
        for resource in 0..Resource::COUNT {
            let mut held = 0.0;
            let mut rising = 0.0;
            for (index, demand) in demands.iter().enumerate() {
                if frozen[index] {
                    held += demand[resource] * rates[index];
                } else {
                    rising += demand[resource];
                }
            }
            if rising > 0.0 {
                let reached = ((1.0 - held) / rising).max(0.0);
                if reached < level {
                    level = reached;
                    full = Some(resource);
                }
            }
        }
        for (index, rate) in rates.iter_mut().enumerate() {
            if !frozen[index] {
                *rate = level;
            }
        }
        let Some(resource) = full else { return };
        for (index, demand) in demands.iter().enumerate() {
            if demand[resource] > 0.0 {
                frozen[index] = true;
            }
        }
        if frozen.iter().all(|&done| done) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn speeds(demands: &[&[f64]]) -> Vec<f64> {
        let demands: Vec<_> = demands
            .iter()
            .map(|shares| {
                let mut demand = [0.0; Resource::COUNT];
                demand[..shares.len()].copy_from_slice(shares);
                demand
            })
            .collect();
        let mut out = Vec::new();
        rates(&demands, &mut out);
        out
    }

    #[test]
    fn one_runs_alone_and_two_share() {
        assert_eq!(speeds(&[&[1.0]]), [1.0]);
        assert_eq!(speeds(&[&[1.0], &[1.0]]), [0.5, 0.5]);
        assert_eq!(speeds(&[&[0.4], &[0.6]]), [1.0, 1.0]);
    }

    #[test]
    fn who_does_not_use_the_full_resource_rises_on() {
        let speeds = speeds(&[&[1.0, 0.0], &[1.0, 0.2], &[0.0, 0.8]]);
        assert_eq!(speeds, [0.5, 0.5, 1.0]);
    }

    #[test]
    fn no_resource_is_ever_overfull() {
        let demands: [&[f64]; 4] = [&[0.9, 0.3], &[0.5, 0.9], &[0.2, 0.1], &[0.0, 0.7]];
        let speeds = speeds(&demands);
        for resource in 0..2 {
            let used: f64 = demands.iter().zip(&speeds).map(|(demand, speed)| demand[resource] * speed).sum();
            assert!(used <= 1.0 + 1e-9);
        }
    }
}
