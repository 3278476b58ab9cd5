//! Initial weights against values computed elsewhere; checkpoints there and back; what can be wrong with them.

mod saves;

use std::fs;
use std::path::Path;

use half::{bf16, f16};
use safetensors::tensor::{Dtype, SafeTensors, TensorView, serialize_to_file};

use super::*;
use crate::execute::contents::{Kept, Tensors};
use crate::model::parameters::parameters;
use crate::model::roles::Role;
use crate::model::{from_text, load};
use crate::units::ElementType;

const GPT2: &str =
    r#"{"model_type":"gpt2","n_embd":8,"n_layer":2,"n_head":2,"vocab_size":11,"n_positions":6}"#;

const MIXTRAL: &str = r#"{"model_type":"mixtral","hidden_size":8,"num_hidden_layers":1,"num_attention_heads":4,
    "num_key_value_heads":2,"intermediate_size":6,"vocab_size":11,"num_local_experts":2,
    "num_experts_per_tok":1}"#;

const GRAPH: &str = include_str!("../../../../tests/layer_graphs/two-losses.json");

fn model(text: &str) -> Model {
    from_text(text, "test", "test").unwrap()
}

/// Every parameter, whole, in model order.
fn all(model: &Model, weights: &Weights) -> Vec<Vec<f64>> {
    let mut values = Vec::new();
    for (index, layer) in model.layers().enumerate() {
        for parameter in parameters(&layer.kind) {
            let mut out = vec![f64::NAN; parameter.elements() as usize];
            let columns = 0..parameter.columns;
            weights.read(index, parameter.role, 0..parameter.rows, columns, &mut out, Pool::Serial);
            values.push(out);
        }
    }
    values
}

/// Saves the weights, with moments that are all 0.
fn save(folder: &Path, model: &Model, element: ElementType, weights: &Weights) {
    save_all(folder, model, (element, Progress { step: 3, data_position: 12 }), [Some(weights), None, None]);
}

/// Saves weights and both moments; what is none is all 0.
fn save_all(
    folder: &Path,
    model: &Model,
    (element, progress): (ElementType, Progress),
    all: [Option<&Weights>; 3],
) {
    let all = all.map(|weights| weights.map(|weights| whole(model, weights)));
    let values = |kept: Kept, parameter: (usize, Role)| {
        let place = match kept {
            Kept::Parameters => 0,
            Kept::FirstMoments => 1,
            _ => 2,
        };
        all[place].as_ref().map(|tensors| tensors[&parameter].clone())
    };
    write(folder, model, element, progress, &values).unwrap().put().unwrap();
}

/// Every parameter, by layer and role.
fn whole(model: &Model, weights: &Weights) -> Tensors {
    let of = |(index, kind)| {
        parameters(kind).into_iter().map(move |parameter| {
            let mut out = vec![f64::NAN; parameter.elements() as usize];
            let (rows, columns) = (0..parameter.rows, 0..parameter.columns);
            weights.read(index, parameter.role, rows, columns, &mut out, Pool::Serial);
            ((index, parameter.role), out)
        })
    };
    model.layers().map(|layer| &layer.kind).enumerate().flat_map(of).collect()
}

#[test]
fn normal_numbers_are_those_of_the_specification() {
    // By a Python program of its own, which checks itself on published values of SplitMix64 and FNV-1a.
    let values = [
        (0, "transformer.wte.weight", 0, -1.034_948_441_112_833_1),
        (0, "transformer.wte.weight", 1, -0.204_802_362_100_125_15),
        (7, "transformer.wte.weight", 0, -2.283_408_877_893_198_2),
        (
            1_234_567_890_123_456_789,
            "model.layers.3.mlp.gate_proj.weight",
            58_720_255,
            -0.214_683_213_136_801,
        ),
        (0, "lm_head.weight", (1 << 40) + 3, 1.778_780_820_270_848_4),
    ];
    for (seed, name, index, wanted) in values {
        let found = random::normal(random::key(seed, name), index);
        assert!((found - wanted).abs() < 1e-14, "{name} {index}: {found} for {wanted}");
    }
}

#[test]
fn normal_numbers_have_mean_0_and_variance_1() {
    let key = random::key(3, "some.weight");
    let numbers: Vec<f64> = (0..100_000).map(|index| random::normal(key, index)).collect();
    let mean = numbers.iter().sum::<f64>() / 1e5;
    let variance = numbers.iter().map(|number| (number - mean).powi(2)).sum::<f64>() / 1e5;
    let neighbours = numbers.windows(2).map(|pair| pair[0] * pair[1]).sum::<f64>() / 1e5;
    assert!(mean.abs() < 0.01 && (variance - 1.0).abs() < 0.02 && neighbours.abs() < 0.01);
}

