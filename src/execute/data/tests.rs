//! What the data modules promise: formats, windows, shares, shuffling, and an error for every wrong file.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use tempfile::TempDir;

use super::*;

struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }
}

fn u16_bytes(ids: &[u16]) -> Vec<u8> {
    ids.iter().flat_map(|id| id.to_le_bytes()).collect()
}

/// A file of llm.c: `numbers` at the start of the header, then `ids`.
fn llmc(numbers: [i32; 3], ids: &[u8]) -> Vec<u8> {
    let mut bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    bytes.resize(1024, 0);
    bytes.extend(ids);
    bytes
}

fn all(file: &TokenFile) -> Vec<u32> {
    let mut tokens = vec![0; file.count() as usize];
    file.read(0, &mut tokens).unwrap();
    tokens
}

fn opened(path: &Path, format: Option<DataFormat>, vocabulary: u32) -> Result<Vec<u32>, String> {
    TokenFile::open(path, format, vocabulary).map(|file| all(&file)).map_err(|error| error.to_string())
}

/// The end of the error's text, behind the path.
fn refused(path: &Path, format: Option<DataFormat>, vocabulary: u32) -> String {
    let text = opened(path, format, vocabulary).unwrap_err();
    assert!(text.contains(path.to_str().unwrap()), "{text}");
    text.split_once("` ").or(text.split_once("`: ")).unwrap().1.to_owned()
}

#[test]
fn formats_are_told_by_name_and_start() {
    let folder = Folder::new();
    let text = folder.file("a.txt", b"hi\n");
    assert_eq!(opened(&text, None, 256).unwrap(), [104, 105, 10]);
    let ids = folder.file("a.bin", &u16_bytes(&[1, 65535, 300]));
    assert_eq!(opened(&ids, None, 70_000).unwrap(), [1, 65535, 300]);
    assert_eq!(opened(&ids, Some(DataFormat::Text), 256).unwrap(), [1, 0, 255, 255, 44, 1]);
    let short = folder.file("b.bin", &llmc([20240520, 1, 2], &u16_bytes(&[7, 50256])));
    assert_eq!(opened(&short, None, 50257).unwrap(), [7, 50256]);
    let wide: Vec<u8> = [128_000u32, 5].iter().flat_map(|id| id.to_le_bytes()).collect();
    for version in [1, 7] {
        let wide = folder.file("c.bin", &llmc([20240801, version, 2], &wide));
        assert_eq!(opened(&wide, None, 128_256).unwrap(), [128_000, 5]);
    }
    let elsewhere = folder.file("d.dat", &llmc([20240520, 1, 1], &u16_bytes(&[7])));
    assert_eq!(opened(&elsewhere, None, 256).unwrap().len(), 1026);
    assert_eq!(opened(&elsewhere, Some(DataFormat::Llmc), 256).unwrap(), [7]);
    assert_eq!(opened(&short, Some(DataFormat::U16), 65536).unwrap().len(), 514);
}

#[test]
fn wrong_files_are_refused_with_what_would_do() {
    let folder = Folder::new();
    let odd = folder.file("odd.bin", &[1, 2, 3]);
    assert_eq!(refused(&odd, None, 256), "has 3 bytes, which is no whole number of 16-bit token ids");
    let format = Some(DataFormat::Llmc);
    assert_eq!(refused(&odd, format, 256), "has 3 bytes, and a header of llm.c takes 1024");
    let magic = folder.file("magic.bin", &llmc([5, 1, 0], &[]));
    assert_eq!(refused(&magic, format, 256), "the header's magic number is 5; 20240520 or 20240801 would do");
    let version = folder.file("version.bin", &llmc([20240520, 7, 1], &[0, 0]));
    assert_eq!(refused(&version, None, 256), "the header's version is 7; 1 would do");
    let cut = folder.file("cut.bin", &llmc([20240520, 1, 9], &u16_bytes(&[1, 2, 3])));
    assert_eq!(refused(&cut, None, 256), "the header's number of tokens is 9; 3 would do");
    let ids = folder.file("ids.bin", &u16_bytes(&[1, 2, 97, 3, 99]));
    assert_eq!(refused(&ids, None, 97), "token 2 is 97; the model's vocabulary is 97, its last id 96");
    assert!(matches!(
        TokenFile::open(&folder.0.path().join("none.txt"), None, 256),
        Err(DataError::Unreadable { .. })
    ));
    assert!(TokenFile::open(folder.0.path(), None, 256).is_err());
    let unknown = "json".parse::<DataFormat>().unwrap_err();
    assert_eq!(unknown.to_string(), "data format `json` is not known; text, u16 and llmc are");
    assert_eq!("llmc".parse(), Ok(DataFormat::Llmc));
}

