//! Lists with an item for each chunk or stage, in which `ITEM@N` stands for N in a row.

use super::Parsed;
use super::number::whole;

/// Far more chunks or stages in a row than any pipeline has, and few enough to write out.
const MOST_IN_A_ROW: u64 = 65_536;

/// Reads items joined by `/`, each by `item`.
pub(super) fn parse<T: Clone>(text: &str, item: impl Fn(&str) -> Parsed<T>) -> Parsed<Vec<T>> {
    let mut list = Vec::new();
    for part in text.split('/') {
        match part.rsplit_once('@') {
            Some((one, times)) => {
                let times = whole(times, 1, MOST_IN_A_ROW)? as usize;
                list.extend(std::iter::repeat_n(item(one)?, times));
            }
            None => list.push(item(part)?),
        }
    }
    Ok(list)
}

/// The items joined by `/`, those that stand in a row written once.
pub(in crate::strategy) fn short<T: ToString>(items: &[T]) -> String {
    let items: Vec<String> = items.iter().map(T::to_string).collect();
    let runs = items.chunk_by(|one, other| one == other).map(|run| match run {
        [one] => one.clone(),
        many => format!("{}@{}", many[0], many.len()),
    });
    runs.collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::number::blocks;
    use super::*;

    #[test]
    fn items_in_a_row_are_written_once() {
        assert_eq!(short(&["none"; 19]), "none@19");
        assert_eq!(short(&["full", "none", "none", "full"]), "full/none@2/full");
        assert_eq!(parse("4@2/3", blocks).unwrap(), [4, 4, 3]);
        for wrong in ["4@0", "4@", "@4", "4@-1", "4@1.5", "4@65537", "4@2@2", "4@99999999999999999999"] {
            assert!(parse(wrong, blocks).is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_short_is_read_back(items in proptest::collection::vec(0u32..3, 1..40)) {
            prop_assert_eq!(parse(&short(&items), blocks).unwrap(), items);
        }
    }
}