#[test]
fn an_element_is_drawn_at_its_place_in_the_stored_tensor() {
    let model = model(GPT2);
    let weights = Weights::random(&model, 5);
    let mut out = [0.0];
    weights.read(3, Role::Key, 6..7, 2..3, &mut out, Pool::Serial);
    let key = random::key(5, "transformer.h.1.attn.c_attn.weight");
    assert_eq!(out[0], 0.02 * random::normal(key, 2 * 24 + 8 + 6));
    weights.read(3, Role::Output, 6..7, 2..3, &mut out, Pool::Serial);
    let key = random::key(5, "transformer.h.1.attn.c_proj.weight");
    assert_eq!(out[0], 0.01 * random::normal(key, 2 * 8 + 6));
}

#[test]
fn what_is_saved_is_read_back() {
    for text in [GPT2, MIXTRAL, GRAPH] {
        let model = model(text);
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("new");
        let weights = Weights::random(&model, 1);
        save(&folder, &model, ElementType::Fp64, &weights);
        let again = load(folder.to_str().unwrap()).unwrap();
        let opened = Weights::open(&again, &folder).unwrap();
        assert_eq!(all(&model, &weights), all(&again, &opened));
        save(&folder, &model, ElementType::Fp32, &weights);
        let opened = Weights::open(&again, &folder).unwrap();
        let single = |values: Vec<Vec<f64>>| -> Vec<Vec<f64>> {
            values.into_iter().map(|list| list.iter().map(|it| f64::from(*it as f32)).collect()).collect()
        };
        assert_eq!(single(all(&model, &weights)), all(&again, &opened));
        assert_eq!(
            fs::read_dir(&folder).unwrap().count(),
            3,
            "nothing but the weights, the configuration and the state"
        );
    }
}

#[test]
fn parts_are_what_the_whole_has_there() {
    let model = model(MIXTRAL);
    let folder = tempfile::tempdir().unwrap();
    let random = Weights::random(&model, 2);
    save(folder.path(), &model, ElementType::Fp64, &random);
    let threads = rayon::ThreadPoolBuilder::new().num_threads(3).build().unwrap();
    for weights in [random, Weights::open(&model, folder.path()).unwrap()] {
        for (index, layer) in model.layers().enumerate() {
            for parameter in parameters(&layer.kind) {
                let (rows, columns, role) = (parameter.rows, parameter.columns, parameter.role);
                let mut whole = vec![0.0; parameter.elements() as usize];
                weights.read(index, role, 0..rows, 0..columns, &mut whole, Pool::Serial);
                let (row, column) = (rows / 3..rows - rows / 4, columns / 3..columns.div_ceil(2));
                let width = (column.end - column.start) as usize;
                let mut part = vec![0.0; (row.end - row.start) as usize * width];
                weights.read(index, role, row.clone(), column.clone(), &mut part, Pool::Threads(&threads));
                for (line, values) in row.zip(part.chunks(width.max(1))) {
                    let at = (line * columns + column.start) as usize;
                    assert_eq!(values, &whole[at..at + width], "{role}");
                }
            }
        }
    }
}

/// A checkpoint written by the safetensors crate from tensors of 1, 2, 3, … in `dtype`.
fn counted(path: &Path, names: &[(String, Vec<usize>)], dtype: Dtype) {
    let encode = |value: usize| -> Vec<u8> {
        let value = value as f64;
        match dtype {
            Dtype::F64 => value.to_le_bytes().to_vec(),
            Dtype::F32 => (value as f32).to_le_bytes().to_vec(),
            Dtype::F16 => f16::from_f64(value).to_le_bytes().to_vec(),
            Dtype::BF16 => bf16::from_f64(value).to_le_bytes().to_vec(),
            _ => (value as i32).to_le_bytes().to_vec(),
        }
    };
    let bytes: Vec<Vec<u8>> =
        names.iter().map(|(_, shape)| (1..=shape.iter().product()).flat_map(encode).collect()).collect();
    let views = names
        .iter()
        .zip(&bytes)
        .map(|((name, shape), bytes)| (name.clone(), TensorView::new(dtype, shape.clone(), bytes).unwrap()));
    serialize_to_file(views, None, path).unwrap();
}

fn stored(model: &Model) -> Vec<(String, Vec<usize>)> {
    let mut list: Vec<(String, Vec<usize>)> = tensors(model)
        .into_iter()
        .map(|tensor| (tensor.name, tensor.shape.iter().map(|size| *size as usize).collect()))
        .collect();
    list.dedup();
    list
}

