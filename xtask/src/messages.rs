//! `book/src/messages.md`: its messages are those of the sources, and its links lead to its sections.

#[cfg(test)]
mod tests {
    use std::fs;

    use crate::{markdown, workspace};

    /// Messages that are put together from parts that are no words of their own.
    const OF_PLACES: [&str; 1] = ["amp.toml:3: …"];

    /// The rows of the table: the messages, and the link.
    fn rows(page: &str) -> Vec<(Vec<&str>, &str)> {
        let rows = page.lines().filter(|line| line.starts_with("| `"));
        rows.map(|row| {
            let (message, link) = row.split_once("` | [").expect("a message and a link");
            let messages = message.trim_start_matches("| `").split("`, `").collect();
            let (_, link) = link.split_once("](#").expect("a link to a section");
            (messages, link.trim_end_matches(") |"))
        })
        .collect()
    }

    /// The anchors of the sections.
    fn anchors(page: &str) -> Vec<String> {
        // Without the title of the page.
        markdown::anchors(page).split_off(1)
    }

    /// The sources of crates, with string literals in one line.
    fn sources(pattern: &str) -> String {
        let mut text = String::new();
        for path in workspace::files(pattern).unwrap() {
            let mut continues = false;
            for line in fs::read_to_string(workspace::root().join(path))
                .unwrap()
                .lines()
            {
                let line = if continues { line.trim_start() } else { line };
                continues = line.ends_with('\\');
                text.push_str(line.trim_end_matches('\\'));
                if !continues {
                    text.push('\n');
                }
            }
        }
        text
    }

    fn page() -> String {
        fs::read_to_string(workspace::root().join("book/src/messages.md")).unwrap()
    }

    #[test]
    fn every_section_has_a_row_and_every_row_a_section() {
        let page = page();
        let mut links: Vec<_> = rows(&page).into_iter().map(|(_, link)| link).collect();
        let mut anchors = anchors(&page);
        links.sort_unstable();
        anchors.sort_unstable();
        assert_eq!(links, anchors);
    }

    #[test]
    fn every_message_of_the_page_is_in_the_sources() {
        let page = page();
        let text = sources("crates/*.rs");
        for (messages, _) in rows(&page) {
            for message in messages
                .iter()
                .filter(|message| !OF_PLACES.contains(message))
            {
                let words = message
                    .split('…')
                    .map(|words| words.trim_matches([' ', ':', ',']));
                // Numbers and dtypes are put in when the message is given.
                for words in words
                    .flat_map(|words| words.split(" bf16"))
                    .filter(|words| words.len() > 8)
                {
                    assert!(
                        text.contains(words),
                        "no source has `{words}` of `{message}`"
                    );
                }
            }
        }
    }

    #[test]
    fn every_section_is_named_by_its_message_and_every_name_has_a_section() {
        let page = page();
        let text = sources("crates/burn-amp*/src/*.rs");
        let anchors = anchors(&page);
        for anchor in &anchors {
            assert!(
                text.contains(&format!("\"{anchor}\"")),
                "no message names `{anchor}`"
            );
        }
        for start in ["See(\"", "Warning::new(\""] {
            for named in text.split(start).skip(1) {
                let (named, _) = named.split_once('"').expect("the literal ends");
                assert!(
                    anchors.iter().any(|anchor| anchor == named),
                    "no section `{named}`"
                );
            }
        }
    }

    #[test]
    fn every_warning_has_a_row() {
        let text = sources("crates/burn-amp*/src/*.rs");
        let given = text.matches(".give(||").count();
        let rows = rows(&page())
            .into_iter()
            .filter(|(_, link)| WARNINGS.contains(link))
            .count();
        assert_eq!(
            given, rows,
            "a warning was added or removed: see book/src/messages.md"
        );
    }

    /// The sections of the warnings that are given once.
    const WARNINGS: [&str; 18] = [
        "a-learning-rate-that-moves-in-skipped-steps",
        "a-loss-scale-below-1",
        "gradients-that-f16-flushes-to-zero",
        "nothing-is-lowered",
        "a-preset-without-cast-parameters",
        "overflows-at-the-smallest-scale",
        "a-static-scale-that-overflows",
        "not-finite-and-not-skipped",
        "a-step-that-cannot-be-written",
        "a-plain-optimizer-and-half-parameters",
        "a-plain-optimizer-and-sync--false",
        "sync--false-with-another-optimizer",
        "burns-autodiff-outside-of-amp",
        "a-report-that-cannot-be-written",
        "a-loss-in-half-precision",
        "a-recorder-that-rounds",
        "a-parameter-without-a-name",
        "names-that-a-plain-optimizer-loses",
    ];
}
