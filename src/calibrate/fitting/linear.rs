//! Robust least squares within a box for residuals that are linear in the parameters.

use super::prior::Prior;

/// Residuals smaller than this (5 %) count by their square, larger ones by their size.
pub const SMALL: f64 = 0.05;

/// Derivatives of residuals: by row, (parameter, derivative), in the order of the parameters.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Jacobian {
    pub rows: Vec<Vec<(usize, f64)>>,
}

/// A sum of weighted sizes of residuals, beside what is known of the parameters before any run speaks.
#[derive(Clone, Copy, Debug)]
pub struct Loss<'a> {
    /// One a residual.
    pub weights: &'a [f64],
    pub prior: &'a Prior,
    /// The least and the largest position of each parameter.
    pub limits: &'a [(f64, f64)],
}

impl Loss<'_> {
    /// Its value for `residuals` at `position`.
    pub fn value(&self, residuals: &[f64], position: &[f64]) -> f64 {
        let size = |residual: f64| (residual * residual + SMALL * SMALL).sqrt() - SMALL;
        // What counts nothing may be no number.
        let counted = residuals.iter().zip(self.weights).filter(|(_, w)| **w > 0.0);
        let errors: f64 = counted.map(|(&r, w)| w * size(r)).sum();
        errors + self.prior.value(position)
    }

    /// Gradient and Gauss-Newton Hessian of the reweighted squares at `residuals`.
    pub fn normal(&self, residuals: &[f64], jacobian: &Jacobian, position: &[f64]) -> Normal {
        let n = position.len();
        let mut gradient = self.prior.gradient(position);
        let mut hessian = self.prior.hessian().to_vec();
        let rows = residuals.iter().zip(self.weights).zip(&jacobian.rows);
        for ((&residual, &weight), row) in rows.filter(|((_, weight), _)| **weight > 0.0) {
            let share = weight / (residual * residual + SMALL * SMALL).sqrt();
            for &(i, a) in row {
                gradient[i] += share * residual * a;
                for &(j, b) in row {
                    hessian[i * n + j] += share * a * b;
                }
            }
        }
        Normal { gradient, hessian }
    }

    /// The change of `position` that makes the loss of `residuals` + `jacobian` · change smallest, no part of it
    /// longer than `radius` and all parts within the limits; by iteratively reweighted least squares.
    pub fn step(&self, residuals: &[f64], jacobian: &Jacobian, position: &[f64], radius: f64) -> Vec<f64> {
        let mut change = vec![0.0; position.len()];
        for _ in 0..REWEIGHTINGS {
            let moved: Vec<f64> = add(position, &change);
            let normal = self.normal(&jacobian.after(residuals, &change), jacobian, &moved);
            let bounds: Vec<(f64, f64)> = position
                .iter()
                .zip(self.limits)
                .zip(&change)
                .map(|((u, (least, most)), d)| ((-radius).max(least - u) - d, radius.min(most - u) - d))
                .collect();
            let further = normal.within(&bounds);
            let largest = further.iter().fold(0.0_f64, |largest, part| largest.max(part.abs()));
            change = add(&change, &further);
            if largest < 1e-7 {
                break;
            }
        }
        change
    }
}

const REWEIGHTINGS: usize = 80;
const SWEEPS: usize = 400;

/// Quadratic model of a loss.
#[derive(Clone, Debug, PartialEq)]
pub struct Normal {
    pub gradient: Vec<f64>,
    /// Row by row.
    pub hessian: Vec<f64>,
}

impl Normal {
    /// The change within `bounds` that makes the model smallest, by coordinate descent.
    fn within(&self, bounds: &[(f64, f64)]) -> Vec<f64> {
        let n = bounds.len();
        let mut change = vec![0.0; n];
        let mut slope = self.gradient.clone();
        for _ in 0..SWEEPS {
            let mut largest = 0.0_f64;
            for i in 0..n {
                let row = &self.hessian[i * n..(i + 1) * n];
                if row[i] <= 0.0 {
                    continue;
                }
                let next = (change[i] - slope[i] / row[i]).clamp(bounds[i].0, bounds[i].1);
                let moved = next - change[i];
                if moved != 0.0 {
                    change[i] = next;
                    slope.iter_mut().zip(row).for_each(|(slope, entry)| *slope += entry * moved);
                    largest = largest.max(moved.abs());
                }
            }
            if largest < 1e-9 {
                break;
            }
        }
        change
    }

    /// The inverse Hessian's diagonal over the parameters that are `free`; none for the others.
    pub fn variances(&self, free: &[bool]) -> Vec<Option<f64>> {
        let n = free.len();
        let kept: Vec<usize> = (0..n).filter(|&i| free[i]).collect();
        let m = kept.len();
        // Gauss-Jordan beside the identity; the Hessian is positive definite.
        let mut left: Vec<f64> = kept
            .iter()
            .flat_map(|&i| kept.iter().map(move |&j| (i, j)))
            .map(|(i, j)| self.hessian[i * n + j])
            .collect();
        let mut right: Vec<f64> = (0..m * m).map(|at| if at / m == at % m { 1.0 } else { 0.0 }).collect();
        for pivot in 0..m {
            let scale = left[pivot * m + pivot];
            for column in 0..m {
                left[pivot * m + column] /= scale;
                right[pivot * m + column] /= scale;
            }
            for row in (0..m).filter(|&row| row != pivot) {
                let factor = left[row * m + pivot];
                for column in 0..m {
                    left[row * m + column] -= factor * left[pivot * m + column];
                    right[row * m + column] -= factor * right[pivot * m + column];
                }
            }
        }
        let mut variances = vec![None; n];
        for (at, &i) in kept.iter().enumerate() {
            variances[i] = Some(right[at * m + at]);
        }
        variances
    }
}

impl Jacobian {
    /// `residuals` after `change`, were they linear.
    pub fn after(&self, residuals: &[f64], change: &[f64]) -> Vec<f64> {
        let moved = |row: &Vec<(usize, f64)>| row.iter().map(|&(i, slope)| slope * change[i]).sum::<f64>();
        residuals.iter().zip(&self.rows).map(|(residual, row)| residual + moved(row)).collect()
    }

    /// Bends it so that it says of `change` what was seen, by as little as that takes (Broyden's update, row by row
    /// on the entries that are there; Schubert 1970).
    pub fn learn(&mut self, change: &[f64], before: &[f64], after: &[f64]) {
        let expected = self.after(before, change);
        for ((row, seen), expected) in self.rows.iter_mut().zip(after).zip(expected) {
            let length: f64 = row.iter().map(|&(i, _)| change[i] * change[i]).sum();
            if length > 1e-12 && seen.is_finite() {
                let missed = (seen - expected) / length;
                row.iter_mut().for_each(|(i, slope)| *slope += missed * change[*i]);
            }
        }
    }
}

/// Sum of two vectors.
pub fn add(left: &[f64], right: &[f64]) -> Vec<f64> {
    left.iter().zip(right).map(|(a, b)| a + b).collect()
}
