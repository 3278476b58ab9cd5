//! Quantities as types (bytes, seconds, FLOPs, rates), money, element types, and how they are shown to people.

mod count;
mod element;
mod money;
mod parse;
mod quantity;
mod tokens;
mod words;

pub use count::{Kilo, counts};
pub use element::ElementType;
pub use money::Price;
pub use parse::{QuantityError, Written, split as number_and_unit};
pub use quantity::{Bytes, BytesPerSecond, Flops, FlopsPerSecond, Money, Seconds};
pub use tokens::Tokens;
pub use words::{agreeing, noun_of, several, tenths, typed};

/// `value` with thousands separated by commas: `1,234,567`.
pub fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `numerator / denominator`, rounded up. `denominator` must not be 0.
pub const fn ceil_div(numerator: u64, denominator: u64) -> u64 {
    numerator.div_ceil(denominator)
}

#[cfg(test)]
mod tests {
    use super::grouped;

    #[test]
    fn digits_are_grouped_in_threes() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1000), "1,000");
        assert_eq!(grouped(70_553_706_496), "70,553,706,496");
    }
}
