//! The order of the mesh, as it is written: its axes, fastest first.

use std::fmt;

use super::{Grammar, Parsed};
use crate::strategy::text_error::ValueProblem;
use crate::strategy::{Axis, MeshOrder};

/// A permutation of the axes.
pub struct Order;

impl Grammar for Order {
    type Value = MeshOrder;

    fn form() -> String {
        "a permutation of `tp`, `cp`, `dp`, `pp` joined by `-`; `dp` may be written as `shard` and `replica` in two \
         places"
            .to_owned()
    }

    fn parse(text: &str) -> Parsed<MeshOrder> {
        let mut axes = Vec::with_capacity(5);
        for name in text.split('-') {
            match name {
                "tp" => axes.push(Axis::Tensor),
                "cp" => axes.push(Axis::Context),
                "dp" => axes.extend([Axis::Shard, Axis::Replica]),
                "shard" => axes.push(Axis::Shard),
                "replica" => axes.push(Axis::Replica),
                "pp" => axes.push(Axis::Pipeline),
                _ => {
                    axes.clear();
                    break;
                }
            }
            // A long text stops here and not at its end.
            if axes.len() > 5 {
                break;
            }
        }
        match <[Axis; 5]>::try_from(axes) {
            Ok(axes) if MeshOrder(axes).is_permutation() => Ok(MeshOrder(axes)),
            _ => Err(ValueProblem::NotAPermutation {
                text: text.to_owned(),
                nearest: MeshOrder::default().to_string(),
            }),
        }
    }

    fn print(order: &MeshOrder) -> String {
        order.to_string()
    }
}

impl fmt::Display for MeshOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut names = Vec::with_capacity(5);
        let mut axes = self.0.as_slice();
        while let [axis, rest @ ..] = axes {
            axes = rest;
            names.push(match axis {
                Axis::Tensor => "tp",
                Axis::Context => "cp",
                Axis::Pipeline => "pp",
                Axis::Replica => "replica",
                Axis::Shard => match rest {
                    [Axis::Replica, after @ ..] => {
                        axes = after;
                        "dp"
                    }
                    _ => "shard",
                },
            });
        }
        f.write_str(&names.join("-"))
    }
}
