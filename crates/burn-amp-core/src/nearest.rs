//! The name that was probably meant.

/// The candidate that is most similar to `name`; `None` if none is similar, or if several are equally similar.
///
/// Differences in case, `-` instead of `_` and a missing `float_` do not count. Apart from that, a third of the letters
/// may differ, but at least one.
pub(crate) fn nearest<'a>(
    name: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let name = name.to_lowercase().replace('-', "_");
    let allowed = (name.chars().count() / 3).max(1);
    let mut similar: Vec<_> = candidates
        .into_iter()
        .map(|candidate| (distance(&name, &candidate.to_lowercase()), candidate))
        .filter(|(distance, _)| *distance <= allowed)
        .collect();
    similar.sort_unstable();
    match similar[..] {
        [] => None,
        [(first, _), (second, _), ..] if first == second => None,
        [(_, candidate), ..] => Some(candidate),
    }
}

fn distance(name: &str, candidate: &str) -> usize {
    match candidate.strip_prefix("float_") {
        Some(rest) if rest == name => 0,
        _ => strsim::damerau_levenshtein(name, candidate),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Op;

    fn op(name: &str) -> Option<&'static str> {
        nearest(name, Op::ALL.iter().map(|op| op.name()))
    }

    #[test]
    fn typos_case_dashes_and_missing_prefixes_are_forgiven() {
        assert_eq!(op("softmx"), Some("softmax"));
        assert_eq!(op("sofmtax"), Some("softmax"));
        assert_eq!(op("float-exp"), Some("float_exp"));
        assert_eq!(op("MATMUL"), Some("float_matmul"));
        assert_eq!(nearest("BF16", ["f16", "bf16"]), Some("bf16"));
    }

    #[test]
    fn a_wild_guess_is_worse_than_none() {
        assert_eq!(op("quux"), None);
        assert_eq!(op(""), None);
        assert_eq!(nearest("o5", ["o0", "o1"]), None);
        assert_eq!(nearest("float64", ["auto", "bf16", "f16", "f32"]), None);
    }

    #[test]
    fn every_name_is_nearest_to_itself() {
        for name in Op::ALL.iter().map(|op| op.name()) {
            assert_eq!(op(name), Some(name));
        }
    }
}
