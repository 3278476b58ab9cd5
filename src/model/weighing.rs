//! When the weights of losses are known: at which layers each is looked at, and the order of their backwards.

use super::graph::{LossWeight, Model};

/// A layer at which the norm of a loss's gradient is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Watch {
    /// Index of the loss.
    pub loss: usize,
    /// Index of the layer, over all of whose trained parameters the norm goes.
    pub layer: usize,
}

impl Model {
    /// What adaptive weights look at: each at the gradient of its own loss and at another's, at one layer. Sorted,
    /// each once.
    pub fn watches(&self) -> Vec<Watch> {
        let mut list: Vec<Watch> =
            (0..self.losses.len()).filter_map(|loss| self.looks(loss)).flatten().collect();
        list.sort_unstable();
        list.dedup();
        list
    }

    /// What the weight of loss `loss` looks at, if it is adaptive: numerator and denominator.
    pub fn looks(&self, loss: usize) -> Option<[Watch; 2]> {
        let LossWeight::Adaptive { of, at } = &self.losses[loss].weight else { return None };
        let layer = self.layers().position(|layer| layer.name == *at)?;
        let of = self.losses.iter().position(|other| other.name == *of)?;
        Some([of, loss].map(|loss| Watch { loss, layer }))
    }

    /// Whether the backward of loss `loss` starts with a weight of 1, and its own comes later: an adaptive one, and
    /// a weight of 0 whose gradient others look at.
    pub fn is_weighed_late(&self, loss: usize) -> bool {
        match self.losses[loss].weight {
            LossWeight::Adaptive { .. } => true,
            LossWeight::Fixed(weight) => {
                weight == 0.0 && self.watches().iter().any(|watch| watch.loss == loss)
            }
        }
    }

    /// Losses in the order of their backwards: as listed, but none before the one that its weight looks at; and
    /// whether there is such an order.
    pub fn backward_order(&self) -> (Vec<usize>, bool) {
        let mut left: Vec<usize> = (0..self.losses.len()).collect();
        let (mut order, mut is_sound) = (Vec::with_capacity(left.len()), true);
        while !left.is_empty() {
            let waits =
                |loss: usize| self.looks(loss).is_some_and(|[of, own]| of != own && left.contains(&of.loss));
            let next = left.iter().position(|&loss| !waits(loss));
            is_sound &= next.is_some();
            order.push(left.remove(next.unwrap_or(0)));
        }
        (order, is_sound)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::from_text;

    /// Three losses of one head each, whose weights look at one another as `of` says.
    fn model(of: [Option<&str>; 3]) -> Model {
        let mut layers = vec![
            r#"{"name":"embedding","kind":{"embedding":{"vocabulary":8,"hidden":4}}}"#.to_owned(),
            r#"{"name":"mlp","kind":{"mlp":{"hidden":4,"intermediate":8,"activation":"gelu"}},"inputs":["embedding"]}"#
                .to_owned(),
        ];
        let mut losses = Vec::new();
        for (name, of) in ["a", "b", "c"].into_iter().zip(of) {
            layers.push(format!(
                r#"{{"name":"{name}","kind":{{"loss":"mean_squared_error"}},"inputs":["mlp"]}}"#
            ));
            let weight = of
                .map_or("0".to_owned(), |of| format!(r#"{{"adaptive":{{"of":"{of}","at":"block 0 mlp"}}}}"#));
            losses.push(format!(r#"{{"name":"{name}","layer":"{name}","weight":{weight}}}"#));
        }
        let (layers, losses) = (layers.join(","), losses.join(","));
        let text = format!(
            r#"{{"version":1,"name":"m","max_sequence":8,"layers":[{layers}],"losses":[{losses}],
                "repeat":[{{"first":"mlp","last":"mlp","count":1}}]}}"#
        );
        from_text(&text, "graph.json", "m").expect("the graph is legal")
    }

    #[test]
    fn no_backward_runs_before_the_one_that_its_weight_looks_at() {
        for (of, order, is_sound) in [
            ([None, Some("a"), Some("b")], [0, 1, 2], true),
            ([Some("c"), Some("a"), None], [2, 0, 1], true),
            ([Some("a"), None, None], [0, 1, 2], true),
            ([Some("b"), Some("a"), None], [2, 0, 1], false),
        ] {
            assert_eq!(model(of).backward_order(), (order.to_vec(), is_sound), "{of:?}");
        }
    }

    #[test]
    fn a_weight_of_zero_that_is_looked_at_comes_late() {
        let model = model([None, Some("a"), None]);
        assert_eq!([0, 1, 2].map(|loss| model.is_weighed_late(loss)), [true, true, false]);
        assert_eq!(model.watches(), [0, 1].map(|loss| Watch { loss, layer: 1 }));
    }
}
