//! Reads the headings, links and code of Markdown pages.

/// The lines outside of fenced code, and the lines inside of it with the language of their fence.
pub fn lines(page: &str) -> impl Iterator<Item = (Option<&str>, &str)> {
    let mut language = None;
    page.lines().filter_map(move |line| {
        if let Some(fence) = line.trim_start().strip_prefix("```") {
            language = match language {
                None => Some(fence.trim()),
                Some(_) => None,
            };
            return None;
        }
        Some((language, line))
    })
}

/// The anchors that GitHub and mdBook give to the headings.
pub fn anchors(page: &str) -> Vec<String> {
    let text = lines(page).filter(|(language, _)| language.is_none());
    let headings = text.filter_map(|(_, line)| {
        let heading = line.trim_start_matches('#');
        (heading.len() < line.len()).then(|| heading.strip_prefix(' '))?
    });
    headings.map(anchor).collect()
}

fn anchor(heading: &str) -> String {
    let kept = heading.trim().to_lowercase();
    let kept = kept
        .chars()
        .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.collect::<String>().replace(' ', "-")
}

/// The targets of the links and pictures, without those in code.
pub fn links(page: &str) -> Vec<String> {
    let text = lines(page).filter(|(language, _)| language.is_none());
    text.flat_map(|(_, line)| of_line(&without_code(line)))
        .collect()
}

/// The code spans, without fenced code.
pub fn code(page: &str) -> impl Iterator<Item = &str> {
    let text = lines(page).filter(|(language, _)| language.is_none());
    text.flat_map(|(_, line)| line.split('`').skip(1).step_by(2))
}

fn of_line(line: &str) -> Vec<String> {
    let targets = line
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split_once(')'));
    targets.map(|(target, _)| target.to_owned()).collect()
}

/// A line with its code spans left out; a span in the label of a link does not hide the link.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_become_anchors_as_on_github() {
        let page = "# Burn's `Autodiff`\n```sh\n# a comment\n```\n## `sync = false`, again\n#tag\n";
        assert_eq!(anchors(page), ["burns-autodiff", "sync--false-again"]);
    }

    #[test]
    fn links_in_code_are_none() {
        let page =
            "see [a](a.md#b) and ![`c`](c.svg)\n`[x](y)`\n```\n[d](d.md)\n```\n[e](https://e.org)";
        assert_eq!(links(page), ["a.md#b", "c.svg", "https://e.org"]);
    }

    #[test]
    fn code_knows_its_language() {
        let page = "a\n```rust,no_run\nlet b;\n```\nc";
        let lines: Vec<_> = lines(page).collect();
        assert_eq!(
            lines,
            [(None, "a"), (Some("rust,no_run"), "let b;"), (None, "c")]
        );
    }
}
