//! Slurm's lists of nodes, such as `gpu[07-09,12],login1`.

/// The first host of `list`; none if it is no list of hosts.
///
/// Brackets hold numbers and ranges, of which the first number counts. A name may have several of them.
pub fn first(list: &str) -> Option<String> {
    let mut name = String::new();
    let mut rest = list.trim();
    while let Some(character) = rest.chars().next() {
        match character {
            ',' => break,
            '[' => {
                let (numbers, after) = rest[1..].split_once(']')?;
                let number = numbers.split([',', '-']).next()?;
                if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
                    return None;
                }
                name += number;
                rest = after;
            }
            ']' => return None,
            _ => {
                name.push(character);
                rest = &rest[character.len_utf8()..];
            }
        }
    }
    Some(name).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_a_list_is_found() {
        for (list, expected) in [
            ("node-1", Some("node-1")),
            ("gpu[07-09,12],login1", Some("gpu07")),
            ("a,b[1-2]", Some("a")),
            ("rack[1-2]node[003,5].site", Some("rack1node003.site")),
            ("n[5]", Some("n5")),
            ("", None),
            ("n[1-2", None),
            ("n[]", None),
            ("n1]", None),
            (",a", None),
        ] {
            assert_eq!(first(list).as_deref(), expected, "{list}");
        }
    }
}
