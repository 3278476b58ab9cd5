//! The layers of a model in short: those that differ in nothing but their block stand together.

use std::collections::HashMap;

use super::graph::{Model, layer_parameter_count};
use super::layer::Layer;

/// Layers that are alike in all but their block.
#[derive(Clone, Debug)]
pub struct LayerGroup<'a> {
    /// Their name, with all their blocks in the place of one: `block {0..31} attention`.
    pub name: String,
    /// The first of them.
    pub first: &'a Layer,
    pub count: u64,
    /// Parameters of them all.
    pub parameters: u64,
}

/// Layers whose names have one form, while they are gathered.
struct Form<'a> {
    /// What stands in a name before the block and behind it; none behind where a name does not say its block.
    name: (&'a str, Option<&'a str>),
    layers: Vec<&'a Layer>,
}

/// The layers of `model` in its order, by what they are: each group where its first layer stands.
pub fn outline(model: &Model) -> Vec<LayerGroup<'_>> {
    let forms = forms(model, |one, other| one.kind == other.kind && one.frozen == other.frozen);
    forms
        .into_iter()
        .map(|form| LayerGroup {
            name: form.pattern(&form.numbers()),
            first: form.layers[0],
            count: form.layers.len() as u64,
            parameters: form.layers.iter().map(|layer| layer_parameter_count(layer)).sum(),
        })
        .collect()
}

/// The names of all layers, with blocks as in [`outline`].
pub fn name_patterns(model: &Model) -> Vec<String> {
    forms(model, |_, _| true).iter().map(|form| form.pattern(&form.numbers())).collect()
}

/// The names of all layers, with `*` for the block.
pub fn name_globs(model: &Model) -> Vec<String> {
    forms(model, |_, _| true).iter().map(|form| form.pattern("*")).collect()
}

fn forms<'a>(model: &'a Model, is_alike: impl Fn(&Layer, &Layer) -> bool) -> Vec<Form<'a>> {
    let mut forms: Vec<Form<'a>> = Vec::new();
    let mut named: HashMap<_, Vec<usize>> = HashMap::new();
    for layer in model.graph.node_weights() {
        let name = split(layer);
        let same = named.entry(name).or_default();
        match same.iter().find(|&&form| is_alike(forms[form].layers[0], layer)) {
            Some(&form) => forms[form].layers.push(layer),
            None => {
                same.push(forms.len());
                forms.push(Form { name, layers: vec![layer] });
            }
        }
    }
    forms
}

/// The name of `layer` before its block's number and behind it.
fn split(layer: &Layer) -> (&str, Option<&str>) {
    let name = layer.name.as_str();
    let Some(number) = layer.block.map(|block| block.to_string()) else { return (name, None) };
    let is_digit = |sign: char| sign.is_ascii_digit();
    let whole = |(place, _): &(usize, &str)| {
        !name[..*place].ends_with(is_digit) && !name[place + number.len()..].starts_with(is_digit)
    };
    let found = name.match_indices(&number).find(whole);
    found.map_or((name, None), |(place, _)| (&name[..place], Some(&name[place + number.len()..])))
}

impl Form<'_> {
    fn pattern(&self, numbers: &str) -> String {
        match self.name {
            (name, None) => name.to_owned(),
            (before, Some(behind)) => format!("{before}{numbers}{behind}"),
        }
    }

    /// The blocks as a shell would expand them: `3`, `{0..31}`, `{0..30..2}`, `{0..2,5}`.
    fn numbers(&self) -> String {
        let mut blocks: Vec<u32> = self.layers.iter().filter_map(|layer| layer.block).collect();
        blocks.sort_unstable();
        let runs: Vec<&[u32]> = blocks.chunk_by(|one, next| next - one == 1).collect();
        let step = |blocks: &[u32]| {
            let step = blocks.get(1)? - blocks[0];
            blocks.windows(2).all(|pair| pair[1] - pair[0] == step).then_some(step)
        };
        match (blocks.as_slice(), runs.as_slice()) {
            ([], _) => String::new(),
            ([only], _) => only.to_string(),
            ([first, .., last], [_]) => format!("{{{first}..{last}}}"),
            ([first, .., last], several) if several.len() > 2 && step(&blocks).is_some() => {
                format!("{{{first}..{last}..{}}}", step(&blocks).unwrap_or(1))
            }
            (_, several) => {
                let run = |run: &&[u32]| match run {
                    [first, .., last] => format!("{first}..{last}"),
                    run => run.iter().map(u32::to_string).collect(),
                };
                format!("{{{}}}", several.iter().map(run).collect::<Vec<_>>().join(","))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::load;

    #[test]
    fn like_layers_stand_together() {
        let model = load("gpt2").unwrap();
        let names: Vec<String> = outline(&model).into_iter().map(|group| group.name).collect();
        assert_eq!(names, ["embedding", "block {0..11} attention", "block {0..11} mlp", "head", "loss"]);
        let parameters: u64 = outline(&model).iter().map(|group| group.parameters).sum();
        assert_eq!(parameters, model.parameter_count());
        assert_eq!(name_globs(&model)[1], "block * attention");
    }

    #[test]
    fn layers_that_differ_stand_apart() {
        let model = load("gemma-2-9b").unwrap();
        let names: Vec<String> = outline(&model).into_iter().map(|group| group.name).collect();
        assert!(names.contains(&"block {0..40..2} attention".to_owned()), "{names:?}");
        assert!(names.contains(&"block {0..41} mlp".to_owned()), "{names:?}");
        assert!(name_patterns(&model).contains(&"block {0..41} attention".to_owned()));
        let mut model = load("gpt2").unwrap();
        for layer in model.graph.node_weights_mut() {
            layer.frozen = layer.name.starts_with("block 3 ");
        }
        let names: Vec<String> = outline(&model).into_iter().map(|group| group.name).collect();
        assert_eq!(
            names[1..4],
            ["block {0..2,4..11} attention", "block {0..2,4..11} mlp", "block 3 attention"]
        );
    }
}