#[test]
fn a_file_that_becomes_another_while_it_is_read_is_an_error() {
    let folder = Folder::new();
    let path = folder.file("ids.bin", &u16_bytes(&[1, 2, 3, 4]));
    let file = TokenFile::open(&path, None, 9).unwrap();
    let mut tokens = [0; 4];
    file.read(0, &mut tokens).unwrap();
    assert_eq!(tokens, [1, 2, 3, 4]);
    std::fs::write(&path, u16_bytes(&[1, 2, 3, 9])).unwrap();
    let error = file.read(2, &mut tokens[..2]).unwrap_err();
    assert!(matches!(error, DataError::Token { position: 3, token: 9, .. }), "{error}");
    std::fs::write(&path, u16_bytes(&[1, 2])).unwrap();
    let error = file.read(0, &mut tokens).unwrap_err().to_string();
    assert!(error.ends_with("it became shorter while it was read"), "{error}");
}

#[test]
fn long_files_are_checked_to_their_end() {
    let folder = Folder::new();
    let mut ids = vec![7u16; 3 << 19];
    let path = folder.file("ids.bin", &u16_bytes(&ids));
    assert_eq!(opened(&path, None, 8).unwrap().len(), ids.len());
    *ids.last_mut().unwrap() = 8;
    let path = folder.file("ids.bin", &u16_bytes(&ids));
    assert!(refused(&path, None, 8).starts_with("token 1572863 is 8;"));
}

