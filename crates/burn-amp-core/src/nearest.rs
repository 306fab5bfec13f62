//! The name that was probably meant.

/// What PyTorch, Apex, Keras and Lightning call a value or a key of ours, in lower case and with `_` for `-`.
const ELSEWHERE: [(&str, &str); 17] = [
    ("float16", "f16"),
    ("half", "f16"),
    ("16", "f16"),
    ("16_mixed", "f16"),
    ("mixed_float16", "f16"),
    ("bfloat16", "bf16"),
    ("bf16_mixed", "bf16"),
    ("mixed_bfloat16", "bf16"),
    ("float32", "f32"),
    ("float", "f32"),
    ("full", "f32"),
    ("tf32", "f32"),
    ("precision", "compute"),
    ("dtype", "compute"),
    ("opt_level", "preset"),
    ("on", "dynamic"),
    ("none", "off"),
];

/// The candidate that is most similar to `name`; `None` if none is similar, or if several are equally similar.
///
/// A word of another framework for one of the candidates is most similar to that one. For other names,
/// differences in case, `-` instead of `_` and a missing `float_` do not count. Apart from that, a third of the letters
/// may differ, but at least one.
pub(crate) fn nearest<'a>(
    name: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let name = name.to_lowercase().replace('-', "_");
    let candidates: Vec<_> = candidates.into_iter().collect();
    let elsewhere = ELSEWHERE.iter().find(|(theirs, _)| *theirs == name);
    let find = |name: &str| {
        let mut candidates = candidates.iter();
        candidates.find(|candidate| candidate.to_lowercase() == name)
    };
    if let (Some((_, ours)), None) = (elsewhere, find(&name))
        && let Some(found) = find(ours)
    {
        return Some(*found);
    }
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
    fn words_of_other_frameworks_mean_ours() {
        let compute = |name| nearest(name, ["auto", "bf16", "f16", "f32"]);
        assert_eq!(compute("float16"), Some("f16"));
        assert_eq!(compute("half"), Some("f16"));
        assert_eq!(compute("bf16-mixed"), Some("bf16"));
        assert_eq!(compute("float32"), Some("f32"));
        // `full` is a class of ours, and `f32` is none.
        assert_eq!(nearest("full", ["low", "full"]), Some("full"));
        assert_eq!(nearest("half", ["low", "full"]), None);
    }

    #[test]
    fn every_name_is_nearest_to_itself() {
        for name in Op::ALL.iter().map(|op| op.name()) {
            assert_eq!(op(name), Some(name));
        }
    }
}