#[test]
fn checkpoints_of_every_type_of_the_base_alone_and_in_several_files_are_read() {
    let model = model(GPT2);
    let names = stored(&model);
    let short: Vec<_> = names
        .iter()
        .map(|(name, shape)| (name.strip_prefix("transformer.").unwrap().to_owned(), shape.clone()))
        .collect();
    let value = |folder: &Path| {
        let mut out = [0.0; 2];
        let weights = Weights::open(&model, folder).unwrap();
        weights.read(1, Role::Value, 3..4, 4..6, &mut out, Pool::Serial);
        out
    };
    // Row 3 of the values, inputs 4 and 5, counted from 1 in a matrix of 8 by 24.
    let wanted = [(4 * 24 + 16 + 3 + 1) as f64, (5 * 24 + 16 + 3 + 1) as f64];
    for dtype in [Dtype::F64, Dtype::F32, Dtype::F16, Dtype::BF16] {
        for names in [&names, &short] {
            let folder = tempfile::tempdir().unwrap();
            counted(&folder.path().join("model.safetensors"), names, dtype);
            assert_eq!(value(folder.path()), wanted, "{dtype:?}");
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let (left, right) = names.split_at(7);
    let mut map = serde_json::Map::new();
    for (file, names) in [("a.safetensors", left), ("b.safetensors", right)] {
        counted(&folder.path().join(file), names, Dtype::F32);
        map.extend(names.iter().map(|(name, _)| (name.clone(), file.into())));
    }
    let index = serde_json::json!({ "metadata": {}, "weight_map": map }).to_string();
    fs::write(folder.path().join("model.safetensors.index.json"), index).unwrap();
    assert_eq!(value(folder.path()), wanted);
}

#[test]
fn what_is_wrong_with_a_checkpoint_is_said_with_the_tensors_name() {
    let model = model(GPT2);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    let failure = || Weights::open(&model, folder.path()).unwrap_err().to_string();
    assert!(failure().starts_with(&format!("cannot read `{}`", path.display())), "{}", failure());
    let mut names = stored(&model);
    let missing = names.pop().unwrap().0;
    counted(&path, &names, Dtype::F32);
    assert_eq!(failure(), format!("`{}` has no tensor `{missing}`", path.display()));
    names.push((missing.clone(), vec![4, 2]));
    counted(&path, &names, Dtype::F32);
    let wanted =
        format!("tensor `{missing}` has shape [4, 2] in `{}`, and the model wants [8]", path.display());
    assert_eq!(failure(), wanted);
    names.last_mut().unwrap().1 = vec![8];
    counted(&path, &names, Dtype::I32);
    assert!(failure().contains("is of type I32; F64, F32, F16 and BF16 can be read"), "{}", failure());
    counted(&path, &names, Dtype::F32);
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
    assert!(failure().contains("is no safetensors file"), "{}", failure());
    fs::remove_file(&path).unwrap();
    let index = folder.path().join("model.safetensors.index.json");
    fs::write(index, r#"{"weight_map":{"a":"../a.safetensors"}}"#).unwrap();
    assert!(failure().contains("which is no file beside it"), "{}", failure());
}

#[test]
fn the_files_that_we_write_are_safetensors_files_that_hugging_face_opens() {
    let model = model(GPT2);
    let folder = tempfile::tempdir().unwrap();
    save(folder.path(), &model, ElementType::Fp32, &Weights::random(&model, 0));
    let bytes = fs::read(folder.path().join("model.safetensors")).unwrap();
    let (_, metadata) = SafeTensors::read_metadata(&bytes).unwrap();
    assert_eq!(metadata.metadata().as_ref().unwrap()["format"], "pt");
    let file = SafeTensors::deserialize(&bytes).unwrap();
    assert_eq!(file.len(), stored(&model).len());
    let tensor = file.tensor("transformer.h.0.attn.c_attn.weight").unwrap();
    assert_eq!((tensor.dtype(), tensor.shape()), (Dtype::F32, &[8, 24][..]));
    let config: serde_json::Value =
        serde_json::from_slice(&fs::read(folder.path().join("config.json")).unwrap()).unwrap();
    assert_eq!(config, serde_json::from_str::<serde_json::Value>(GPT2).unwrap());
}

#[test]
fn moments_step_and_position_are_read_back() {
    let mut model = model(GPT2);
    model.graph[petgraph::graph::NodeIndex::new(0)].frozen = true;
    let folder = tempfile::tempdir().unwrap();
    let weights = [7, 8, 9].map(|seed| Weights::random(&model, seed));
    let progress = Progress { step: 20, data_position: 640 };
    let [own, first, second] = &weights;
    save_all(folder.path(), &model, (ElementType::Fp64, progress), weights.each_ref().map(Some));
    let opened = Opened::new(&model, folder.path(), Begin::WhereItStopped).unwrap();
    assert_eq!((all(&model, &opened.weights), opened.remark), (all(&model, own), None));
    let state = opened.state.unwrap();
    assert_eq!((state.step, state.data_position), (20, 640));
    for (saved, opened) in [(first, &state.first), (second, &state.second)] {
        let (mut wanted, mut found) = ([0.0; 64], [1.0; 64]);
        saved.read(3, Role::Output, 0..8, 0..8, &mut wanted, Pool::Serial);
        opened.read(3, Role::Output, 0..8, 0..8, &mut found, Pool::Serial);
        assert_eq!(wanted, found);
    }
    let bytes = fs::read(folder.path().join("state.safetensors")).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    assert!(file.names().contains(&"transformer.h.0.ln_1.weight.m"));
    assert!(!file.names().contains(&"transformer.wte.weight.m"), "a frozen layer has no moments");
}