#[test]
fn empty_and_short_files_say_what_a_batch_needs() {
    let folder = Folder::new();
    for (length, windows) in [(0, 0), (1, 0), (24, 2)] {
        let file = TokenFile::open(&folder.file("short.txt", &vec![b'a'; length]), None, 256).unwrap();
        let error = Batches::new(Tokens::File(file), 8, 3, 1, None).err().unwrap().to_string();
        assert_eq!(
            error,
            format!(
                "the data has {length} tokens, {windows} windows of 8; a global batch of 3 needs 25 tokens"
            )
        );
    }
    let file = TokenFile::open(&folder.file("enough.txt", &[b'a'; 25]), None, 256).unwrap();
    assert_eq!(Batches::new(Tokens::File(file), 8, 3, 1, None).ok().unwrap().windows, 3);
    let stream = || Tokens::Synthetic(Synthetic::new(0, 9).unwrap());
    assert!(matches!(Batches::new(stream(), 8, 3, 2, None), Err(DataError::Share { .. })));
    assert!(matches!(Batches::new(stream(), 0, 3, 1, None), Err(DataError::SequenceLength { .. })));
    assert!(matches!(Synthetic::new(0, 1), Err(DataError::Vocabulary { vocabulary: 1 })));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    /// All ranks and micro-batches together see the windows that the contract names, in its order.
    #[test]
    fn every_rank_sees_its_windows(
        length in 1usize..9, ranks in 1u64..4, accumulation in 1u64..4, micro in 1u64..3, spare in 0usize..60,
        step in 0u64..50, shuffle in proptest::option::of(any::<u64>()),
    ) {
        let batch = ranks * accumulation * micro;
        let data: Vec<u16> = (0..batch as usize * length + 1 + spare).map(|id| id as u16).collect();
        let path = Folder::new();
        let file = TokenFile::open(&path.file("ids.bin", &u16_bytes(&data)), None, 65536).unwrap();
        let batches = Batches::new(Tokens::File(file), length as u64, batch, ranks, shuffle).unwrap();
        let windows = ((data.len() - 1) / length) as u64;
        prop_assert_eq!(batches.windows, windows);
        let mut sequence = step * batch;
        for rank in 0..ranks {
            for turn in 0..accumulation {
                let mut inputs = vec![0; micro as usize * length];
                let mut targets = inputs.clone();
                batches.read(step, rank, turn, &mut inputs, &mut targets).unwrap();
                for row in 0..micro as usize {
                    let place = sequence % windows;
                    let window = shuffle.map_or(place, |seed| Permutation::new(windows, seed).of(place)) as usize;
                    let expected: Vec<u32> = (window * length..(window + 1) * length).map(|id| id as u32).collect();
                    prop_assert_eq!(&inputs[row * length..][..length], &expected[..]);
                    let expected: Vec<u32> = expected.iter().map(|id| id + 1).collect();
                    prop_assert_eq!(&targets[row * length..][..length], &expected[..]);
                    sequence += 1;
                }
            }
        }
    }

    #[test]
    fn shuffling_is_a_permutation(count in 1u64..2000, seed in any::<u64>()) {
        let permutation = Permutation::new(count, seed);
        let mut seen: Vec<u64> = (0..count).map(|index| permutation.of(index)).collect();
        seen.sort_unstable();
        prop_assert_eq!(seen, (0..count).collect::<Vec<_>>());
    }

    /// A read anywhere is a piece of a longer read, all ids are of the vocabulary, and seeds differ.
    #[test]
    fn synthetic_tokens_depend_on_their_position_alone(
        seed in any::<u64>(), vocabulary in 16u32..200_000, start in 0u64..1 << 50, skip in 0usize..600,
    ) {
        let stream = Synthetic::new(seed, vocabulary).unwrap();
        let mut long = [0; 900];
        stream.read(start, &mut long);
        prop_assert!(long.iter().all(|token| *token < vocabulary));
        let mut short = [0; 300];
        stream.read(start + skip as u64, &mut short);
        prop_assert_eq!(&short[..], &long[skip..][..300]);
        let mut other = [0; 300];
        Synthetic::new(seed ^ 1, vocabulary).unwrap().read(start, &mut other);
        prop_assert!(other[..] != long[..300]);
    }
}

#[test]
fn the_synthetic_stream_has_far_less_entropy_than_its_vocabulary() {
    for vocabulary in [2, 97, 50_257] {
        let stream = Synthetic::new(3, vocabulary).unwrap();
        let mut tokens = vec![0; 200_000];
        stream.read(0, &mut tokens);
        // Nats of a token given the two before it, by counting.
        let mut pairs: HashMap<[u32; 2], f64> = HashMap::new();
        let mut triples: HashMap<[u32; 3], f64> = HashMap::new();
        for three in tokens.windows(3) {
            *pairs.entry([three[0], three[1]]).or_default() += 1.0;
            *triples.entry([three[0], three[1], three[2]]).or_default() += 1.0;
        }
        let surprise =
            |(three, count): (&[u32; 3], &f64)| -count * (count / pairs[&[three[0], three[1]]]).ln();
        let entropy = triples.iter().map(surprise).sum::<f64>() / tokens.len() as f64;
        assert!(entropy < 0.97 * f64::from(vocabulary).ln() && entropy > 0.1, "{vocabulary}: {entropy}");
        if vocabulary > 64 {
            assert!(entropy < 0.45 * f64::from(vocabulary).ln(), "{vocabulary}: {entropy}");
        }
    }
}

#[test]
fn shuffling_moves_most_windows_and_stays_as_it_is() {
    let permutation = Permutation::new(1000, 0);
    assert!((0..1000).filter(|index| permutation.of(*index) == *index).count() < 10);
    let first: Vec<u64> = (0..6).map(|index| Permutation::new(10, 7).of(index)).collect();
    // Worked out elsewhere from the words of the documentation.
    assert_eq!(first, [8, 1, 5, 2, 4, 9]);
    assert_eq!([0, 1, 2, 3].map(|index| Permutation::new(1000, 3).of(index)), [955, 362, 177, 821]);
}
