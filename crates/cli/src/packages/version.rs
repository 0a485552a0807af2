//! Compares versions of apps: numbers between dots by their value, and a version with a hyphen before the one without
//! (Semantic Versioning 2.0.0 §11). Apps may have versions of other forms; any two are ordered.

use std::cmp::Ordering;

/// Returns the order of two versions. What stands behind a plus sign does not count.
pub(super) fn compare(one: &str, other: &str) -> Ordering {
    let split = |version: &str| {
        let core = version.split('+').next().unwrap_or_default().to_owned();
        match core.split_once('-') {
            Some((core, pre)) => (core.to_owned(), Some(pre.to_owned())),
            None => (core, None),
        }
    };
    let ((one, one_pre), (other, other_pre)) = (split(one), split(other));
    by_parts(&one, &other).then_with(|| match (&one_pre, &other_pre) {
        (None, None) => Ordering::Equal,
        (None, Some(_)) => Ordering::Greater,
        (Some(_), None) => Ordering::Less,
        (Some(one), Some(other)) => by_parts(one, other),
    })
}

fn by_parts(one: &str, other: &str) -> Ordering {
    let mut others = other.split('.');
    for part in one.split('.') {
        let Some(other) = others.next() else { return Ordering::Greater };
        let order = match (number(part), number(other)) {
            (Some(part), Some(other)) => part.len().cmp(&other.len()).then(part.cmp(other)),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => part.cmp(other),
        };
        if order.is_ne() {
            return order;
        }
    }
    if others.next().is_some() { Ordering::Less } else { Ordering::Equal }
}

/// Returns the digits of a number without leading zeros, which have any length.
fn number(part: &str) -> Option<&str> {
    let is_number = !part.is_empty() && part.bytes().all(|it| it.is_ascii_digit());
    is_number.then(|| part.trim_start_matches('0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_in_order() {
        let ascending = [
            "0.9",
            "0.10",
            "1.0.0-alpha",
            "1.0.0-alpha.1",
            "1.0.0-beta.2",
            "1.0.0-beta.11",
            "1.0.0-rc",
            "1.0.0",
            "1.0.1",
            "1.0.x",
            "99999999999999999999999",
            "100000000000000000000000",
        ];
        for (at, one) in ascending.iter().enumerate() {
            for (other_at, other) in ascending.iter().enumerate() {
                assert_eq!(compare(one, other), at.cmp(&other_at), "{one} {other}");
            }
        }
        assert_eq!(compare("1.0+linux", "1.0+debian"), Ordering::Equal);
        assert_eq!(compare("1.02", "1.2"), Ordering::Equal);
    }
}
