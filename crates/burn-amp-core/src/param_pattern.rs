//! Parameters by the patterns of their paths, for `[parameters]`.

use std::{collections::BTreeMap, fmt};

use crate::Class;

/// A pattern of the paths of parameters, `head.*`: each `*` stands for any characters, or none.
///
/// ```
/// use burn_amp_core::{Class, ParamPattern, class_of_parameter};
///
/// let rules = [("encoder.*", Class::Low), ("encoder.*.norm.*", Class::Full)];
/// let rules = rules.map(|(pattern, class)| (ParamPattern::new(pattern).unwrap(), class)).into();
/// assert_eq!(class_of_parameter(&rules, "encoder.layers.3.linear.weight"), Some(Class::Low));
/// assert_eq!(class_of_parameter(&rules, "encoder.layers.3.norm.gamma"), Some(Class::Full));
/// assert_eq!(class_of_parameter(&rules, "head.weight"), None);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ParamPattern(String);

impl ParamPattern {
    /// A pattern; `None` if it is empty, or has a character that no path has: a space, `=` or `,`.
    pub fn new(pattern: impl Into<String>) -> Option<Self> {
        let pattern = pattern.into();
        let is_allowed = |c: char| !c.is_whitespace() && !c.is_control() && !"=,".contains(c);
        (!pattern.is_empty() && pattern.chars().all(is_allowed)).then_some(Self(pattern))
    }

    /// Whether the pattern is that of a path.
    pub fn matches(&self, path: &str) -> bool {
        let mut parts = self.0.split('*');
        let first = parts.next().unwrap_or_default();
        let Some(mut rest) = path.strip_prefix(first) else {
            return false;
        };
        let Some(last) = parts.next_back() else {
            return rest.is_empty();
        };
        // The leftmost place of each part leaves the most for those after it.
        for part in parts {
            match rest.find(part) {
                Some(at) => rest = &rest[at + part.len()..],
                None => return false,
            }
        }
        rest.ends_with(last)
    }

    /// The number of characters that are no `*`.
    fn literals(&self) -> usize {
        self.0.chars().filter(|c| *c != '*').count()
    }
}

impl fmt::Display for ParamPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The class of the ops that read the parameter with this path: that of the pattern with most characters besides `*`, and
/// of the last in the alphabet among several; `None` if no pattern matches.
pub fn class_of_parameter(rules: &BTreeMap<ParamPattern, Class>, path: &str) -> Option<Class> {
    let matching = rules.iter().filter(|(pattern, _)| pattern.matches(path));
    let (_, class) = matching.max_by_key(|(pattern, _)| pattern.literals())?;
    Some(*class)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn matches(pattern: &str, path: &str) -> bool {
        ParamPattern::new(pattern).unwrap().matches(path)
    }

    #[test]
    fn a_star_stands_for_any_characters() {
        for (pattern, path, expected) in [
            ("head.weight", "head.weight", true),
            ("head.weight", "head.weights", false),
            ("head.*", "head.weight", true),
            ("head.*", "ahead.weight", false),
            ("*.weight", "head.weight", true),
            ("*.weight", "weight", false),
            ("*norm*", "layers.0.norm_1.gamma", true),
            ("layers.*.norm.*", "layers.0.norm.gamma", true),
            ("layers.*.norm.*", "layers.norm.gamma", false),
            ("*", "", true),
            ("a*a", "a", false),
            ("a*a", "aa", true),
            ("a*b*b", "ab", false),
            ("**", "x", true),
        ] {
            assert_eq!(matches(pattern, path), expected, "{pattern} {path}");
        }
    }

    #[test]
    fn characters_that_no_path_has_are_refused() {
        for pattern in ["", "a b", "a=b", "a,b", "a\n"] {
            assert_eq!(ParamPattern::new(pattern), None, "{pattern:?}");
        }
    }

    #[test]
    fn the_pattern_that_says_most_decides() {
        let rules = [
            ("*", Class::Low),
            ("head.*", Class::Full),
            ("*.bias", Class::Keep),
        ];
        let rules = rules.map(|(pattern, class)| (ParamPattern::new(pattern).unwrap(), class));
        let class = |path| class_of_parameter(&rules.clone().into(), path);
        assert_eq!(class("head.weight"), Some(Class::Full));
        // Five characters each: the last in the alphabet.
        assert_eq!(class("head.bias"), Some(Class::Full));
        assert_eq!(class("body.weight"), Some(Class::Low));
    }

    /// The definition: a star stands for some number of characters.
    fn by_definition(pattern: &[char], path: &[char]) -> bool {
        match (pattern, path) {
            ([], path) => path.is_empty(),
            (['*', rest @ ..], path) => (0..=path.len()).any(|n| by_definition(rest, &path[n..])),
            ([c, rest @ ..], [d, path @ ..]) => c == d && by_definition(rest, path),
            (_, []) => false,
        }
    }

    proptest! {
        #[test]
        fn a_pattern_matches_as_defined(pattern in "[ab*]{1,6}", path in "[ab]{0,8}") {
            let chars = |text: &str| text.chars().collect::<Vec<_>>();
            let expected = by_definition(&chars(&pattern), &chars(&path));
            prop_assert_eq!(matches(&pattern, &path), expected);
        }
    }
}
